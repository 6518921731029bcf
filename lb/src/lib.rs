//! Which path the next train takes: pure policies over the paths to one destination group, and the
//! health of those paths.
//!
//! A [`PathSet`] is shared by all queue pairs that go to the same place; what a policy keeps per
//! stream of a queue pair is a [`QpPaths`]. The caller asks [`Selector::pick`] for the path of each
//! train, reports every segment that leaves ([`PathSet::on_sent`]) and what became of it
//! ([`Selector::on_feedback`]), and sends the probes that [`PathSet::poll_probe`] wants.
//!
//! There is no clock and no thread here: time is an argument, and all randomness comes from the seed
//! of the path set, so the same calls give the same paths. Nothing on the way of a packet allocates,
//! but for the first pick of a queue pair under REPS and PLB, and for a path that dies or returns.
#![forbid(unsafe_code)]

use std::time::Duration;

use braid_wire::{PathId, Time};

mod flows;
mod health;
mod lowest;
mod path;
mod path_set;
mod plb;
mod policy;
mod pro;
mod qp_paths;
mod rank;
mod reps;
mod slots;

pub use path::{PathCounters, PathReport};
pub use path_set::{PathSet, PathsError};
pub use policy::{LbPolicy, UnknownPolicy, policy_names};
pub use qp_paths::QpPaths;

/// What is about to leave on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Train {
    /// The instant of the pick.
    pub now: Time,
    /// PSN of its first segment, 24 bits.
    pub psn: u32,
    /// The most segments that the datapath puts into a train, at least 1.
    pub segments: u32,
}

/// What became of packets on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// They arrived.
    Arrived {
        /// Packets of that path newly acknowledged.
        packets: u32,
        /// Round-trip time of the latest of them.
        rtt: Duration,
        /// They, or one before them since the last feedback, carried a congestion mark.
        congested: bool,
    },
    /// They were found lost.
    Lost {
        /// How many.
        packets: u32,
    },
    /// Nobody will tell any more: their queue pair has failed or is gone.
    Forgotten {
        /// How many.
        packets: u32,
    },
}

/// Picks paths and learns from what became of them.
pub trait Selector {
    /// The path for a train of one queue pair: one that is in use and not known to be dead.
    fn pick(&mut self, qp: &mut QpPaths, train: Train) -> PathId;

    /// What became of packets that `qp` sent on `path`. A path that does not exist is ignored: the
    /// name may be an echo from the network.
    fn on_feedback(&mut self, qp: &mut QpPaths, now: Time, path: PathId, outcome: Outcome);

    /// A retransmission time-out of this queue pair: nothing that was in flight has been heard of.
    fn on_timeout(&mut self, qp: &mut QpPaths, now: Time);
}
