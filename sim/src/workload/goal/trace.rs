//! The operations of a trace, before they are matched.

use super::error::{GoalError, TraceProblem};

/// Maximum number of operations of a trace.
pub(super) const MAX_OPERATIONS: u64 = 1 << 24;

/// Maximum number of dependencies of a trace.
pub(super) const MAX_DEPENDENCIES: u64 = 1 << 26;

/// Maximum number of ranks of a trace: as many as a fabric may have interfaces.
pub(super) const MAX_RANKS: u32 = 1 << 16;

/// Maximum length of a computation in nanoseconds: one hour.
pub(super) const MAX_CALC: u64 = 3_600_000_000_000;

/// Maximum length of all computations together, in nanoseconds: 4000 hours, less than virtual time
/// holds.
pub(super) const MAX_CALCS: u64 = 4000 * MAX_CALC;

/// The peer or tag of a receive that takes any.
pub(super) const ANY: u32 = u32::MAX;

/// One operation of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) kind: OperationKind,
    pub(super) rank: u32,
    /// The other rank; [`ANY`]: of any rank. Without meaning for a computation.
    pub(super) peer: u32,
    /// The tag; [`ANY`]: with any tag. Without meaning for a computation.
    pub(super) tag: u32,
    /// Bytes, or the nanoseconds of a computation.
    pub(super) size: u64,
    pub(super) cpu: u8,
    pub(super) nic: u8,
    /// The line of the operation from 1, or the offset of its first byte.
    pub(super) place: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OperationKind {
    Send,
    Recv,
    Calc,
}

/// An operation waits for another one of its rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Dependency {
    /// The index of the operation that waits.
    pub(super) waiter: u32,
    /// The index of the operation that it waits for.
    pub(super) on: u32,
    /// The waiter may start when the other one has started, not only when it is done.
    pub(super) on_start: bool,
}

/// A trace as it stands in its file.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    pub(super) ranks: u32,
    pub(super) operations: Vec<Operation>,
    pub(super) dependencies: Vec<Dependency>,
    /// The length of all computations in nanoseconds.
    calcs: u64,
    /// Whether places are offsets of bytes instead of lines.
    pub(super) is_binary: bool,
}

impl Trace {
    /// Creates a trace without operations.
    pub(super) fn new(ranks: u64, is_binary: bool) -> Result<Trace, TraceProblem> {
        match u32::try_from(ranks) {
            Ok(ranks @ 1..=MAX_RANKS) => Ok(Trace { ranks, is_binary, ..Trace::default() }),
            _ => Err(TraceProblem::Ranks { ranks }),
        }
    }

    /// Adds an operation. Returns its index.
    pub(super) fn add(&mut self, operation: Operation) -> Result<u32, TraceProblem> {
        let Operation { kind, rank, peer, tag, size, .. } = operation;
        let is_recv = kind == OperationKind::Recv;
        match kind {
            OperationKind::Calc if size > MAX_CALC => return Err(TraceProblem::Calc { ns: size }),
            OperationKind::Calc => {
                self.calcs += size;
                if self.calcs > MAX_CALCS {
                    return Err(TraceProblem::Calcs);
                }
            }
            OperationKind::Send | OperationKind::Recv => {
                super::super::error::possible_length(size)?;
                if peer >= self.ranks && !(is_recv && peer == ANY) {
                    return Err(TraceProblem::NoSuchRank { rank: peer, ranks: self.ranks });
                }
                if peer == rank {
                    return Err(TraceProblem::ToItself { rank });
                }
                if tag == ANY && !is_recv {
                    return Err(TraceProblem::AnyTag);
                }
            }
        }
        if self.operations.len() as u64 >= MAX_OPERATIONS {
            return Err(TraceProblem::TooManyOperations);
        }
        self.operations.push(operation);
        Ok(self.operations.len() as u32 - 1)
    }

    pub(super) fn depend(&mut self, dependency: Dependency) -> Result<(), TraceProblem> {
        if self.dependencies.len() as u64 >= MAX_DEPENDENCIES {
            return Err(TraceProblem::TooManyDependencies);
        }
        self.dependencies.push(dependency);
        Ok(())
    }

    /// Creates an error at an operation.
    pub(super) fn error(&self, operation: u32, problem: TraceProblem) -> GoalError {
        let place = self.operations[operation as usize].place;
        match self.is_binary {
            true => GoalError::at_byte(place, problem),
            false => GoalError::at_line(place, problem),
        }
    }
}
