//! Traffic from files: the plain connection-matrix format that packet simulators of the htsim family read.
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
//! - Nodes are interfaces, from 0. `start` is in picoseconds, at most an hour; a fraction is dropped.
//!   `size` is in bytes. `id` is optional, unique and at least 1; it becomes the message's `group`, 0 without.
//! - Each connection has a queue pair of its own, also where several join the same two nodes.
//! - A `trigger` in place of a `start` makes a connection wait until those that name the trigger as their
//!   `send_done_trigger` or `recv_done_trigger` have been delivered: the only one of a `oneshot` or
//!   `multishot`, all `count` of a `barrier`. What fires at the first of several, or never, is refused.
//!   (Elsewhere "send done" comes a little later, with the acknowledgement.)
//! - Messages are numbered in the file's order, except that none comes before what it waits for.
//! - Endless connections (`size 0`), priorities (`prio`) and `failure` lines are refused.

mod connection;
mod error;
mod order;
mod parse;
mod write;

pub use error::{MatrixError, Problem, WriteError};

use super::Workload;

/// What a connection-matrix file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Matrix {
    /// Interfaces that the file was made for.
    pub nodes: u32,
    /// Its connections.
    pub workload: Workload,
}

impl Matrix {
    /// Reads the text of a file; `file` is its name, for errors.
    ///
    /// # Errors
    /// The first thing that is wrong, and in which line.
    pub fn parse(file: &str, text: &str) -> Result<Matrix, MatrixError> {
        parse::parse(text).map_err(|(line, problem)| MatrixError {
            file: file.to_owned(),
            line,
            problem,
        })
    }

    /// The text of a file that [`Matrix::parse`] reads as the same matrix, if each message between the same
    /// two nodes has the next `queue`, from 0.
    ///
    /// Groups are written as ids if they are at least 1 and no two are alike. Otherwise connections are
    /// numbered from 1, or have no ids where all groups are 0 and nothing waits.
    ///
    /// # Errors
    /// A message that pauses before it starts, or for whom too many different ones wait.
    pub fn write(&self) -> Result<String, WriteError> {
        write::write(self)
    }
}

#[cfg(test)]
mod tests;
