//! UDP port 4791 of an address, which several processes of the host use when they speak RoCEv2.
//!
//! [`share`] says how. [`serve`] is the thread of a port, and [`link`] its datagrams.

mod claim;
mod destination;
mod holder;
mod inbox;
mod link;
mod port;
mod ports;
mod routes;
mod serve;
mod share;
#[cfg(test)]
mod tests;
mod unix;

pub(crate) use claim::Claim;
pub(crate) use holder::{PortTaken, Unshared};
pub(crate) use ports::RocePorts;
