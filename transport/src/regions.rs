//! The memory regions of an engine, by key.

use std::sync::Arc;

use braid_wire::RailId;

use crate::protection::{Access, AccessError, AtomicOp, PdId};
use crate::region_keys::RegionKeys;

/// Maximum number of regions at a time.
const MAX_REGIONS: usize = 1 << 23;
/// Slots per chunk, and chunks per group.
const CHUNK: usize = 64;
const GROUP: usize = 256;

/// A registered memory region.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Region {
    /// The protection domain.
    pub pd: PdId,
    /// Address of the first byte in memory.
    pub addr: u64,
    /// Address by which work requests and peers name the first byte (`ibv_reg_mr_iova`(3)); usually
    /// equal to `addr`.
    pub iova: u64,
    /// Length in bytes.
    pub len: u64,
    /// The permissions.
    pub access: Access,
    /// Keys of the region on each rail's NIC. `None`: no NIC moves payloads by itself.
    pub nics: Option<Arc<[NicKeys]>>,
}

impl Region {
    /// Keys of the region on this rail's NIC, if that NIC moves payloads by itself.
    pub fn nic(&self, rail: RailId) -> Option<NicKeys> {
        self.nics.as_ref()?.get(rail.get()).copied()
    }
}

/// A NIC's own keys for a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NicKeys {
    /// For work requests of this NIC.
    pub lkey: u32,
    /// For work requests of the peer's NIC.
    pub rkey: u32,
}

/// The regions of one engine by key. Clones share all unchanged parts, so both a clone and a later
/// change are cheap. A user of the table takes a clone as a snapshot while others register regions.
///
/// Invariants: a region is in the slot that the low bits of its key select, and no other region's
/// key selects that slot. The number of slots is a power of two and at least twice the number of
/// regions.
#[derive(Clone, Debug)]
pub struct Regions {
    groups: Vec<Arc<Group>>,
    /// Number of slots minus one.
    mask: u32,
    count: usize,
    keys: RegionKeys,
}

type Group = Vec<Arc<Chunk>>;
type Chunk = [Slot; CHUNK];

#[derive(Clone, Default, Debug)]
struct Slot {
    /// 0: the slot is free.
    key: u32,
    region: Region,
}

impl Regions {
    /// Creates an empty table. `secret`: random bytes from which the keys are derived, so that
    /// others cannot guess them.
    pub fn new(secret: [u8; 16]) -> Self {
        let keys = RegionKeys::new(secret);
        Regions { groups: empty(CHUNK), mask: CHUNK as u32 - 1, count: 0, keys }
    }

    /// Adds a region and returns its key, which serves as lkey and rkey. A key is never 0, and is
    /// reused only after about 2^31 others. `None`: 2^23 regions exist already.
    pub fn insert(&mut self, region: Region) -> Option<u32> {
        if self.count == MAX_REGIONS {
            return None;
        }
        if 2 * (self.count + 1) > self.slots() {
            self.grow();
        }
        // At least half of the slots are free and a key selects any of them, so two tries suffice
        // on average.
        loop {
            let key = self.keys.take();
            if key != 0 && self.slot(key).key == 0 {
                self.count += 1;
                *self.slot_mut(key) = Slot { key, region };
                return Some(key);
            }
        }
    }

    /// Replaces the region of a key. Returns false if no region has the key.
    pub fn replace(&mut self, key: u32, region: Region) -> bool {
        let known = self.get(key).is_some();
        if known {
            self.slot_mut(key).region = region;
        }
        known
    }

    /// Removes a region. Returns false if no region has the key.
    pub fn remove(&mut self, key: u32) -> bool {
        let known = self.get(key).is_some();
        if known {
            self.count -= 1;
            *self.slot_mut(key) = Slot::default();
        }
        known
    }

    /// Returns the region with this key.
    #[inline]
    pub fn get(&self, key: u32) -> Option<&Region> {
        let slot = self.slot(key);
        (slot.key == key && key != 0).then_some(&slot.region)
    }

