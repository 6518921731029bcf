//! UD: datagrams between any two queue pairs.
//!
//! Each destination of a queue pair has a flow: one of the engine's queue pairs, connected with the first datagram, whose
//! far end takes its receives from the queue of the destination. The 40 bytes of GRH that a receiver finds before the payload
//! travel as part of the message. So datagrams between two queue pairs are neither lost nor reordered while both are there; they are
//! lost, as on a NIC, where the destination is not, is not ready, has another Q_Key, or has had no receive for a second.

pub(crate) mod datagrams;
pub(crate) mod flow;
mod receive;
mod receives;
pub(crate) mod send;
