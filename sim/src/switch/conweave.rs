//! ConWeave (Song et al., SIGCOMM 2023): an edge switch measures the round trip of each flow's path and moves a
//! flow whose path is slow to another; the edge switch at the far end puts its packets back in order.
//!
//! A flow lives in *epochs*. The first packet of an epoch asks for a reply. If that comes in time, the next epoch
//! begins. If not, the flow takes one of two random paths, unless both have been reported as marked; the last
//! packet on the old path is a *tail*, and what follows is *rerouted*: the far end holds it until the tail has
//! come, or is overdue. It then says *clear*, and the next epoch begins. So never are more than two paths in use.
//!
//! Details are as in the authors' simulator (conweave-project/conweave-ns3): the times, a tail also where no good
//! path is found, and a report for every marked packet. Queues of held packets are as many and as long as needed.

mod destination;
mod source;
mod tag;

use destination::Destination;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use source::Source;
use tag::{Kind, Tag};

use super::gate_context::{Action, GateContext, Pass};
use crate::packet::{Body, Class, Packet};
use crate::time::Ps;
use crate::topology::{PortId, Tier, Topology, Uplinks};

/// Beyond the round trip of an empty network, until a reply counts as late.
const REPLY_GRACE: Ps = Ps::from_micros(4);
/// How long a path that was reported as marked is not moved to.
const AVOIDED: Ps = Ps::from_micros(16);
/// Bytes of what edge switches tell each other.
const NOTE_BYTES: u32 = 64;

/// A switch that takes part.
#[derive(Debug)]
pub(crate) enum ConWeave {
    /// Chooses paths for the hosts below it, and reorders what comes to them.
    Edge { source: Box<Source>, destination: Destination },
    /// Goes where the path says.
    Above(Uplinks),
}

impl ConWeave {
    /// `None`: the switch has no choice to make.
    pub(crate) fn new(topology: &Topology, switch: u32, seed: u64) -> Option<ConWeave> {
        let uplinks = Uplinks::new(topology, switch);
        match topology.switches[switch as usize].tier {
            Tier::Edge => {
                let mut rng = Pcg64Mcg::seed_from_u64(seed);
                let source = Source::new(topology, uplinks, Pcg64Mcg::seed_from_u64(rng.random()));
                let destination = Destination::new(topology);
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
                    return Pass::Held; // for good: it was for this switch
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

/// The port that a path takes here; `None`: it does not lead on.
fn port_of(uplinks: &Uplinks, path: u16, ports: &[PortId]) -> Option<PortId> {
    uplinks.of_route(path.into()).filter(|port| ports.contains(port))
}

/// Tells the edge switch that a packet came from; the tag's epoch and path are the packet's.
fn tell(kind: Kind, of: &Packet, tag: Tag, context: &mut GateContext<'_>) {
    let note = Packet::new(of.dst, of.src, of.end, Class::Control, NOTE_BYTES);
    let tag = Tag { kind, ..tag }.write();
    context.actions.push(Action::Send(Packet { tag, ..note }, Body::Internal));
}

#[cfg(test)]
mod tests;
