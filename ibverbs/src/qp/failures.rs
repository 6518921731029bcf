//! Failed completions that wait until a NIC would have reported them.

use braid::Completion;

/// Failed completions that the program does not see yet.
///
/// Invariant: nothing waits once `seen`.
#[derive(Default)]
pub(super) struct Failures {
    /// The program knows that the queue pair is in ERR.
    pub(super) seen: bool,
    /// The flushed work, in posting order.
    pub(super) waiting: Vec<Completion>,
    /// A send is among them.
    pub(super) is_due: bool,
}
