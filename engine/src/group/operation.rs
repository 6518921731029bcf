//! The operation of one round.

use std::ops::Range;
use std::sync::Arc;

use super::error::GroupError;
use crate::memory::MemoryRegion;
use crate::{Access, ProtectionDomain};

/// An all-to-all with counts for each peer, as in `MPI_Alltoallv`: the bytes that each rank sends
/// to each other, and the memory that receives them.
///
/// Both regions are registered once, with the group's protection domain ([`super::Group::pd`]), and
/// serve any number of rounds. The receiving region allows
/// [`braid_transport::Access::REMOTE_WRITE`]: the peers write to it at any time from the start of
/// the round to its end. A peer that has learned of it once could do so later, too.
#[derive(Clone, Debug)]
pub struct AllToAllV {
    /// The region to send from.
    pub send: Arc<MemoryRegion>,
    /// The bytes of `send` for each rank. Empty ranges send nothing.
    pub sends: Vec<Range<usize>>,
    /// The region to receive into.
    pub recv: Arc<MemoryRegion>,
    /// The ranges of `recv` for the bytes of each rank, each as long as that rank sends. They must
    /// not overlap.
    pub receives: Vec<Range<usize>>,
}

impl AllToAllV {
    /// The same number of bytes for each of `size` ranks, rank 0's first, as in `MPI_Alltoall`.
    pub fn even(
        send: Arc<MemoryRegion>,
        recv: Arc<MemoryRegion>,
        size: usize,
        bytes: usize,
    ) -> Self {
        let ranges: Vec<_> = (0..size).map(|rank| rank * bytes..(rank + 1) * bytes).collect();
        AllToAllV { send, sends: ranges.clone(), recv, receives: ranges }
    }

    /// Rejects an invalid operation: memory of another protection domain or without the access,
    /// counts and ranges.
    pub(super) fn check(
        &self,
        pd: &ProtectionDomain,
        size: usize,
        own: usize,
    ) -> Result<(), GroupError> {
        self.check_memory(pd)?;
        let wrong = |why: String| Err(GroupError::Operation(why));
        for (what, ranges, region) in
            [("sends", &self.sends, &self.send), ("receives", &self.receives, &self.recv)]
        {
            if ranges.len() != size {
                let count = ranges.len();
                return wrong(format!(
                    "`{what}` has {count} ranges for {size} ranks; give each one"
                ));
            }
            let out = |range: &Range<usize>| range.start > range.end || range.end > region.len();
            if let Some(rank) = ranges.iter().position(out) {
                let (range, len) = (&ranges[rank], region.len());
                return wrong(format!(
                    "`{what}` has {range:?} for rank {rank}, in a region of {len} bytes"
                ));
            }
        }
        let [sent, received] = [&self.sends[own], &self.receives[own]].map(|range| range.len());
        if sent != received {
            return wrong(format!(
                "rank {own} sends {sent} bytes to itself and expects {received}"
            ));
        }
        match overlap(&self.receives) {
            Some([a, b]) => wrong(format!("what ranks {a} and {b} send goes to the same bytes")),
            None => Ok(()),
        }
    }

    /// Rejects regions that no work request of the group may use. Such an error, found here, ends
    /// no group.
    fn check_memory(&self, pd: &ProtectionDomain) -> Result<(), GroupError> {
        let landing = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let refused = |what, why, access| {
            let remedy = "register it with the protection domain of this group (`Group::pd`)";
            GroupError::Operation(format!("`{what}` cannot be used: {why}; {remedy}{access}"))
        };
        let send = pd.check_region(&self.send, Access::NONE);
        send.map_err(|why| refused("send", why, ""))?;
        let recv = pd.check_region(&self.recv, landing);
        recv.map_err(|why| refused("recv", why, ", LOCAL_WRITE and REMOTE_WRITE"))
    }

