//! Shared receive queues: receives for several queue pairs. A queue pair takes one when a message
//! begins to arrive.

mod handle;
mod shared;

pub use handle::{CreateSrqError, SharedReceiveQueue};

pub(crate) use shared::SrqShared;
