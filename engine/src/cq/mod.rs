//! Completion queues, where work requests end.

mod handle;
mod rings;
mod shared;

pub use handle::{CompletionQueue, CqError, CreateCqError};

pub(crate) use shared::{Attached, CqShared};