    /// Copies the bytes that a rank has for itself.
    pub(super) fn copy_own(&self, own: usize) -> Result<(), GroupError> {
        let (from, to) = (self.sends[own].clone(), self.receives[own].start);
        let mut piece = vec![0; from.len().min(1 << 16)];
        for at in from.clone().step_by(1 << 16) {
            let piece = &mut piece[..(from.end - at).min(1 << 16)];
            let copied = self.send.read_at(at, piece);
            let copied = copied.and_then(|()| self.recv.write_at(to + at - from.start, piece));
            copied.map_err(|why| GroupError::Operation(why.to_string()))?;
        }
        Ok(())
    }
}

/// Finds two ranks whose ranges overlap.
fn overlap(ranges: &[Range<usize>]) -> Option<[usize; 2]> {
    let mut order: Vec<usize> =
        (0..ranges.len()).filter(|rank| !ranges[*rank].is_empty()).collect();
    order.sort_unstable_by_key(|rank| ranges[*rank].start);
    let crosses = |pair: &&[usize]| ranges[pair[0]].end > ranges[pair[1]].start;
    order.windows(2).find(crosses).map(|pair| [pair[0], pair[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineConfig};

    #[test]
    fn invalid_operations_are_rejected() {
        let bind = "127.0.0.1:0".parse().unwrap();
        let engine = Engine::new(EngineConfig { bind, ..EngineConfig::default() }).unwrap();
        let pd = engine.alloc_pd();
        let region = || Arc::new(pd.alloc_mr(100, Access::ALL).unwrap());
        let good = AllToAllV::even(region(), region(), 3, 30);
        assert!(good.check(&pd, 3, 1).is_ok());
        let refused = |change: fn(&mut AllToAllV)| {
            let mut changed = good.clone();
            change(&mut changed);
            changed.check(&pd, 3, 1).unwrap_err().to_string()
        };
        assert!(good.check(&pd, 4, 1).unwrap_err().to_string().contains("3 ranges for 4 ranks"));
        assert!(refused(|op| op.sends[2] = 90..101).contains("90..101 for rank 2"));
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        let reversed = refused(|op| op.receives[0] = 9..8);
        assert!(reversed.contains("9..8"));
        assert!(refused(|op| op.sends[1] = 0..1).contains("to itself"));
        assert!(refused(|op| op.receives[2] = 29..59).contains("ranks 0 and 2"));
    }

    #[test]
    fn memory_of_another_domain_or_without_the_access_is_refused() {
        let bind = "127.0.0.1:0".parse().unwrap();
        let engine = || Engine::new(EngineConfig { bind, ..EngineConfig::default() }).unwrap();
        let (ours, other) = (engine(), engine());
        let (pd, landing) = (ours.alloc_pd(), Access::LOCAL_WRITE | Access::REMOTE_WRITE);
        let region = |pd: &ProtectionDomain, access| Arc::new(pd.alloc_mr(100, access).unwrap());
        let good = AllToAllV::even(region(&pd, Access::NONE), region(&pd, landing), 2, 50);
        good.check(&pd, 2, 0).unwrap();
        // The other engine's region may have the key and the domain of a region of this engine.
        for foreign in [ours.alloc_pd(), other.alloc_pd()] {
            let wrong = [
                AllToAllV { send: region(&foreign, Access::ALL), ..good.clone() },
                AllToAllV { recv: region(&foreign, Access::ALL), ..good.clone() },
            ];
            for (operation, what) in wrong.iter().zip(["`send`", "`recv`"]) {
                let error = operation.check(&pd, 2, 0).unwrap_err().to_string();
                assert!(
                    error.contains(what) && error.contains("another protection domain"),
                    "{error}"
                );
            }
        }
        for access in [Access::LOCAL_WRITE, Access::REMOTE_WRITE] {
            let deaf = AllToAllV { recv: region(&pd, access), ..good.clone() };
            let error = deaf.check(&pd, 2, 0).unwrap_err().to_string();
            assert!(error.contains("`recv`") && error.contains("REMOTE_WRITE"), "{error}");
        }
    }
}
