//! The inputs and outputs of a gate.

use crate::packet::{Bodies, Body, Packet};
use crate::port::Port;
use crate::time::Ps;
use crate::topology::{PortId, Topology};

/// The decision about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pass {
    /// The packet is forwarded, perhaps modified, by the given port if there is one.
    On(Packet, Option<PortId>),
    /// The gate holds the packet and will release it.
    Held,
}

/// An action that a gate asks for.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Forwards a held packet past the gate, by the given port if there is one.
    Release(Packet, Option<PortId>),
    /// Sends a packet of the switch's own past the gate.
    Send(Packet, Body),
    /// Wakes the gate after this time with this token.
    Wake(Ps, u32),
}

/// The view that a gate has of its switch.
#[derive(Debug)]
pub(crate) struct GateContext<'a> {
    /// The time.
    pub(crate) now: Ps,
    /// The switch.
    pub(crate) switch: u32,
    /// The fabric's plan.
    pub(crate) topology: &'a Topology,
    /// All ports of the fabric.
    pub(crate) queues: &'a [Port],
    /// The equal routes of the packet at hand; empty on a wake-up.
    pub(crate) ports: &'a [PortId],
    /// The bodies of packets.
    pub(crate) bodies: &'a mut Bodies,
    /// The actions that the gate asks for.
    pub(crate) actions: &'a mut Vec<Action>,
}
