//! The connections and triggers of a file.

use super::error::Problem;
use crate::time::Ps;

/// A problem with its line.
pub(super) type Located = (usize, Problem);

/// A connection, with the values of its line.
#[derive(Default)]
pub(super) struct Connection {
    pub(super) line: usize,
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) bytes: u64,
    /// The id; 0: none.
    pub(super) id: u32,
    pub(super) start: Option<Ps>,
    pub(super) waits: Option<u32>,
    /// The triggers that the connection fires when it is done.
    pub(super) fires: [Option<u32>; 2],
}

/// The condition for a trigger to fire.
#[derive(Clone, Copy)]
pub(super) enum Firing {
    /// A connection that names the trigger is done.
    Any,
    /// This number of connections are done.
    Barrier(u32),
}
