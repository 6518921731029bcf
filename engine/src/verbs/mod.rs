//! The verbs datapath: an RNIC, or Soft-RoCE, moves the bytes.
//!
//! Queue pairs are set up over a UDP socket as on every datapath. The offers of both ends also
//! contain the addresses of their RNICs. From then on data uses the NIC queue pairs of the
//! connection, one for each path. A further one, the safe one, carries data that must not be placed
//! directly. Acknowledgements and notes are datagrams of a control queue pair.
//!
//! An engine with several rails has a device for each rail, and each of its workers has a datapath
//! for each device. Only the request to close an epoch of another rail's NIC queue pair crosses
//! rails, through the worker.
//!
//! A first transmission of a WRITE is a header, gathered with others in one message, and an RDMA
//! WRITE_WITH_IMM from the sender's memory to the receiver's. Everything else is *staged*: one
//! message of header and payload goes into a buffer, from which the worker copies it like a
//! datagram. The module documentation of `braid_transport::Placement` and docs/verbs.md explain why
//! that is safe.

mod batch;
mod buffers;
mod completion_queues;
mod connection;
mod connections;
mod control;
mod datapath;
mod device;
mod far_regions;
mod losses;
mod nic_qp;
mod options;
mod pool;
mod segments;
mod setup_error;
#[cfg(test)]
mod tests;

pub(crate) use braid_verbs::Mr;
pub use braid_verbs::VerbsError;
pub(crate) use datapath::VerbsDatapath;
pub(crate) use device::Device;
pub use options::{VerbsOptions, VerbsService};
pub use setup_error::VerbsSetupError;
