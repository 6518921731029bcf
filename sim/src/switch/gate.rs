//! Gates: functions of a switch besides the choice of a port. A gate may hold, block or send
//! packets.

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
    /// Creates the gate that a policy puts on a switch. `None`: packets pass.
    pub(crate) fn new(
        policy: &Policy,
        topology: &Topology,
        switch: u32,
        seed: u64,
    ) -> Option<Gate> {
        let is_edge = topology.switches[switch as usize].tier == Tier::Edge;
        match policy {
            Policy::Themis { ring, look_back, compensate } if is_edge => Some(Gate::Themis(
                Destination::new(topology, switch, *ring, *look_back, *compensate),
            )),
            Policy::ConWeave => ConWeave::new(topology, switch, seed).map(Gate::ConWeave),
            _ => None,
        }
    }

    /// Handles a packet that has reached the switch.
    pub(crate) fn on_packet(&mut self, packet: Packet, context: &mut GateContext<'_>) -> Pass {
        match self {
            Gate::Themis(destination) => destination.on_packet(packet, context),
            Gate::ConWeave(conweave) => conweave.on_packet(packet, context),
        }
    }

    /// Handles a wake-up that the gate asked for.
    pub(crate) fn on_wake(&mut self, token: u32, context: &mut GateContext<'_>) {
        match self {
            Gate::Themis(_) => {}
            Gate::ConWeave(conweave) => conweave.on_wake(token, context),
        }
    }
}
