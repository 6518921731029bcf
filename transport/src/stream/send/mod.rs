//! The sending end of a stream: its queue, the window of sent segments, a subflow for each rail,
//! loss detection and the tail loss probe.
//!
//! A module uses only those before it. [`send_stream`] is the stream itself. The modules after it
//! handle acknowledgements, time-outs and the end of the stream.

pub(crate) mod direct;
pub(crate) mod segment;
pub(crate) mod source;
pub(crate) mod send_queue;
pub(crate) mod response_queue;
pub(crate) mod window;
pub(crate) mod spurious;
pub(crate) mod suspects;
mod rtt;
mod shortest;
pub(crate) mod quantum;
pub(crate) mod send_limits;
mod chunks;
pub(crate) mod pacer;
mod credit;
pub(crate) mod congestion;
pub(crate) mod subflow;
pub(crate) mod subflows;
pub(crate) mod recovery;
mod ack_requests;
pub(crate) mod probes;
pub(crate) mod losses;
pub(crate) mod rto_clock;
pub(crate) mod receiver_not_ready;
pub(crate) mod next_segment;
pub(crate) mod skipped_segments;
pub(crate) mod run;
pub(crate) mod send_stream;
pub(crate) mod on_ack;
mod credit_requests;
mod timeouts;
mod tail_loss_probe;
pub(crate) mod transmit;
