//! Connection-matrix files: the plain traffic format that packet simulators of the htsim family
//! read.
//!
//! ```text
//! # a comment
//! Nodes 16
//! Connections 3
//! Triggers 1
//! 0->1 id 1 start 0 size 2000000 send_done_trigger 1
//! 2->1 id 2 start 500000 size 2000000 send_done_trigger 1
//! 1->9 id 3 trigger 1 size 4096
//! trigger id 1 barrier count 2
//! ```
//!
//! - Nodes are interfaces, from 0. `start` is in picoseconds, at most an hour; a fraction is
//!   dropped. `size` is in bytes. `id` is optional, unique and at least 1; it becomes the message's
//!   `group`, which is 0 without an id.
//! - Each connection has its own queue pair, even if several join the same two nodes.
//! - A `trigger` in place of a `start` makes a connection wait for the delivery of those that name
//!   the trigger as their `send_done_trigger` or `recv_done_trigger`. A `oneshot` or `multishot`
//!   has only one, and a `barrier` waits for all `count`. Triggers that fire at the first of
//!   several connections, or never, are rejected. (In other simulators "send done" includes the
//!   acknowledgement, and so is a little later.)
//! - Messages are numbered in the file's order, except that no message precedes those that it waits
//!   for.
//! - Endless connections (`size 0`), priorities (`prio`) and `failure` lines are rejected.

mod connection;
mod error;
mod order;
mod parse;
mod write;

pub use error::{MatrixError, Problem, WriteError};

use super::message::Workload;

/// The content of a connection-matrix file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Matrix {
    /// Number of interfaces that the file was made for.
    pub nodes: u32,
    /// The connections.
    pub workload: Workload,
}

impl Matrix {
    /// Reads the text of a file; `file` is its name, for errors.
    ///
    /// # Errors
    /// The file has an error; the result names its line.
    pub fn parse(file: &str, text: &str) -> Result<Matrix, MatrixError> {
        parse::parse(text).map_err(|(line, problem)| MatrixError {
            file: file.to_owned(),
            line,
            problem,
        })
    }

    /// Formats the matrix as a file that [`Matrix::parse`] reads as the same matrix, if each
    /// message between the same two nodes has the next `queue`, from 0.
    ///
    /// Groups are written as ids if they are at least 1 and unique. Otherwise connections are
    /// numbered from 1. They have no ids if all groups are 0 and no message waits.
    ///
    /// # Errors
    /// A message pauses before it starts, or is waited for by too many different sets of messages.
    pub fn write(&self) -> Result<String, WriteError> {
        write::write(self)
    }
}

#[cfg(test)]
mod tests;
