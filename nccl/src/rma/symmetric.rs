//! Memory that all ranks of a group register together.

use std::sync::Arc;

use braid::{RemoteAddr, Sge};

use super::error::RmaError;
use super::exchange::Record;
use crate::memory::Registration;

/// The `mhandle` of NCCL, also its `ginHandle`: memory of this rank, and where it is at the others.
pub(crate) struct SymmetricRegion {
    registration: Registration,
    /// The group's number, unique in the process.
    group: u64,
    /// The memory of each rank.
    ranks: Box<[RankRegion]>,
}

/// The memory of one rank.
#[derive(Clone, Copy, Debug)]
struct RankRegion {
    addr: u64,
    len: u64,
    rkey: u32,
}

/// A part of a [`SymmetricRegion`], as errors name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The name of the argument that says where the part begins.
    pub(super) name: &'static str,
    pub(super) offset: u64,
    pub(super) size: u64,
}

impl SymmetricRegion {
    pub(super) fn new(registration: Registration, group: u64, ranks: &[Record]) -> Self {
        let region = |it: &Record| RankRegion { addr: it.addr, len: it.len, rkey: it.rkey };
        SymmetricRegion { registration, group, ranks: ranks.iter().map(region).collect() }
    }

    /// Returns whether this process registered the memory.
    pub(crate) fn is_here(&self) -> bool {
        self.registration.is_here()
    }

    /// Returns the start of a part of this rank's memory.
    ///
    /// # Errors
    /// If the part is not inside, or the memory belongs to another group.
    pub(super) fn local(&self, group: u64, part: Part) -> Result<Sge, RmaError> {
        self.check_group(group)?;
        let region: &Arc<_> = &self.registration.region;
        let len = region.len() as u64;
        part.check(len)?;
        Ok(Sge { addr: region.addr() + part.offset, len: 0, lkey: region.lkey() })
    }

    /// Returns the start of a part of a rank's memory.
    ///
    /// # Errors
    /// If the part is not inside, or the memory belongs to another group.
    pub(super) fn remote(
        &self,
        group: u64,
        rank: usize,
        part: Part,
    ) -> Result<RemoteAddr, RmaError> {
        self.check_group(group)?;
        let ranks = self.ranks.len();
        let region = self.ranks.get(rank).ok_or(RmaError::Rank { rank: rank as i64, ranks })?;
        part.check(region.len)?;
        Ok(RemoteAddr { addr: region.addr + part.offset, rkey: region.rkey })
    }

    fn check_group(&self, group: u64) -> Result<(), RmaError> {
        if self.group == group { Ok(()) } else { Err(RmaError::OtherGroup) }
    }
}

impl Part {
    fn check(self, len: u64) -> Result<(), RmaError> {
        let Part { name, offset, size } = self;
        match offset.checked_add(size) {
            Some(end) if end <= len => Ok(()),
            _ => Err(RmaError::OutOfRange { name, offset, size, len }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_lies_inside_or_is_named() {
        let part = |offset, size| Part { name: "dstOff", offset, size };
        for (offset, size) in [(0, 0), (0, 64), (64, 0), (56, 8)] {
            assert!(part(offset, size).check(64).is_ok());
        }
        for (offset, size) in [(65, 0), (57, 8), (u64::MAX, 8), (8, u64::MAX)] {
            let error = part(offset, size).check(64).unwrap_err().to_string();
            assert!(error.contains("dstOff") && error.contains("64 bytes"), "{error}");
        }
    }
}
