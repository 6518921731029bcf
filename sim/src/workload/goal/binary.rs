//! Parser of the binary form of a trace, which `txt2bin` of LogGOPSim writes.
//!
//! All numbers are little-endian and packed without gaps.
//!
//! | part | fields |
//! |---|---|
//! | header | magic (u64), ranks (u32), largest cpu (u8), largest nic (u8) |
//! | table | start and end (u64) of each rank's part, counted from behind the magic |
//! | rank | operations `n` (u32), roots `r` (u32), the numbers of the roots (`r` u32) |
//! | | `n` operations of 39 bytes: see [`Record`] |
//! | | the waiters of all operations, in their order: first those for its end, then for its start |

use super::error::{GoalError, TraceProblem};
use super::trace::{Dependency, MAX_OPERATIONS, Operation, OperationKind, Trace};

/// The first eight bytes of the binary form.
pub(super) const MAGIC: [u8; 8] = 4223_u64.to_le_bytes();

/// Bytes of the magic, from behind which the table counts.
const BASE: u64 = MAGIC.len() as u64;

/// Bytes of the header and of an entry of the table.
const HEADER: u64 = BASE + 6;
const ENTRY: u64 = 16;

/// Bytes of an operation.
const RECORD: u64 = 39;

/// An operation as it stands in the file.
struct Record {
    operation: Operation,
    /// Number of operations that it waits for.
    awaited: u32,
    /// The number and the first index of the operations that wait for its end, then for its start.
    waiters: [(u32, u32); 2],
}

/// A part of the file from an offset on.
#[derive(Clone, Copy)]
struct Section<'a> {
    /// The whole file.
    bytes: &'a [u8],
    at: u64,
    end: u64,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Trace, GoalError> {
    let end = bytes.len() as u64;
    let mut header = Section { bytes, at: BASE, end };
    let ranks = header.u32("the header")?;
    let mut trace = Trace::new(ranks.into(), true).map_err(|of| GoalError::at_byte(BASE, of))?;
    let mut free = HEADER + ENTRY * u64::from(ranks);
    for rank in 0..ranks {
        let at = HEADER + ENTRY * u64::from(rank);
        let mut table = Section { bytes, at, end };
        let mut offset = || Ok(table.u64("the table of ranks")?.saturating_add(BASE));
        let part = Section { bytes, at: offset()?, end: offset()? };
        // Parts that overlap would make a large trace of a small file.
        if part.at < free || part.end > end {
            let (what, value) = ("the start or end of a rank's part", part.at - BASE);
            let expected = format!("a part from {} to {}", free - BASE, end - BASE);
            return Err(GoalError::at_byte(at, TraceProblem::Field { what, value, expected }));
        }
        free = part.end;
        RankPart::read(part, &trace)?.add_to(&mut trace, rank)?;
    }
    Ok(trace)
}

/// The part of a rank.
struct RankPart<'a> {
    records: Section<'a>,
    appendix: Section<'a>,
    /// Number of operations.
    count: u32,
}

