//! UD: datagrams between any two queue pairs.
//!
//! A queue pair has a flow for each destination. A flow is a queue pair of the engine that connects
//! with the first datagram. Its far end takes receives from the queue of the destination. The 40
//! bytes of GRH that a receiver finds before the payload are part of the message.
//!
//! While both queue pairs exist, datagrams between them are neither lost nor reordered. As on a
//! NIC, a datagram is lost if the destination does not exist, is not ready or has another Q_Key. It
//! is also lost if the destination has had no receive for a second.

//!
//! Peers that are not Braid speak the UD service of RoCEv2 (`roce`).

pub(crate) mod datagrams;
pub(crate) mod flow;
mod receive;
mod receives;
mod roce;
pub(crate) mod send;