    /// Checks that a queue pair of domain `pd` may access these bytes, which are named by the
    /// region's `iova`. Returns their address in memory. An access of no bytes needs no region and
    /// returns `addr` itself.
    pub fn check(
        &self,
        pd: PdId,
        key: u32,
        addr: u64,
        len: u64,
        needed: Access,
    ) -> Result<u64, AccessError> {
        if len == 0 {
            return Ok(addr);
        }
        let region = self.get(key).ok_or(AccessError::Key { key })?;
        if region.pd != pd {
            return Err(AccessError::Domain { key });
        }
        let offset = addr.wrapping_sub(region.iova);
        let inside =
            addr >= region.iova && offset.checked_add(len).is_some_and(|end| end <= region.len);
        if !inside {
            let (region_addr, region_len) = (region.iova, region.len);
            return Err(AccessError::Bounds { key, addr, len, region_addr, region_len });
        }
        if !region.access.allows(needed) {
            return Err(AccessError::Permission { key, needed, has: region.access });
        }
        Ok(region.addr + offset)
    }

    fn slots(&self) -> usize {
        self.mask as usize + 1
    }

    #[inline]
    fn slot(&self, key: u32) -> &Slot {
        let index = (key & self.mask) as usize;
        &self.groups[index / (CHUNK * GROUP)][index / CHUNK % GROUP][index % CHUNK]
    }

    /// Returns a slot for writing. Copies what clones share on the way: the group's list of chunks,
    /// and one chunk.
    fn slot_mut(&mut self, key: u32) -> &mut Slot {
        let index = (key & self.mask) as usize;
        let group = Arc::make_mut(&mut self.groups[index / (CHUNK * GROUP)]);
        &mut Arc::make_mut(&mut group[index / CHUNK % GROUP])[index % CHUNK]
    }

    /// Doubles the number of slots. Keys that differed in their low bits still do.
    fn grow(&mut self) {
        let slots = 2 * self.slots();
        let before = std::mem::replace(&mut self.groups, empty(slots));
        self.mask = slots as u32 - 1;
        let all = before.iter().flat_map(|group| group.iter()).flat_map(|chunk| chunk.iter());
        for slot in all.filter(|slot| slot.key != 0) {
            *self.slot_mut(slot.key) = slot.clone();
        }
    }
}

/// Returns this number of free slots.
fn empty(slots: usize) -> Vec<Arc<Group>> {
    let chunk = Arc::new(std::array::from_fn(|_| Slot::default()));
    let group = Arc::new(vec![chunk; (slots / CHUNK).min(GROUP)]);
    vec![group; slots.div_ceil(CHUNK * GROUP)]
}

/// The memory behind the addresses, as the protocol accesses it.
pub trait Memory {
    /// The regions.
    fn regions(&self) -> &Regions;

    /// Carries out an atomic on 8 aligned bytes that have passed [`Regions::check`]. Returns their
    /// old value. `None`: the memory cannot be accessed, so the request is refused.
    fn atomic(&self, addr: u64, op: AtomicOp) -> Option<u64>;

    /// Whether the driver has to copy the bytes at an address that has passed [`Regions::check`]
    /// before they can be sent. A READ of them waits for [`crate::Endpoint::serve_read`].
    fn must_be_copied(&self, _addr: u64) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    fn region(addr: u64) -> Region {
        let (pd, access) = (PdId(1), Access::REMOTE_READ);
        Region { pd, addr, iova: addr, len: 100, access, nics: None }
    }

    #[test]
    fn checks_domain_bounds_and_permission() {
        let mut regions = Regions::new([1; 16]);
        let key = regions.insert(region(1000)).unwrap();
        let check = |pd, addr, len, access| regions.check(PdId(pd), key, addr, len, access);
        assert_eq!(check(1, 1000, 100, Access::REMOTE_READ), Ok(1000));
        assert_eq!(check(2, 1000, 1, Access::NONE), Err(AccessError::Domain { key }));
        for (addr, len) in [(999, 2), (1000, 101), (1100, 1), (u64::MAX, 2), (1099, u64::MAX)] {
            assert!(matches!(check(1, addr, len, Access::NONE), Err(AccessError::Bounds { .. })));
        }
        assert!(matches!(
            check(1, 1000, 1, Access::REMOTE_WRITE),
            Err(AccessError::Permission { .. })
        ));
    }

