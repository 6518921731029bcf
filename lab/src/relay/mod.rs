//! The process that delays frames, for kernels without netem.
//!
//! A delayed link is two tap devices, one in the leaf and one in the spine, and the relay between
//! them: it reads a frame from one, keeps it for half of its spine's delay, and writes it to the
//! other. One process serves all delayed links of a fabric. It lives in the namespace of the first
//! delayed spine, so whoever takes the fabric down ends it too.
//!
//! The devices have no offloads, so the kernel cuts batches into packets and makes their checksums before
//! the relay sees them. Batches could pass whole (`IFF_VNET_HDR`), for 12 % of a core at 740 Mb/s in
//! place of 20 %, but the kernel does not count the segments of a batch that comes from a tap device,
//! and the links' counters would be wrong.

mod line;
mod process;

pub(crate) use process::Relay;
pub use process::{SUBCOMMAND, main};
