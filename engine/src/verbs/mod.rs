//! The verbs datapath: an RNIC, or Soft-RoCE, moves the bytes.
//!
//! Queue pairs are set up over a UDP socket as on every datapath; the two sides' offers also say
//! how their RNICs are reached. From then on data takes the NIC queue pairs of the queue pair's
//! connection: one for each path and a last one, the safe one, for what must not be placed
//! directly. Acknowledgements and notes are datagrams of a control queue pair.
//!
//! All of this is of one rail: an engine with several has a device, and each of its workers a
//! datapath, for each of them. Only the request to close what was sent to another rail's NIC queue
//! pair crosses them, by way of the worker.
//!
//! A first transmission of a WRITE is a header, gathered with others in one message, and an RDMA
//! WRITE_WITH_IMM from the sender's memory to the receiver's; everything else is *staged*: one
//! message of header and payload into a buffer, from where the worker copies it, as it does with
//! datagrams. What makes that safe is told in `braid_transport::Placement` and docs/verbs.md.

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
#[cfg(test)]
mod tests;

pub(crate) use datapath::VerbsDatapath;
pub(crate) use device::Device;
pub use options::{VerbsOptions, VerbsService, VerbsSetupError};
