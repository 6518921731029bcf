//! What a switch may do to packets besides choosing a port: hold them, block them, send its own.

use crate::fabric::Port;
use crate::packet::{Bodies, Body, Packet};
use crate::time::Ps;
use crate::topology::{PortId, Tier, Topology};

use super::Policy;
use super::conweave::ConWeave;
use super::themis::Destination;

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pass {
    /// It goes on, perhaps changed, by this port if one is named.
    On(Packet, Option<PortId>),
    /// The gate keeps it, and will release it.
    Held,
}

/// What a gate wants done besides.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A held packet goes on, past the gate, by this port if one is named.
    Release(Packet, Option<PortId>),
    /// A packet of the switch's own is sent on from here, past the gate.
    Send(Packet, Body),
    /// The gate wants to be woken, so much later, with this token.
    Wake(Ps, u32),
}

/// What a gate sees and writes to.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    /// The time.
    pub(crate) now: Ps,
    /// The switch.
    pub(crate) switch: u32,
    /// The fabric's plan.
    pub(crate) topology: &'a Topology,
    /// All ports of the fabric.
    pub(crate) queues: &'a [Port],
    /// The equal ways of the packet at hand; empty when woken.
    pub(crate) ports: &'a [PortId],
    /// What packets carry.
    pub(crate) bodies: &'a mut Bodies,
    /// What is to be done.
    pub(crate) actions: &'a mut Vec<Action>,
}

/// A switch's gate.
#[derive(Debug)]
pub(crate) enum Gate {
    /// Themis-D.
    Themis(Destination),
    /// Both sides of ConWeave.
    ConWeave(ConWeave),
}

impl Gate {
    /// The gate that a policy puts on a switch; `None`: packets just pass.
    pub(crate) fn new(
        policy: &Policy,
        topology: &Topology,
        switch: u32,
        seed: u64,
    ) -> Option<Gate> {
        let is_edge = topology.switches[switch as usize].tier == Tier::Edge;
        match policy {
            Policy::Themis { ring, look_back } if is_edge => {
                Some(Gate::Themis(Destination::new(topology, *ring, *look_back)))
            }
            Policy::ConWeave => ConWeave::new(topology, switch, seed).map(Gate::ConWeave),
            _ => None,
        }
    }

    /// A packet comes to the switch.
    pub(crate) fn on_packet(&mut self, packet: Packet, desk: &mut Desk<'_>) -> Pass {
        match self {
            Gate::Themis(destination) => destination.on_packet(packet, desk),
            Gate::ConWeave(conweave) => conweave.on_packet(packet, desk),
        }
    }

    /// The time that it wanted to be woken at has come.
    pub(crate) fn on_wake(&mut self, token: u32, desk: &mut Desk<'_>) {
        match self {
            Gate::Themis(_) => {}
            Gate::ConWeave(conweave) => conweave.on_wake(token, desk),
        }
    }
}