    #[test]
    fn iova_names_the_bytes_of_a_region() {
        let mut regions = Regions::new([1; 16]);
        for iova in [0, 1 << 40, u64::MAX - 99] {
            let key = regions.insert(Region { iova, ..region(1000) }).unwrap();
            let check = |addr, len| regions.check(PdId(1), key, addr, len, Access::NONE);
            assert_eq!((check(iova, 100), check(iova + 99, 1)), (Ok(1000), Ok(1099)));
            for (addr, len) in [(iova.wrapping_sub(1), 2), (iova + 1, 100), (1000, 1)] {
                assert!(matches!(check(addr, len), Err(AccessError::Bounds { .. })), "{addr:#x}");
            }
        }
    }

    #[test]
    fn removed_key_is_never_reused() {
        let mut regions = Regions::new([1; 16]);
        let old = regions.insert(region(0)).unwrap();
        assert!(regions.remove(old));
        for _ in 0..100_000 {
            let key = regions.insert(region(0)).unwrap();
            assert_ne!(key, old);
            assert_eq!(regions.get(old), None);
            assert!(regions.remove(key) && !regions.remove(key));
        }
        assert_eq!(regions.slots(), CHUNK, "nothing is left behind");
    }

    #[test]
    fn live_key_can_be_replaced_and_removed_key_cannot() {
        let mut regions = Regions::new([1; 16]);
        let key = regions.insert(region(0)).unwrap();
        let snapshot = regions.clone();
        assert!(regions.replace(key, region(5000)));
        let [before, now] = [&snapshot, &regions].map(|all| all.get(key).unwrap().addr);
        assert_eq!((before, now, regions.count), (0, 5000, 1));
        assert!(regions.remove(key) && !regions.replace(key, region(0)));
        assert!(!regions.replace(0, region(0)) && regions.get(key).is_none());
    }

    #[test]
    fn zero_is_no_key() {
        let mut regions = Regions::new([1; 16]);
        assert_eq!(regions.get(0), None);
        assert!((0..10_000).all(|_| regions.insert(region(0)) != Some(0)));
        assert_eq!(regions.get(0), None);
        assert!(!regions.remove(0));
    }

    /// Returns the number of chunks that two tables do not share.
    fn differ(one: &Regions, other: &Regions) -> usize {
        let chunks = |regions: &Regions| -> Vec<_> {
            regions.groups.iter().flat_map(|group| group.iter().cloned()).collect()
        };
        let both = chunks(one).into_iter().zip(chunks(other));
        both.filter(|(one, other)| !Arc::ptr_eq(one, other)).count()
    }

    #[test]
    fn change_of_one_region_copies_one_chunk() {
        let mut regions = Regions::new([1; 16]);
        let keys: Vec<u32> = (0..30_000).map(|i| regions.insert(region(i)).unwrap()).collect();
        assert!(regions.groups.len() > 1);
        let snapshot = regions.clone();
        let new = regions.insert(region(7)).unwrap();
        assert_eq!(differ(&snapshot, &regions), 1);
        assert_eq!(snapshot.get(new), None);
        let snapshot = regions.clone();
        assert!(regions.remove(keys[77]));
        assert_eq!(differ(&snapshot, &regions), 1);
        assert_eq!(snapshot.get(keys[77]), Some(&region(77)));
    }

    proptest! {
        /// Compares with a map: regions come and go, and none is lost when the table grows.
        #[test]
        fn it_is_a_map(secret: [u8; 16], steps in prop::collection::vec(any::<Option<u8>>(), 1..600)) {
            let mut regions = Regions::new(secret);
            let (mut model, mut known) = (HashMap::new(), Vec::new());
            let mut all = HashSet::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Some(which) if !known.is_empty() && which < 100 => {
                        let key = known.swap_remove(usize::from(which) % known.len());
                        prop_assert_eq!(regions.remove(key), model.remove(&key).is_some());
                    }
                    _ => {
                        let region = region(number as u64);
                        let key = regions.insert(region.clone()).unwrap();
                        prop_assert!(all.insert(key), "a key comes back");
                        known.push(key);
                        model.insert(key, region);
                    }
                }
                prop_assert!(2 * model.len() <= regions.slots());
            }
            for key in all {
                prop_assert_eq!(regions.get(key), model.get(&key));
            }
        }
    }
}
