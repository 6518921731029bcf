//! What a gate is given, and what it answers.

use crate::packet::{Bodies, Body, Packet};
use crate::port::Port;
use crate::time::Ps;
use crate::topology::{PortId, Topology};

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
pub(crate) struct GateContext<'a> {
    /// The time.
    pub(crate) now: Ps,
    /// The switch.
    pub(crate) switch: u32,
    /// The fabric's plan.
    pub(crate) topology: &'a Topology,
    /// All ports of the fabric.
    pub(crate) queues: &'a [Port],
    /// The equal routes of the packet at hand; empty when woken.
    pub(crate) ports: &'a [PortId],
    /// What packets carry.
    pub(crate) bodies: &'a mut Bodies,
    /// What is to be done.
    pub(crate) actions: &'a mut Vec<Action>,
}