impl<'a> RankPart<'a> {
    fn read(mut part: Section<'a>, trace: &Trace) -> Result<RankPart<'a>, GoalError> {
        let at = part.at;
        let (count, roots) = (part.u32("a rank's part")?, part.u32("a rank's part")?);
        if trace.operations.len() as u64 + u64::from(count) > MAX_OPERATIONS {
            return Err(GoalError::at_byte(at, TraceProblem::TooManyOperations));
        }
        part.skip(4 * u64::from(roots), "the list of roots")?;
        let records = part;
        part.skip(RECORD * u64::from(count), "the list of operations")?;
        Ok(RankPart { records, appendix: part, count })
    }

    fn add_to(mut self, trace: &mut Trace, rank: u32) -> Result<(), GoalError> {
        let first = trace.operations.len() as u32;
        let mut open = Vec::with_capacity(self.count as usize);
        let mut free = 0;
        for number in 0..self.count {
            let Record { operation, awaited, waiters } = self.records.record(rank)?;
            let place = operation.place;
            open.push((place, i64::from(awaited)));
            trace.add(operation).map_err(|problem| GoalError::at_byte(place, problem))?;
            for (list, on_start) in waiters.into_iter().zip([false, true]) {
                let mut list = self.waiters(list, &mut free, place)?;
                while list.at < list.end {
                    let at = list.at;
                    let waiter = self.number(list.u32("the list of waiters")?, at)?;
                    let dependency =
                        Dependency { waiter: first + waiter, on: first + number, on_start };
                    trace.depend(dependency).map_err(|problem| GoalError::at_byte(at, problem))?;
                }
            }
        }
        for dependency in trace.dependencies.iter().rev() {
            match dependency.waiter.checked_sub(first) {
                Some(waiter) => open[waiter as usize].1 -= 1,
                None => break,
            }
        }
        match open.iter().find(|(_, left)| *left != 0) {
            None => Ok(()),
            Some((place, left)) => {
                let what = "the number of dependencies of an operation, less those that it has,";
                let (value, expected) = (left.unsigned_abs(), "0".to_owned());
                Err(GoalError::at_byte(*place, TraceProblem::Field { what, value, expected }))
            }
        }
    }

    /// Returns the waiters of an operation. Lists that overlap would make a large trace of a small
    /// file, so each begins at the `free` entry or later.
    fn waiters(
        &self,
        (count, from): (u32, u32),
        free: &mut u64,
        place: u64,
    ) -> Result<Section<'a>, GoalError> {
        let Section { bytes, at, end } = self.appendix;
        if count == 0 {
            return Ok(Section { bytes, at, end: at });
        }
        let (from, behind) = (u64::from(from), u64::from(from) + u64::from(count));
        if from < *free || behind > (end - at) / 4 {
            let what = "the index of an operation's waiters";
            let expected = format!("{free} to {}", ((end - at) / 4).saturating_sub(count.into()));
            return Err(GoalError::at_byte(
                place,
                TraceProblem::Field { what, value: from, expected },
            ));
        }
        *free = behind;
        Ok(Section { bytes, at: at + 4 * from, end: at + 4 * behind })
    }

    fn number(&self, number: u32, at: u64) -> Result<u32, GoalError> {
        if number < self.count {
            return Ok(number);
        }
        let expected = format!("a number below {}", self.count);
        let what = "the number of an operation that waits";
        Err(GoalError::at_byte(at, TraceProblem::Field { what, value: number.into(), expected }))
    }
}

impl Section<'_> {
    /// Passes over bytes of a part of the file.
    fn skip(&mut self, count: u64, what: &'static str) -> Result<(), GoalError> {
        let (begin, end) = (self.at, self.at.saturating_add(count));
        if end > self.end {
            return Err(GoalError::at_byte(
                begin,
                TraceProblem::Truncated { what, end, limit: self.end },
            ));
        }
        self.at = end;
        Ok(())
    }

    fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GoalError> {
        let begin = self.at as usize;
        self.skip(N as u64, what)?;
        Ok(self.bytes[begin..begin + N].try_into().expect("a slice of this length"))
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, GoalError> {
        Ok(self.take::<1>(what)?[0])
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, GoalError> {
        Ok(u32::from_le_bytes(self.take(what)?))
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, GoalError> {
        Ok(u64::from_le_bytes(self.take(what)?))
    }

    fn record(&mut self, rank: u32) -> Result<Record, GoalError> {
        const WHAT: &str = "an operation";
        let place = self.at;
        let awaited = self.u32(WHAT)?;
        let kind = match self.u8(WHAT)? {
            1 => OperationKind::Send,
            2 => OperationKind::Recv,
            3 => OperationKind::Calc,
            other => {
                let expected = "1 (send), 2 (recv) or 3 (calc)".to_owned();
                let (what, value) = ("the kind of an operation", other.into());
                return Err(GoalError::at_byte(
                    place,
                    TraceProblem::Field { what, value, expected },
                ));
            }
        };
        let (peer, size, tag) = (self.u32(WHAT)?, self.u64(WHAT)?, self.u32(WHAT)?);
        let (cpu, nic) = (self.u8(WHAT)?, self.u8(WHAT)?);
        let mut pair = || Ok((self.u32(WHAT)?, self.u32(WHAT)?));
        let waiters = [pair()?, pair()?];
        let operation = Operation { kind, rank, peer, tag, size, cpu, nic, place };
        Ok(Record { operation, awaited, waiters })
    }
}
