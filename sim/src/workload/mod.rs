//! Workloads: the messages between hosts, and the steps that they depend on.
//!
//! The patterns return a [`Workload`]. The same arguments, seed included, give the same workload.
//! Nodes are interfaces, which are hosts if each host has one.

mod all_reduce;
mod all_to_all;
pub mod bounds;
mod error;
mod fsdp;
pub mod goal;
mod groups;
mod incast;
pub mod matrix;
mod message;
mod permutation;
mod poisson;
mod ring;
mod sizes;
mod step;
mod tree;

pub use all_reduce::ring_all_reduce;
pub use all_to_all::{StartOrder, all_to_all};
pub use error::WorkloadError;
pub use fsdp::Fsdp;
pub use groups::Groups;
pub use incast::incast;
pub use message::{MAX_MESSAGE, MAX_MESSAGES, Message, Start, Workload};
pub use permutation::{Pairs, permutation};
pub use poisson::{Poisson, QueuePairs};
pub use ring::ring;
pub use sizes::{NAMED_SIZES, Sizes, SizesError};
pub use step::{MAX_STEPS, Occurrence, Step};
pub use tree::{Forwarding, Pipeline, tree, tree_all_reduce};
