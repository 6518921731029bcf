//! Themis-D: an edge switch remembers the PSNs that it sent to each interface below it, and from them
//! tells the NACKs that prove a loss from those that a packet of another route has caused (sections 3.3
//! and 3.4).
//!
//! An RNIC's NACK is here an acknowledgement that does not move the ePSN and shows a packet beyond it:
//! what an early packet is answered with. One that moves the ePSN is an ACK there, whatever is missing
//! behind it. To block what an acknowledgement shows is to make it a plain cumulative one.

use std::collections::{HashMap, VecDeque};

use braid_wire::{Ack, Bitmap};

use crate::packet::{Body, EndId, Packet};
use crate::switch::{Action, GateContext, Pass};
use crate::time::Ps;
use crate::topology::{EqualCostRoutes, Topology};

#[derive(Debug)]
pub(crate) struct Destination {
    routes: EqualCostRoutes,
    /// PSNs that a ring holds.
    ring: usize,
    look_back: bool,
    compensate: bool,
    /// By the sending end.
    flows: HashMap<u32, Flow>,
}

#[derive(Debug, Default)]
struct Flow {
    /// What has come for the interface, the oldest first.
    ring: VecDeque<Entry>,
    /// The ePSN of the last acknowledgement.
    epsn: Option<u32>,
    /// The ePSN that was NACKed last, and whether its NACK may pass.
    judged: Option<(u32, bool)>,
    blocked: Option<Blocked>,
}

/// A packet on its way to the interface.
#[derive(Clone, Copy, Debug)]
struct Entry {
    psn: u32,
    /// When it has got to the head of its queue in the switch.
    leaves: Ps,
}

/// BePSN while it is valid, and the NACK that was blocked.
#[derive(Debug)]
struct Blocked {
    epsn: u32,
    packet: Packet,
    nack: Ack,
}

/// What a NACK turns out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judgement {
    /// A later packet of the same way has arrived: the expected one is lost.
    Lost,
    /// Nothing is known yet.
    Late,
    /// The expected packet has passed here since.
    Passed,
}

impl Destination {
    pub(crate) fn new(topology: &Topology, ring: u32, look_back: bool, compensate: bool) -> Self {
        let routes = EqualCostRoutes::new(topology);
        Destination { routes, ring: ring as usize, look_back, compensate, flows: HashMap::new() }
    }

    pub(crate) fn on_packet(&mut self, packet: Packet, context: &mut GateContext<'_>) -> Pass {
        let is_here = |nic: u32| context.topology.nics[nic as usize].edge == context.switch;
        let (from_here, to_here) = (is_here(packet.src), is_here(packet.dst));
        if packet.is_data() && !packet.trimmed && to_here && !from_here {
            self.on_data(&packet, context);
        } else if from_here && !to_here {
            self.on_ack(&packet, context);
        }
        Pass::On(packet, None)
    }

    fn on_data(&mut self, packet: &Packet, context: &mut GateContext<'_>) {
        let count = self.routes.between(context.topology, packet.src, packet.dst);
        let flow = self.flows.entry(EndId(packet.end).peer().0).or_default();
        if self.compensate
            && let Some(blocked) = flow.compensate(packet.psn, count)
        {
            context.actions.push(Action::Send(blocked.packet, Body::Ack(blocked.nack)));
        }
        let queue = context.ports.first().map(|port| &context.queues[port.index()]);
        let wait = queue.map_or(Ps::ZERO, |queue| queue.rate.time_for_long(queue.bytes));
        flow.remember(
            Entry { psn: packet.psn, leaves: context.now + wait },
            context.now,
            self.ring,
        );
    }

    fn on_ack(&mut self, packet: &Packet, context: &mut GateContext<'_>) {
        let Some(ack) = context.bodies.ack_mut(packet) else { return };
        let Some(flow) = self.flows.get_mut(&packet.end) else { return };
        let routes = self.routes.between(context.topology, packet.src, packet.dst);
        flow.filter(packet, ack, routes, self.look_back);
    }
}

impl Flow {
    /// The ring is for what is on the last hop: what still waits in the switch needs no room.
    fn remember(&mut self, entry: Entry, now: Ps, room: usize) {
        self.ring.push_back(entry);
        while self.ring.get(room).is_some_and(|entry| entry.leaves <= now) {
            self.ring.pop_front();
        }
    }

    /// An acknowledgement comes by: what it shows is taken out unless it is a NACK that may pass.
    fn filter(&mut self, packet: &Packet, ack: &mut Ack, routes: u32, look_back: bool) {
        let epsn = ack.cumulative;
        let moves = self.epsn.replace(epsn).is_some_and(|before| before != epsn);
        if !is_beyond(ack.highest, epsn) {
            return;
        }
        let is_new = self.judged.is_none_or(|(judged, _)| judged != epsn);
        if is_new && !moves {
            let judgement = self.judge(epsn, routes, look_back);
            if judgement == Judgement::Late {
                self.blocked = Some(Blocked { epsn, packet: *packet, nack: ack.clone() });
            }
            self.judged = Some((epsn, judgement == Judgement::Lost));
        }
        if self.judged != Some((epsn, true)) {
            ack.bitmap = Bitmap::default();
            ack.highest = epsn.wrapping_sub(1) & PSN_MASK;
        }
    }

    /// Takes from the ring what came before the first PSN beyond the ePSN, which is the one that has
    /// triggered the NACK: tPSN. It stays, for it may speak of the next ePSN too. A ring that was too
    /// short for it proves nothing, and the NACK passes.
    fn judge(&mut self, epsn: u32, routes: u32, look_back: bool) -> Judgement {
        while self.ring.front().is_some_and(|entry| !is_beyond(entry.psn, epsn)) {
            self.ring.pop_front();
        }
        match self.ring.front() {
            Some(trigger) if !same_route(trigger.psn, epsn, routes) => {}
            _ => return Judgement::Lost,
        }
        if !look_back {
            return Judgement::Late;
        }
        // What has followed on the way of the expected packet meanwhile? The first decides.
        let speaks =
            |psn: &u32| *psn == epsn || is_beyond(*psn, epsn) && same_route(*psn, epsn, routes);
        match self.ring.iter().map(|entry| entry.psn).find(speaks) {
            Some(psn) if psn == epsn => Judgement::Passed,
            Some(_) => Judgement::Lost,
            None => Judgement::Late,
        }
    }

    /// A packet comes by. If it proves the loss of BePSN, the NACK that was blocked is due; if it is
    /// BePSN, none is needed any more.
    fn compensate(&mut self, psn: u32, routes: u32) -> Option<Blocked> {
        let epsn = self.blocked.as_ref()?.epsn;
        let proves = is_beyond(psn, epsn) && same_route(psn, epsn, routes);
        if !proves && psn != epsn {
            return None;
        }
        let blocked = self.blocked.take().filter(|_| proves)?;
        // As far as its sender knows by now, this ePSN is NACKed.
        if let Some((judged, passes)) = &mut self.judged {
            *passes |= *judged == epsn;
        }
        Some(blocked)
    }
}

const PSN_MASK: u32 = 0xFF_FFFF;

/// Whether one PSN (24 bits) comes after another.
fn is_beyond(psn: u32, other: u32) -> bool {
    let by = psn.wrapping_sub(other) & PSN_MASK;
    by != 0 && by <= PSN_MASK / 2
}

/// Themis, Eq. 3. Where PSNs wrap it holds for a number of routes that is a power of two.
fn same_route(psn: u32, other: u32, routes: u32) -> bool {
    psn % routes == other % routes
}

#[cfg(test)]
mod tests;
