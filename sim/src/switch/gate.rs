//! What a switch may do to packets besides choosing a port: hold them, block them, send its own.

use crate::packet::Packet;
use crate::topology::{Tier, Topology};

use super::Policy;
use super::conweave::ConWeave;
use super::gate_context::{GateContext, Pass};
use super::themis::Destination;

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
            Policy::Themis { ring, look_back, compensate } if is_edge => {
                Some(Gate::Themis(Destination::new(topology, *ring, *look_back, *compensate)))
            }
            Policy::ConWeave => ConWeave::new(topology, switch, seed).map(Gate::ConWeave),
            _ => None,
        }
    }

    /// A packet comes to the switch.
    pub(crate) fn on_packet(&mut self, packet: Packet, context: &mut GateContext<'_>) -> Pass {
        match self {
            Gate::Themis(destination) => destination.on_packet(packet, context),
            Gate::ConWeave(conweave) => conweave.on_packet(packet, context),
        }
    }

    /// The time that it wanted to be woken at has come.
    pub(crate) fn on_wake(&mut self, token: u32, context: &mut GateContext<'_>) {
        match self {
            Gate::Themis(_) => {}
            Gate::ConWeave(conweave) => conweave.on_wake(token, context),
        }
    }
}
