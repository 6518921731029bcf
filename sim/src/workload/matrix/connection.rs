//! What the lines of a file say.

use super::error::Problem;
use crate::time::Ps;

/// Where and what.
pub(super) type Located = (usize, Problem);

/// A connection as its line has it.
#[derive(Default)]
pub(super) struct Connection {
    pub(super) line: usize,
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) bytes: u64,
    /// 0: none.
    pub(super) id: u32,
    pub(super) start: Option<Ps>,
    pub(super) waits: Option<u32>,
    /// Triggers that it fires when it is done.
    pub(super) fires: [Option<u32>; 2],
}

/// When a trigger fires.
#[derive(Clone, Copy)]
pub(super) enum Firing {
    /// When a connection that names it is done.
    Any,
    /// When so many are.
    Barrier(u32),
}
