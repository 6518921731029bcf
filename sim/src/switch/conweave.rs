//! ConWeave (Song et al., SIGCOMM 2023). An edge switch measures the round trip of each flow's path
//! and moves a flow whose path is slow to another path. The edge switch at the far end restores the
//! order of its packets.
//!
//! A flow lives in *epochs*. The first packet of an epoch asks for a reply. If the reply comes in
//! time, the next epoch begins. If not, the flow takes one of two random paths, unless both have
//! been reported as marked. The last packet on the old path is a *tail*, and the packets after it
//! are *rerouted*. The far end holds them until the tail has arrived or is overdue. Then it sends
//! *clear*, and the next epoch begins. So a flow never uses more than two paths at once.
//!
//! Details follow the authors' simulator (conweave-project/conweave-ns3): the times, a tail even if
//! no good path is found, and a report for every marked packet. The number and length of the queues
//! of held packets are not limited.

mod destination;
mod source;
mod tag;

use destination::DestinationEdge;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use source::SourceEdge;
use tag::{Kind, Tag};

use super::gate_context::{Action, GateContext, Pass};
use crate::packet::{Body, Class, Packet};
use crate::time::Ps;
use crate::topology::{PortId, Tier, Topology, Uplinks};

/// Time beyond the round trip of an empty network after which a reply is late.
const REPLY_GRACE: Ps = Ps::from_micros(4);
/// Time for which a path reported as marked is avoided.
const AVOIDED: Ps = Ps::from_micros(16);
/// Bytes of a packet between edge switches.
const NOTE_BYTES: u32 = 64;

/// A switch that takes part in ConWeave.
#[derive(Debug)]
pub(crate) enum ConWeave {
    /// An edge switch: it chooses paths for the hosts below it, and reorders packets to them.
    Edge { source: Box<SourceEdge>, destination: DestinationEdge },
    /// A switch above the edges: it routes by the path.
    Above(Uplinks),
}

impl ConWeave {
    /// Creates the state of a switch. `None`: the switch has no choice to make.
    pub(crate) fn new(topology: &Topology, switch: u32, seed: u64) -> Option<ConWeave> {
        let uplinks = Uplinks::new(topology, switch);
        match topology.switches[switch as usize].tier {
            Tier::Edge => {
                let mut rng = Pcg64Mcg::seed_from_u64(seed);
                let source =
                    SourceEdge::new(topology, uplinks, Pcg64Mcg::seed_from_u64(rng.random()));
                let destination = DestinationEdge::new(topology);
                Some(ConWeave::Edge { source: Box::new(source), destination })
            }
            Tier::Agg if !uplinks.ports.is_empty() => Some(ConWeave::Above(uplinks)),
            _ => None,
        }
    }

    pub(crate) fn on_packet(&mut self, packet: Packet, context: &mut GateContext<'_>) -> Pass {
        match self {
            ConWeave::Above(uplinks) => {
                let named =
                    Tag::of(&packet).and_then(|tag| port_of(uplinks, tag.path, context.ports));
                Pass::On(packet, named)
            }
            ConWeave::Edge { source, destination } => {
                if let Some(note) = Tag::of(&packet).filter(|_| packet.class == Class::Control) {
                    context.bodies.unload(&packet);
                    source.on_note(&packet, note, context);
                    return Pass::Held; // consumed: the packet was for this switch
                }
                let edge = |nic: u32| context.topology.nics[nic as usize].edge;
                match (edge(packet.src) == context.switch, edge(packet.dst) == context.switch) {
                    (true, false) if packet.is_data() => source.on_data(packet, context),
                    (false, true) if packet.is_data() => destination.on_data(packet, context),
                    _ => Pass::On(packet, None),
                }
            }
        }
    }

    pub(crate) fn on_wake(&mut self, token: u32, context: &mut GateContext<'_>) {
        if let ConWeave::Edge { destination, .. } = self {
            destination.on_wake(token, context);
        }
    }
}

/// Returns the port of a path at this switch. `None`: the port is not on a route.
fn port_of(uplinks: &Uplinks, path: u16, ports: &[PortId]) -> Option<PortId> {
    uplinks.of_route(path.into()).filter(|port| ports.contains(port))
}

/// Sends a note to the edge switch that a packet came from. The tag has the packet's epoch and
/// path.
fn send_note(kind: Kind, of: &Packet, tag: Tag, context: &mut GateContext<'_>) {
    let note = Packet::new(of.dst, of.src, of.end, Class::Control, NOTE_BYTES);
    let tag = Tag { kind, ..tag }.write();
    context.actions.push(Action::Send(Packet { tag, ..note }, Body::Internal));
}

#[cfg(test)]
mod tests;
