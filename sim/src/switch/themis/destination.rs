//! Themis-D: an edge switch remembers the PSNs that it sent to each interface below it. From them
//! it tells NACKs that prove a loss from those that a packet of another route has triggered
//! (sections 3.3 and 3.4).
//!
//! The NACK of an RNIC is here an acknowledgement that does not advance the ePSN and reports a
//! packet beyond it: the reply to an early packet. An acknowledgement that advances the ePSN is an
//! ACK of the RNIC, whatever is missing after it. Blocking a NACK means reducing the
//! acknowledgement to a plain cumulative one.
//!
//! While an uplink of the switch has failed, the fabric hashes flows (section 6). Then a PSN tells
//! nothing about the route, and all NACKs pass.

use std::collections::{HashMap, VecDeque};

use braid_wire::{Ack, Bitmap};

use crate::packet::{Body, EndId, Packet};
use crate::switch::{Action, GateContext, Pass};
use crate::time::Ps;
use crate::topology::{EqualCostRoutes, Topology, Uplinks};

#[derive(Debug)]
pub(crate) struct Destination {
    routes: EqualCostRoutes,
    uplinks: Uplinks,
    /// Capacity of a ring, in PSNs.
    ring: usize,
    look_back: bool,
    compensate: bool,
    /// The flows, by sending end.
    flows: HashMap<u32, Flow>,
}

#[derive(Debug, Default)]
struct Flow {
    /// The packets sent to the interface, the oldest first.
    ring: VecDeque<RingEntry>,
    /// The ePSN of the last acknowledgement.
    epsn: Option<u32>,
    /// The ePSN that was NACKed last, and whether its NACK passes.
    judged: Option<(u32, bool)>,
    blocked: Option<Blocked>,
}

/// A packet sent to the interface.
#[derive(Clone, Copy, Debug)]
struct RingEntry {
    psn: u32,
    /// The time at which it reaches the head of its queue in the switch.
    leaves: Ps,
}

/// BePSN while it is valid, and the blocked NACK.
#[derive(Debug)]
struct Blocked {
    epsn: u32,
    packet: Packet,
    nack: Ack,
}

/// The verdict on a NACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judgement {
    /// A later packet of the same route has arrived, so the expected one is lost.
    Lost,
    /// No verdict is possible yet.
    Late,
    /// The expected packet has passed this switch since.
    Passed,
}

impl Destination {
    pub(crate) fn new(
        topology: &Topology,
        switch: u32,
        ring: u32,
        look_back: bool,
        compensate: bool,
    ) -> Self {
        Destination {
            routes: EqualCostRoutes::new(topology),
            uplinks: Uplinks::new(topology, switch),
            ring: ring as usize,
            look_back,
            compensate,
            flows: HashMap::new(),
        }
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
            RingEntry { psn: packet.psn, leaves: context.now + wait },
            context.now,
            self.ring,
        );
    }

    fn on_ack(&mut self, packet: &Packet, context: &mut GateContext<'_>) {
        let Some(ack) = context.bodies.ack_mut(packet) else { return };
        if context.ports != self.uplinks.ports {
            self.flows.remove(&packet.end);
            return;
        }
        let Some(flow) = self.flows.get_mut(&packet.end) else { return };
        let routes = self.routes.between(context.topology, packet.src, packet.dst);
        flow.filter(packet, ack, routes, self.look_back);
    }
}

impl Flow {
    /// Adds a packet to the ring. The ring holds packets on the last hop; those that still wait in
    /// the switch do not count.
    fn remember(&mut self, entry: RingEntry, now: Ps, room: usize) {
        self.ring.push_back(entry);
        while self.ring.get(room).is_some_and(|entry| entry.leaves <= now) {
            self.ring.pop_front();
        }
    }

    /// Filters an acknowledgement: its report is removed if it is a NACK that must not pass.
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

    /// Judges a NACK. Removes from the ring all packets before the first PSN beyond the ePSN, which
    /// has triggered the NACK: tPSN. It stays, because it may be needed for the next ePSN. If the
    /// ring was too short for tPSN, it proves nothing, and the NACK passes.
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
        // The first packet since then that used the route of the expected packet decides.
        let decides =
            |psn: &u32| *psn == epsn || is_beyond(*psn, epsn) && same_route(*psn, epsn, routes);
        match self.ring.iter().map(|entry| entry.psn).find(decides) {
            Some(psn) if psn == epsn => Judgement::Passed,
            Some(_) => Judgement::Lost,
            None => Judgement::Late,
        }
    }

    /// Handles a packet after a blocked NACK. If the packet proves the loss of BePSN, the blocked
    /// NACK is due. If it is BePSN, no NACK is needed.
    fn compensate(&mut self, psn: u32, routes: u32) -> Option<Blocked> {
        let epsn = self.blocked.as_ref()?.epsn;
        let proves = is_beyond(psn, epsn) && same_route(psn, epsn, routes);
        if !proves && psn != epsn {
            return None;
        }
        let blocked = self.blocked.take().filter(|_| proves)?;
        // The sender knows by now that this ePSN is NACKed.
        if let Some((judged, passes)) = &mut self.judged {
            *passes |= *judged == epsn;
        }
        Some(blocked)
    }
}

const PSN_MASK: u32 = 0xFF_FFFF;

/// Returns whether one PSN (24 bits) follows another.
fn is_beyond(psn: u32, other: u32) -> bool {
    let by = psn.wrapping_sub(other) & PSN_MASK;
    by != 0 && by <= PSN_MASK / 2
}

/// Themis, Eq. 3. At the wrap of the PSN it holds if the number of routes is a power of two.
fn same_route(psn: u32, other: u32, routes: u32) -> bool {
    psn % routes == other % routes
}

#[cfg(test)]
mod tests;
