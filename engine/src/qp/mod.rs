//! Queue pairs, as the application holds them.

mod handle;
mod inline;
mod options;
mod post;
mod shared;

pub use handle::{CreateQpError, QueuePair};
pub use options::QpOptions;

pub(crate) use options::{MAX_QUEUE, MAX_SGE};
pub(crate) use shared::{Asked, Depth, QpShared};
