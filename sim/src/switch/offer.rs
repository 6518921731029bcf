//! The offer of equal routes to a switch, and the choice of the best of them.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::port_policy::{PortPolicy, PortRng};
use crate::packet::Packet;
use crate::port::Port;
use crate::time::Ps;
use crate::topology::{PortId, Topology};

/// The inputs of a switch's choice.
#[derive(Debug)]
pub struct Offer<'a> {
    /// The time.
    pub now: Ps,
    /// The switch.
    pub switch: u32,
    /// The packet.
    pub packet: &'a Packet,
    /// The equal routes, two or more.
    pub ports: &'a [PortId],
    /// All ports of the fabric.
    pub queues: &'a [Port],
    /// The fabric's plan.
    pub topology: &'a Topology,
}

impl Offer<'_> {
    /// Returns the bytes queued at a port.
    pub fn queued(&self, port: PortId) -> u64 {
        self.queues[port.index()].bytes
    }
}

/// Returns the port of the lowest key, a random one among equals.
pub(crate) fn pick_lowest(
    ports: &[PortId],
    key: impl Fn(PortId) -> u64,
    rng: &mut Pcg64Mcg,
) -> PortId {
    let (mut best, mut lowest, mut equals) = (ports[0], u64::MAX, 0_u32);
    for port in ports {
        let key = key(*port);
        if key < lowest {
            (best, lowest, equals) = (*port, key, 1);
        } else if key == lowest {
            equals += 1;
            if rng.random_range(0..equals) == 0 {
                best = *port;
            }
        }
    }
    best
}

/// The port with the fewest bytes, a random one among equals.
#[derive(Debug)]
pub(crate) struct Shortest;

impl PortPolicy for Shortest {
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
        pick_lowest(offer.ports, |port| offer.queued(port), &mut rng.0)
    }
}

/// A random port for every packet.
#[derive(Debug)]
pub(crate) struct Random;

impl PortPolicy for Random {
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
        offer.ports[rng.below(offer.ports.len())]
    }
}
