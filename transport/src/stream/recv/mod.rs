//! The receiving end of a stream: the expected PSN, the packets ahead of it, and the pending
//! acknowledgement.

pub(crate) mod effect;
pub(crate) mod grants;
mod last_ack;
mod pending_ack;
pub(crate) mod refusal;
mod refusals;
pub(crate) mod reordering_extent;
pub(crate) mod recv_stream;
