//! The edge switch above the sender, which chooses the path of every flow.

use std::collections::HashMap;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::tag::{Epoch, Kind, Stamp, Tag};
use super::{AVOIDED, NOTE_BYTES, REPLY_GRACE, port_of, tag};
use crate::packet::Packet;
use crate::switch::gate_context::{GateContext, Pass};
use crate::time::Ps;
use crate::topology::{EqualCostRoutes, Tier, Topology, Uplinks};

/// A flow that was silent for this long starts again, because none of its packets is in flight. By
/// tiers.
const SILENT: [Ps; 2] = [Ps::from_micros(300), Ps::from_micros(1000)];

#[derive(Debug)]
pub(crate) struct SourceEdge {
    uplinks: Uplinks,
    /// Rows of paths. A path is an uplink and a row.
    rows: usize,
    silent: Ps,
    /// The flows, by receiving end.
    flows: HashMap<u32, SourceFlow>,
    /// Paths reported as marked, by destination edge and path, with the end of their avoidance.
    marked: HashMap<(u32, u16), Ps>,
    rng: Pcg64Mcg,
}

#[derive(Clone, Copy, Debug)]
struct SourceFlow {
    path: u16,
    epoch: Epoch,
    phase: Phase,
    /// The time of the flow's last packet.
    last: Ps,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The next packet begins an epoch.
    Settled,
    /// A reply is due at this time.
    Asked(Ps),
    /// The tail has left at this time.
    Rerouted(Stamp),
}

impl SourceEdge {
    pub(super) fn new(topology: &Topology, uplinks: Uplinks, rng: Pcg64Mcg) -> SourceEdge {
        let is_tall = topology.switches.iter().any(|switch| switch.tier == Tier::Core);
        let (flows, marked) = (HashMap::new(), HashMap::new());
        let paths = (EqualCostRoutes::new(topology).most() as usize).min(tag::PATHS);
        let rows = paths.checked_div(uplinks.ports.len()).unwrap_or(1).max(1);
        SourceEdge { uplinks, rows, silent: SILENT[usize::from(is_tall)], flows, marked, rng }
    }

    /// Handles a packet from a host below to another edge switch.
    pub(super) fn on_data(&mut self, packet: Packet, context: &GateContext<'_>) -> Pass {
        let known = self.flows.get(&packet.end).copied();
        let known = known.filter(|flow| {
            context.now.since(flow.last) <= self.silent
                && port_of(&self.uplinks, flow.path, context.ports).is_some()
        });
        let (flow, tag) = match known {
            Some(flow) => self.go_on(flow, &packet, context),
            None => self.start(&packet, context),
        };
        self.flows.insert(packet.end, SourceFlow { last: context.now, ..flow });
        Pass::On(
            Packet { tag: tag.write(), ..packet },
            port_of(&self.uplinks, tag.path, context.ports),
        )
    }

    /// Starts a flow that is new, has been silent, or has lost its route.
    fn start(&mut self, packet: &Packet, context: &GateContext<'_>) -> (SourceFlow, Tag) {
        let epoch = self.flows.get(&packet.end).map_or(Epoch::default(), |flow| flow.epoch.next());
        let path = self.good_path(packet, context).unwrap_or_else(|| self.draw(context));
        let flow = SourceFlow { path, epoch, phase: Phase::Settled, last: context.now };
        self.ask(flow, packet, context)
    }

    fn go_on(
        &mut self,
        flow: SourceFlow,
        packet: &Packet,
        context: &GateContext<'_>,
    ) -> (SourceFlow, Tag) {
        let tag = |kind, sent| Tag { kind, epoch: flow.epoch, path: flow.path, sent };
        let now = Stamp::at(context.now);
        match flow.phase {
            Phase::Settled => {
                self.ask(SourceFlow { epoch: flow.epoch.next(), ..flow }, packet, context)
            }
            Phase::Asked(due) if context.now <= due => (flow, tag(Kind::Data, now)),
            Phase::Asked(_) => {
                let path = self.good_path(packet, context).unwrap_or(flow.path);
                (SourceFlow { path, phase: Phase::Rerouted(now), ..flow }, tag(Kind::Tail, now))
            }
            Phase::Rerouted(tail) => (flow, tag(Kind::Rerouted, tail)),
        }
    }

    /// Tags the first packet of an epoch, which asks for a reply.
    fn ask(
        &mut self,
        flow: SourceFlow,
        packet: &Packet,
        context: &GateContext<'_>,
    ) -> (SourceFlow, Tag) {
        let due = context.now + self.round_trip(packet, flow.path, context) + REPLY_GRACE;
        let (epoch, path) = (flow.epoch, flow.path);
        let tag = Tag { kind: Kind::Request, epoch, path, sent: Stamp::at(context.now) };
        (SourceFlow { phase: Phase::Asked(due), ..flow }, tag)
    }

    /// Returns the round-trip time between the two edge switches in an empty network.
    fn round_trip(&self, packet: &Packet, path: u16, context: &GateContext<'_>) -> Ps {
        let links = match context.topology.meeting_tier(packet.src, packet.dst) {
            Tier::Core => 4,
            _ => 2,
        };
        let Some(port) = port_of(&self.uplinks, path, context.ports) else { return Ps::ZERO };
        let link = &context.queues[port.index()];
        (link.delay * 2 + link.rate.time_for(packet.bytes) + link.rate.time_for(NOTE_BYTES)) * links
    }

    /// Returns the first of two random paths that has not been reported as marked.
    fn good_path(&mut self, packet: &Packet, context: &GateContext<'_>) -> Option<u16> {
        let edge = context.topology.nics[packet.dst as usize].edge;
        let drawn = [self.draw(context), self.draw(context)];
        let is_good =
            |path: &u16| self.marked.get(&(edge, *path)).is_none_or(|until| *until <= context.now);
        drawn.into_iter().find(is_good)
    }

    /// Draws a random path over a port that is on a route.
    fn draw(&mut self, context: &GateContext<'_>) -> u16 {
        let port = context.ports[self.rng.random_range(0..context.ports.len())];
        let uplinks = &self.uplinks.ports;
        let at = uplinks.iter().position(|uplink| *uplink == port).unwrap_or(0);
        (at + uplinks.len() * self.rng.random_range(0..self.rows)) as u16
    }

    /// Handles a note from the edge switch at the far end.
    pub(super) fn on_note(&mut self, packet: &Packet, note: Tag, context: &GateContext<'_>) {
        if note.kind == Kind::Marked {
            let edge = context.topology.nics[packet.src as usize].edge;
            self.marked.insert((edge, note.path), context.now + AVOIDED);
            return;
        }
        let flow = self.flows.get_mut(&packet.end).filter(|flow| flow.epoch == note.epoch);
        let Some(flow) = flow else { return };
        match (note.kind, flow.phase) {
            (Kind::Reply, Phase::Asked(due)) if context.now <= due => flow.phase = Phase::Settled,
            (Kind::Clear, Phase::Rerouted(_)) => flow.phase = Phase::Settled,
            _ => {}
        }
    }
}
