//! The edge switch above the receiver, which puts rerouted packets behind the tail.

use std::collections::HashMap;

use super::send_note;
use super::tag::{Epoch, Kind, Stamp, Tag};
use crate::packet::Packet;
use crate::switch::gate_context::{Action, GateContext, Pass};
use crate::time::Ps;
use crate::topology::{Tier, Topology};

/// Time after the expected arrival of the tail at which held packets are released, by tiers.
const GRACE: [Ps; 2] = [Ps::from_micros(16), Ps::from_micros(64)];
/// Expected time of the tail's arrival if no packet of the old path has arrived, by tiers.
const UNKNOWN: [Ps; 2] = [Ps::from_micros(200), Ps::from_micros(600)];

#[derive(Debug)]
pub(crate) struct DestinationEdge {
    grace: Ps,
    unknown: Ps,
    /// The flows, by receiving end.
    flows: HashMap<u32, DestinationFlow>,
}

#[derive(Debug, Default)]
struct DestinationFlow {
    epoch: Epoch,
    /// Whether rerouted packets pass: the tail has arrived or is given up.
    open: bool,
    /// The last packet on the first path: the times at which it left its edge switch and arrived.
    before: Option<(Stamp, Ps)>,
    held: Vec<Packet>,
    /// The time at which the tail left its edge switch, if packets are held.
    tail: Option<Stamp>,
    /// The time at which held packets are released.
    due: Ps,
    /// The time of the scheduled wake-up.
    wake: Option<Ps>,
}

impl DestinationEdge {
    pub(super) fn new(topology: &Topology) -> DestinationEdge {
        let is_tall = topology.switches.iter().any(|switch| switch.tier == Tier::Core);
        let by_tiers = |times: [Ps; 2]| times[usize::from(is_tall)];
        DestinationEdge {
            grace: by_tiers(GRACE),
            unknown: by_tiers(UNKNOWN),
            flows: HashMap::new(),
        }
    }

    /// Handles a packet from another edge switch to a host below.
    pub(super) fn on_data(&mut self, packet: Packet, context: &mut GateContext<'_>) -> Pass {
        let Some(tag) = Tag::of(&packet) else { return Pass::On(packet, None) };
        if packet.marked {
            send_note(Kind::Marked, &packet, tag, context);
        }
        let flow = self.flows.entry(packet.end).or_default();
        if tag.epoch.follows(flow.epoch) {
            flow.begin(tag.epoch, context);
        } else if tag.epoch != flow.epoch {
            return Pass::On(packet, None);
        }
        match tag.kind {
            Kind::Request => send_note(Kind::Reply, &packet, tag, context),
            Kind::Tail => {
                send_note(Kind::Clear, &packet, tag, context);
                flow.release(context);
            }
            Kind::Rerouted if flow.open => {}
            Kind::Rerouted => {
                flow.hold(packet, tag.sent, context);
                flow.wait(self.unknown, self.grace, context);
                flow.arm(packet.end, context);
                return Pass::Held;
            }
            _ => {}
        }
        if tag.kind != Kind::Rerouted {
            flow.before = Some((tag.sent, context.now));
            flow.wait(self.unknown, self.grace, context);
            flow.arm(packet.end, context);
        }
        Pass::On(packet, None)
    }

    pub(super) fn on_wake(&mut self, end: u32, context: &mut GateContext<'_>) {
        let Some(flow) = self.flows.get_mut(&end) else { return };
        flow.wake = flow.wake.filter(|at| *at > context.now);
        if flow.tail.is_some() && flow.due <= context.now {
            flow.release(context);
        } else {
            flow.arm(end, context);
        }
    }
}

impl DestinationFlow {
    fn begin(&mut self, epoch: Epoch, context: &mut GateContext<'_>) {
        self.release(context);
        (self.epoch, self.open, self.before) = (epoch, false, None);
    }

    /// Releases the held packets behind the current one. No more packets of this epoch are held.
    fn release(&mut self, context: &mut GateContext<'_>) {
        context.actions.extend(self.held.drain(..).map(|packet| Action::Release(packet, None)));
        (self.open, self.tail) = (true, None);
    }

    fn hold(&mut self, packet: Packet, tail: Stamp, context: &GateContext<'_>) {
        if self.held.is_empty() {
            self.due = context.now;
        }
        self.held.push(packet);
        self.tail = Some(tail);
    }

    /// Computes the expected arrival of the tail. The gap to the last packet on the same path is
    /// presumed to be the same at both edge switches.
    fn wait(&mut self, unknown: Ps, grace: Ps, context: &GateContext<'_>) {
        let Some(tail) = self.tail else { return };
        let expected = match self.before {
            Some((sent, came)) => came + tail.since(sent),
            None if self.held.len() == 1 => context.now + unknown,
            None => return,
        };
        self.due = expected.max(context.now) + grace;
    }

    /// Schedules the wake-up at which held packets are released.
    fn arm(&mut self, end: u32, context: &mut GateContext<'_>) {
        if self.tail.is_some() && self.wake.is_none_or(|at| at > self.due) {
            self.wake = Some(self.due);
            context.actions.push(Action::Wake(self.due.since(context.now), end));
        }
    }
}
