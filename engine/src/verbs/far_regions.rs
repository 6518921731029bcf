//! What is known of a peer's memory regions: the NIC's keys for those that are written to.

use std::time::Duration;

use braid_wire::Time;
use rustc_hash::FxHashMap;

/// How long an answer to [`braid_wire::NoteBody::Ask`] is waited for, and a refusal believed.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// Regions of one peer that are known at a time. A peer that registers anew for every message has
/// its old ones forgotten: nobody says when a region is gone, and whoever writes to one that is
/// loses the connection.
const MOST: usize = 4096;

/// By rkey, as applications know it. `recent` are those that were looked up since `older` were all
/// there was: where there are too many, the ones that have not been used for longest give way.
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
    /// Asked for, or not to be had: from then on it may be asked for again.
    Unknown(Time),
}

impl FarRegions {
    /// The key with which the NIC there may write `len` bytes at `addr` of its region `rkey`.
    pub(crate) fn nic_rkey(&mut self, rkey: u32, addr: u64, len: u64) -> Option<u32> {
        let end = addr.checked_add(len)?;
        match self.get(rkey)? {
            FarRegion::Known { nic_rkey, addr: start, len } => {
                (start <= addr && end - start <= len).then_some(nic_rkey)
            }
            FarRegion::Unknown(_) => None,
        }
    }

    /// Whether the other end has to be asked for a region now.
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

    /// The other end tells what was asked. What nobody asked for is ignored.
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
