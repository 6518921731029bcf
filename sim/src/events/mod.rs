//! Events of a run, and the queue that keeps their order.

mod queue;

pub use queue::{Due, EventQueue, FrameId, Spans, Taken};

use crate::packet::{EndId, Packet};
use crate::topology::PortId;

/// The event queue of a run. The frames on its links are packets, which name their links.
pub type Events = EventQueue<Event, Packet>;

/// Something that happens at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A received packet reaches the memory of its GPU.
    Entered {
        /// The packet.
        packet: Packet,
    },
    /// A pause frame reaches the sending end of a link.
    Pause {
        /// The port that pauses or resumes.
        port: PortId,
        /// True: pause. False: resume.
        stop: bool,
    },
    /// The timer of an end expires.
    Timer {
        /// The end.
        end: EndId,
    },
    /// An interface may grant credit again.
    Credit {
        /// The interface.
        nic: u32,
    },
    /// A paced interface may send again.
    Wake {
        /// The interface.
        nic: u32,
    },
    /// A wake-up that a switch's gate asked for.
    Gate {
        /// The switch.
        switch: u32,
        /// The token that the gate passed when it asked.
        token: u32,
    },
    /// A message may be posted.
    Post {
        /// The number of the message.
        message: u32,
    },
    /// A step is ready.
    Ready {
        /// The number of the step.
        step: u32,
    },
    /// A step starts, because its stream is free.
    Start {
        /// The number of the step.
        step: u32,
    },
    /// A step is done.
    Done {
        /// The number of the step.
        step: u32,
    },
    /// A change of the fabric takes effect.
    Change {
        /// Index in the plan's list of changes.
        index: u32,
    },
}
