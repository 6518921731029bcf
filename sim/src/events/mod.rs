//! What can happen in a run, and the queue that keeps its order.

mod queue;

pub use queue::{Events, Span};

use crate::packet::{EndId, Packet};
use crate::topology::PortId;

/// Something that happens at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A port has sent a packet and the gap behind it.
    Sent {
        /// The port.
        port: PortId,
    },
    /// A packet reaches the far end of a link.
    Arrived {
        /// The packet, which knows the link.
        packet: Packet,
    },
    /// A packet that its interface has received is where it belongs.
    Entered {
        /// The packet.
        packet: Packet,
    },
    /// A pause frame reaches the sending end of a link.
    Pause {
        /// The port that is told.
        port: PortId,
        /// To stop, or to go on.
        stop: bool,
    },
    /// An end's time-out.
    Timer {
        /// The end.
        end: EndId,
    },
    /// An interface that kept a distance may send.
    Wake {
        /// The interface.
        nic: u32,
    },
    /// A switch's gate wanted to be woken.
    Gate {
        /// The switch.
        switch: u32,
        /// What the gate said.
        token: u32,
    },
    /// A message may leave.
    Post {
        /// Its number.
        message: u32,
    },
    /// A change of the fabric.
    Change {
        /// Its place in the list.
        index: u32,
    },
}
