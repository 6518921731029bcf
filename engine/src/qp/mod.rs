//! Queue pairs as the application uses them.

mod check;
mod connecting;
mod handle;
mod inline;
mod options;
mod roce;
mod shared;

pub use connecting::Connecting;
pub use handle::{CreateQpError, QueuePair};
pub use options::QpOptions;

pub(crate) use shared::{PostedSend, QpShared, WorkerRequest};
