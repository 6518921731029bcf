//! The process that delays frames, for kernels without netem.
//!
//! A delayed link is two tap devices, one in the leaf and one in the spine, and the relay between
//! them. The relay reads a frame from one, keeps it for half of the delay of its spine, and writes
//! it to the other. One process serves all delayed links of a fabric. The process is in the
//! namespace of the first delayed spine, so that it ends with the fabric.
//!
//! The devices have no offloads, so the kernel cuts batches into packets and computes their
//! checksums first. Whole batches (`IFF_VNET_HDR`) would take 12 % of a core at 740 Mb/s instead of
//! 20 %. But the kernel does not count the segments of a batch from a tap device, and the counters
//! would be wrong.

mod line;
mod process;

pub(crate) use process::Relay;
pub use process::{SUBCOMMAND, main};
