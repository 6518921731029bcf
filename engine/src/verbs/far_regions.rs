//! The peer's memory regions: the NIC's keys for regions that this end writes to.

use std::time::Duration;

use braid_wire::Time;
use rustc_hash::FxHashMap;

/// Time to wait for an answer to [`braid_wire::NoteBody::Ask`], and time for which a refusal is
/// valid.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// The largest number of known regions of a peer. A peer may register memory anew for every
/// message, and nothing tells when a region is gone, so old regions are forgotten. A WRITE to a
/// region that is gone breaks the connection.
const MOST: usize = 4096;

/// The regions by rkey, as applications know it. `recent` has those that were looked up since
/// `older` was the whole table. Beyond the limit, the least recently used regions are forgotten.
#[derive(Default)]
pub(crate) struct FarRegions {
    recent: FxHashMap<u32, FarRegion>,
    older: FxHashMap<u32, FarRegion>,
}

/// A region of the peer as its NIC knows it.
#[derive(Clone, Copy)]
enum FarRegion {
    Known {
        nic_rkey: u32,
        addr: u64,
        len: u64,
    },
    /// The key was requested or refused. From this time on it may be requested again.
    Unknown(Time),
}

impl FarRegions {
    /// The key with which the peer's NIC allows writing `len` bytes at `addr` of region `rkey`.
    pub(crate) fn nic_rkey(&mut self, rkey: u32, addr: u64, len: u64) -> Option<u32> {
        let end = addr.checked_add(len)?;
        match self.get(rkey)? {
            FarRegion::Known { nic_rkey, addr: start, len } => {
                (start <= addr && end - start <= len).then_some(nic_rkey)
            }
            FarRegion::Unknown(_) => None,
        }
    }

    /// Whether the peer has to be asked for the region's key now.
    pub(crate) fn must_ask(&mut self, now: Time, rkey: u32) -> bool {
        let is_due = match self.get(rkey) {
            None => true,
            Some(FarRegion::Unknown(due)) => now >= due,
            Some(FarRegion::Known { .. }) => false,
        };
        if is_due {
            self.insert(rkey, FarRegion::Unknown(now + ASK_AGAIN));
        }
        is_due
    }

    /// Stores the peer's answer. Answers without a request are ignored.
    pub(crate) fn learn(&mut self, rkey: u32, nic_rkey: u32, addr: u64, len: u64) {
        if len > 0 && self.get(rkey).is_some() {
            self.insert(rkey, FarRegion::Known { nic_rkey, addr, len });
        }
    }

    fn get(&mut self, rkey: u32) -> Option<FarRegion> {
        if let Some(region) = self.recent.get(&rkey) {
            return Some(*region);
        }
        let region = self.older.remove(&rkey)?;
        self.insert(rkey, region);
        Some(region)
    }

    fn insert(&mut self, rkey: u32, region: FarRegion) {
        if self.recent.len() >= MOST / 2 {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(rkey, region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(1 << 40);

    #[test]
    fn a_region_is_asked_for_until_it_is_known() {
        let mut regions = FarRegions::default();
        regions.learn(7, 8, 0x1000, 64);
        assert_eq!(regions.nic_rkey(7, 0x1000, 1), None, "nobody asked");
        assert!(regions.must_ask(NOW, 7));
        assert!(!regions.must_ask(NOW + ASK_AGAIN / 2, 7));
        assert!(regions.must_ask(NOW + ASK_AGAIN, 7));
        regions.learn(7, 0, 0, 0);
        assert_eq!(regions.nic_rkey(7, 0x1000, 1), None, "refused");
        regions.learn(7, 8, 0x1000, 64);
        assert!(!regions.must_ask(NOW + 2 * ASK_AGAIN, 7));
        for (addr, len, is_inside) in [
            (0x1000, 64, true),
            (0x1020, 32, true),
            (0xFFF, 1, false),
            (0x1000, 65, false),
            (0x1041, 0, false),
            (u64::MAX, 1, false),
            (u64::MAX, 0, false),
        ] {
            assert_eq!(regions.nic_rkey(7, addr, len).is_some(), is_inside, "{addr:#x}, {len}");
        }
    }

    #[test]
    fn regions_beyond_measure_give_way_but_for_those_in_use() {
        let mut regions = FarRegions::default();
        for rkey in 0..10 * MOST as u32 {
            assert!(regions.must_ask(NOW, rkey));
            regions.learn(rkey, !rkey, 1 << 20, 4096);
            assert_eq!(regions.nic_rkey(0, 1 << 20, 4096), Some(!0), "after {rkey}");
            assert!(regions.recent.len() + regions.older.len() <= MOST);
        }
        assert_eq!(regions.nic_rkey(1, 1 << 20, 4096), None, "forgotten, to be asked for again");
    }
}
