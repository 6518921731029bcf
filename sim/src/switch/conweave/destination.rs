//! The edge switch above the receiver: it puts rerouted packets behind the tail.

use std::collections::HashMap;

use super::tag::{Epoch, Kind, Stamp, Tag};
use super::tell;
use crate::packet::Packet;
use crate::switch::gate_context::{Action, GateContext, Pass};
use crate::time::Ps;
use crate::topology::{Tier, Topology};

/// How long after the tail should have come it is not waited for any more. By tiers.
const GRACE: [Ps; 2] = [Ps::from_micros(16), Ps::from_micros(64)];
/// When the tail should come, where nothing of the old path has. By tiers.
const UNKNOWN: [Ps; 2] = [Ps::from_micros(200), Ps::from_micros(600)];

#[derive(Debug)]
pub(crate) struct Destination {
    grace: Ps,
    unknown: Ps,
    /// By receiving end.
    flows: HashMap<u32, Flow>,
}

#[derive(Debug, Default)]
struct Flow {
    epoch: Epoch,
    /// The tail has come, or is given up: rerouted packets pass.
    open: bool,
    /// The last packet on the first path: when it left its edge switch, and came.
    before: Option<(Stamp, Ps)>,
    held: Vec<Packet>,
    /// When the tail left its edge switch, if packets are held.
    tail: Option<Stamp>,
    /// Until when they are held.
    due: Ps,
    /// When the next wake-up comes, if one is on its way.
    wake: Option<Ps>,
}

impl Destination {
    pub(super) fn new(topology: &Topology) -> Destination {
        let is_tall = topology.switches.iter().any(|switch| switch.tier == Tier::Core);
        let by_tiers = |times: [Ps; 2]| times[usize::from(is_tall)];
        Destination { grace: by_tiers(GRACE), unknown: by_tiers(UNKNOWN), flows: HashMap::new() }
    }

    /// A packet for a host below comes from another edge switch.
    pub(super) fn on_data(&mut self, packet: Packet, context: &mut GateContext<'_>) -> Pass {
        let Some(tag) = Tag::of(&packet) else { return Pass::On(packet, None) };
        if packet.marked {
            tell(Kind::Marked, &packet, tag, context);
        }
        let flow = self.flows.entry(packet.end).or_default();
        if tag.epoch.follows(flow.epoch) {
            flow.begin(tag.epoch, context);
        } else if tag.epoch != flow.epoch {
            return Pass::On(packet, None);
        }
        match tag.kind {
            Kind::Request => tell(Kind::Reply, &packet, tag, context),
            Kind::Tail => {
                tell(Kind::Clear, &packet, tag, context);
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

impl Flow {
    fn begin(&mut self, epoch: Epoch, context: &mut GateContext<'_>) {
        self.release(context);
        (self.epoch, self.open, self.before) = (epoch, false, None);
    }

    /// What is held goes on, behind the packet at hand, and nothing of this epoch is held any more.
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

    /// Expects the tail as long after the last packet on its path as it left after that one.
    fn wait(&mut self, unknown: Ps, grace: Ps, context: &GateContext<'_>) {
        let Some(tail) = self.tail else { return };
        let expected = match self.before {
            Some((sent, came)) => came + tail.since(sent),
            None if self.held.len() == 1 => context.now + unknown,
            None => return,
        };
        self.due = expected.max(context.now) + grace;
    }

    /// Sees to it that it is looked at in time.
    fn arm(&mut self, end: u32, context: &mut GateContext<'_>) {
        if self.tail.is_some() && self.wake.is_none_or(|at| at > self.due) {
            self.wake = Some(self.due);
            context.actions.push(Action::Wake(self.due.since(context.now), end));
        }
    }
}
