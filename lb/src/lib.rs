//! Which path the next batch of segments takes: path policies over the paths to one destination group, and the
//! health of those paths.
//!
//! A [`PathSet`] is shared by all queue pairs that go to the same place. It runs one [`PathPolicy`], knows each
//! outgoing stream of a queue pair by a [`StreamId`], and is asked for the path of each batch
//! ([`PathSet::pick`]). The caller reports every segment that leaves ([`PathSet::on_sent`]) and what became of it
//! ([`PathSet::on_feedback`]), and sends the probes that [`PathSet::poll_probe`] wants.
//!
//! The policies that come with the crate are the rows of one table and are named by [`LbPolicy`]; a program brings
//! its own as a [`PathPolicyFactory`] with [`LbPolicy::custom`]:
//!
//! ```
//! use braid_lb::{Batch, LbPolicy, PathId, PathPolicy, PathPolicyFactory, PathRng, PathSet, Paths, StreamId, Time};
//!
//! /// Always the last path that is live.
//! #[derive(Debug)]
//! struct Last;
//!
//! impl PathPolicy for Last {
//!     fn pick(&mut self, _: StreamId, _: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
//!         paths.at(paths.len() - 1)
//!     }
//! }
//!
//! struct LastFactory;
//!
//! impl PathPolicyFactory for LastFactory {
//!     fn name(&self) -> &str {
//!         "last"
//!     }
//!
//!     fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
//!         Box::new(Last)
//!     }
//! }
//!
//! let mut set = PathSet::new(LbPolicy::custom(&LastFactory), 8, 1).unwrap();
//! let stream = set.admit();
//! let path = set.pick(stream, Batch { now: Time::ZERO, psn: 0, segments: 1 });
//! assert_eq!(path, PathId::new(7));
//! ```
//!
//! There is no clock and no thread here: time is an argument, and all randomness comes from the seed
//! of the path set, so the same calls give the same paths. Nothing that is done per packet allocates,
//! but for the first pick of a stream under REPS and PLB, and for a path that dies or returns.
#![forbid(unsafe_code)]

use std::time::Duration;

mod health;
mod load_mse;
mod lowest;
mod lpt_round;
mod path;
mod path_set;
mod paths;
mod policies;
mod policy;
mod rails;
mod rank;
mod reordering;
mod rng;
mod slots;
mod states;
mod stream;

pub use braid_wire::{PathId, RailId, Time};
pub use load_mse::LoadMse;
pub use lpt_round::{Chunk, LptRound};
pub use path::{PathCounters, PathReport};
pub use path_set::{PathSet, PathsError};
pub use paths::Paths;
pub use policy::{
    LbPolicy, Order, PathPolicy, PathPolicyFactory, Requirements, UnknownPolicy, policy_names,
};
pub use rails::{
    HostLoads, RailChoice, RailPolicy, RailProbe, RailScheme, RailSet, Rails, UnknownRailScheme,
    rail_scheme_names,
};
pub use reordering::Reordering;
pub use rng::PathRng;
pub use stream::{PerStream, StreamId};

/// Segments of one stream that are about to leave on one path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// The instant of the pick.
    pub now: Time,
    /// PSN of its first segment, 24 bits.
    pub psn: u32,
    /// The most segments that the datapath puts into a batch, at least 1.
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
    /// They were declared lost.
    Lost {
        /// How many.
        packets: u32,
    },
    /// Nobody will tell any more: their queue pair has failed or is gone, or they are sent again whatever became of them.
    Forgotten {
        /// How many.
        packets: u32,
    },
}
