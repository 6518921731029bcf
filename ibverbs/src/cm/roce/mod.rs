//! Connections with peers that are not Braid: the kernel's rdma_cm on RNICs and Soft-RoCE, whose
//! messages go to queue pair 1 of UDP port 4791.
//!
//! [`gsi`] runs the protocol for a device, [`messages`] and `reports` translate between it and this
//! library, [`connecting`] and [`listening`] are the two ends. [`lookup`] finds queue pairs that
//! take datagrams.

pub(super) mod connecting;
pub(super) mod gsi;
pub(super) mod listening;
pub(super) mod lookup;
pub(super) mod messages;
pub(super) mod reach;
mod reports;
