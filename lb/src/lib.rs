//! Load balancing: path policies over the paths to one destination group, and the health of these
//! paths.
//!
//! All queue pairs that send to the same destination share a [`PathSet`]. The set runs one
//! [`PathPolicy`] and identifies each outgoing stream of a queue pair by a [`StreamId`]. The caller
//! asks it for the path of each batch ([`PathSet::pick`]), reports every segment that it sends
//! ([`PathSet::on_sent`]) and the feedback on it ([`PathSet::on_feedback`]), and sends the probes
//! of [`PathSet::poll_probe`].
//!
//! [`LbPolicy`] names the policies of this crate, which are the rows of one table. A program adds
//! its own as a [`PathPolicyFactory`] with [`LbPolicy::custom`]:
//!
//! ```
//! use braid_lb::{Batch, LbPolicy, PathId, PathPolicy, PathPolicyFactory, PathRng, PathSet, Paths};
//! use braid_lb::{StreamId, Time};
//!
//! /// The last live path.
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
//! The crate has no clock and no threads. Time is an argument, and all randomness comes from the
//! seed of the path set, so the same calls return the same paths. The work per packet does not
//! allocate, with two exceptions: the first pick of a stream under REPS and PLB, and a path that
//! goes down or comes up.
#![forbid(unsafe_code)]

mod batch;
mod health;
mod load_mse;
mod lowest;
mod lpt_round;
mod order;
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
mod suspicion;

pub use batch::{Batch, Outcome};
pub use braid_wire::{PathId, RailId, Time};
pub use load_mse::LoadMse;
pub use lpt_round::{Chunk, LptRound};
pub use order::Order;
pub use path::{PathCounters, PathReport};
pub use path_set::{PathSet, PathsError};
pub use paths::Paths;
pub use policy::{
    LbPolicy, PathPolicy, PathPolicyFactory, Requirements, UnknownPolicy, policy_names,
};
pub use rails::{
    Devices, HostLoads, RailChoice, RailPolicy, RailProbe, RailScheme, RailSet, Rails,
    UnknownRailScheme, rail_scheme_names,
};
pub use reordering::Reordering;
pub use rng::PathRng;
pub use stream::{PerStream, StreamId};
