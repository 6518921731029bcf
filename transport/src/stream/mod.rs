//! The two kinds of stream of a connection.
//!
//! A queue pair sends two streams, requests and responses, and receives the peer's two. Each has
//! PSNs, a window and timers of its own. [`recv`] holds what the receiving end of a stream owns,
//! [`send`] what the sending end owns. The modules before them serve both ends.

pub(crate) mod per_rail;
pub(crate) mod per_path;
pub(crate) mod psn_run;
pub(crate) mod psn_set;
pub(crate) mod paws;
pub(crate) mod marks;
pub(crate) mod coverage;
pub(crate) mod recv;
pub(crate) mod send;
