//! Queue pairs as the application uses them.

mod connecting;
mod handle;
mod inline;
mod options;
mod post;
mod shared;

pub use connecting::Connecting;
pub use handle::{CreateQpError, QueuePair};
pub use options::QpOptions;

pub(crate) use options::{MAX_QUEUE, MAX_SGE};
pub(crate) use shared::{Asked, Depth, PostedSend, QpShared};
