//! Traces in the GOAL format (Group Operation Assembly Language) of LogGOPSim and ATLAHS: the
//! sends, receives and computations of each rank, and the dependencies between them.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 1500 cpu 0
//! l2: send 4096b to 1 tag 5
//! l2 requires l1
//! }
//! rank 1 {
//! l1: recv 4096b from 0 tag 5
//! l2: calc 300
//! l2 requires l1
//! }
//! ```
//!
//! - `calc` takes nanoseconds and occupies its cpu: the next one on the same cpu of the rank waits.
//!   Sends and receives take no processor time.
//! - A send starts when its dependencies are met. It is done when the sender has the completion of
//!   its message: all of it is acknowledged. The message does not wait for its receive.
//! - A receive starts when its dependencies are met, and is done when the message that it takes has
//!   been delivered, too.
//! - `a requires b`: `a` starts when `b` is done. `a irequires b`: `a` starts when `b` has started.
//! - Sends and receives are matched before the run by source, destination and
//!   tag, in the order in which both would start over a network that takes no time. So a receive
//!   from any rank or with any tag (`-1`) takes the message that such a network delivers first.
//! - The binary form, which `txt2bin` writes, is told apart by its first eight bytes.
//!
//! A rank's messages to another one share a queue pair. Each rank is a group of the report.

mod binary;
mod error;
mod matching;
mod text;
mod trace;

pub use error::{GoalError, TracePlace, TraceProblem};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::error::WorkloadError;
use super::message::Workload;

/// A trace whose sends and receives are matched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Goal {
    /// Number of ranks.
    pub ranks: u32,
    /// The messages, from rank to rank, and the steps.
    workload: Workload,
    /// The interfaces of each message's ranks, the sender's and the receiver's.
    nics: Vec<[u8; 2]>,
}

/// The interfaces on which the ranks of a trace are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Number of interfaces of a rank.
    pub nics: u32,
    /// The seed of a random order of the ranks. Without one, rank r has the interfaces from
    /// `r * nics` on.
    pub shuffle: Option<u64>,
}

impl Goal {
    /// Reads a trace in text or binary form.
    ///
    /// # Errors
    /// The trace has an error, or some send, receive or dependency is never met.
    pub fn parse(bytes: &[u8]) -> Result<Goal, GoalError> {
        let trace = match bytes.starts_with(&binary::MAGIC) {
            true => binary::parse(bytes)?,
            false => text::parse(bytes)?,
        };
        let (workload, nics) = matching::workload(&trace)?;
        Ok(Goal { ranks: trace.ranks, workload, nics })
    }

    /// Returns whether a file is a trace rather than a connection matrix, from its first word.
    pub fn is_trace(bytes: &[u8]) -> bool {
        let text = bytes.trim_ascii_start();
        bytes.starts_with(&binary::MAGIC)
            || ["num_ranks", "rank", "//", "/*"]
                .iter()
                .any(|word| text.starts_with(word.as_bytes()))
    }

    /// Returns the workload of the trace on the interfaces 0 to `interfaces - 1`.
    ///
    /// # Errors
    /// There are too few interfaces, or a rank uses more than it has.
    pub fn workload(&self, interfaces: u32, of: Placement) -> Result<Workload, WorkloadError> {
        let (ranks, nics) = (self.ranks, of.nics);
        let places = interfaces / nics.max(1);
        if nics == 0 || ranks > places {
            return Err(WorkloadError::Ranks { ranks, nics, interfaces });
        }
        if let Some(nic) = self.nics.iter().flatten().copied().map(u32::from).max()
            && nic >= nics
        {
            return Err(WorkloadError::RankNics { nic, nics });
        }
        let mut place: Vec<u32> = (0..places).collect();
        if let Some(seed) = of.shuffle {
            place.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
        }
        let interface = |rank: u32, nic: u8| place[rank as usize] * nics + u32::from(nic);
        let mut workload = self.workload.clone();
        for (message, [from, to]) in workload.messages.iter_mut().zip(&self.nics) {
            message.src = interface(message.src, *from);
            message.dst = interface(message.dst, *to);
        }
        Ok(workload)
    }
}

#[cfg(test)]
mod tests;
