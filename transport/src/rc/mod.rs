//! Plain RoCEv2: the reliable connected (RC) service of IBTA vol. 1, chapter 9, and annex A17.
//!
//! [`RcQp`] speaks to the kernel's rxe, to RNICs and to itself. Its requester sends this end's work
//! requests; its responder carries out those of the peer. Work requests, memory checks, states and
//! completions are those of all queue pairs. A driver feeds and drains an `RcQp` as it does an
//! [`crate::Endpoint`]: arrivals, `placed`, timers, transmissions, completions, events.
//!
//! An `RcQp` is in no endpoint. An endpoint shares paths, probes, acknowledgement timers and limits
//! between the queue pairs towards one peer. This protocol has none of them: one path, one
//! acknowledgement number, a time-out that the user sets, and a peer that may not be Braid. Its
//! packets are other packets, too, so that nothing but the driver's loop would be common.
//!
//! Loss is repaired by going back (IBTA vol. 1, 9.7.5), because the responder accepts packets in
//! order only. Three things differ from an RNIC's requester, and none is visible on the wire:
//!
//! - The window halves with each loss and grows by one packet for each window acknowledged, because
//!   a network without priority flow control drops packets.
//! - A READ of more than some packets is asked for in several requests with consecutive PSNs, so
//!   that its response does not overflow a socket's buffer.
//! - Marks (ECN CE) of arriving packets are answered by congestion notification packets (A17.9.3).
//!   DCQCN is an option; without it, those of the peer are only counted.
//! - Credits of the peer (IBTA vol. 1, 9.7.7.2) are not obeyed; RNR NAKs limit SENDs instead.

mod config;
mod congestion;
mod requester;
mod response_queue;
mod responder;
mod queue_pair;

pub use self::config::{RcRemote, RoceMtu};
pub use self::queue_pair::{RcArrival, RcQp, RcTransmit};
