//! The sending end of a stream: its queue, the window of sent segments, a subflow for each rail, loss
//! detection and the tail loss probe.
//!
//! The modules stand in the order in which they use each other. [`send_stream`] is the stream
//! itself; the modules behind it are what happens to it.

pub(crate) mod direct;
pub(crate) mod segment;
pub(crate) mod send_queue;
pub(crate) mod responses;
pub(crate) mod window;
mod spurious;
mod suspects;
mod rtt;
mod shortest;
pub(crate) mod quantum;
pub(crate) mod send_limits;
mod chunks;
mod pacer;
pub(crate) mod congestion;
pub(crate) mod subflow;
pub(crate) mod subflows;
mod recovery;
mod ack_requests;
mod rnr_rounds;
pub(crate) mod next_segment;
pub(crate) mod skipped_segments;
pub(crate) mod run;
pub(crate) mod send_stream;
pub(crate) mod on_ack;
mod timeouts;
mod tail_loss_probe;
