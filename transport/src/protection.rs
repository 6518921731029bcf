//! Who may touch which memory: protection domains, regions, keys (IBTA vol. 1, 10.6).
//!
//! Addresses are numbers here; only a driver knows what lies behind them.

use std::ops::BitOr;

use braid_wire::AtomicOperands;

/// A protection domain. Queue pairs and regions of different domains do not meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PdId(pub u32);

/// What a region or a queue pair allows. Reading by the owner is always allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access(u8);

impl Access {
    /// Local reads only.
    pub const NONE: Access = Access(0);
    /// Receives, READs and atomic results may land here.
    pub const LOCAL_WRITE: Access = Access(1);
    /// The peer may WRITE.
    pub const REMOTE_WRITE: Access = Access(2);
    /// The peer may READ.
    pub const REMOTE_READ: Access = Access(4);
    /// The peer may use atomics.
    pub const REMOTE_ATOMIC: Access = Access(8);
    /// Everything.
    pub const ALL: Access = Access(15);

    /// Whether all of `needed` is allowed.
    pub const fn allows(self, needed: Access) -> bool {
        self.0 & needed.0 == needed.0
    }
}

impl BitOr for Access {
    type Output = Access;
    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// A registered piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its domain.
    pub pd: PdId,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// What is allowed.
    pub access: Access,
}

/// Why an access is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessError {
    /// No region has this key.
    #[error("no memory region has the key {key:#x}; it was never registered, or is deregistered")]
    Key {
        /// The key.
        key: u32,
    },
    /// The region belongs to another domain.
    #[error(
        "the memory region with the key {key:#x} belongs to another protection domain than the queue pair"
    )]
    Domain {
        /// The key.
        key: u32,
    },
    /// Outside the region.
    #[error(
        "{len} bytes at {addr:#x} are not inside the memory region with the key {key:#x}, {region_len} bytes at {region_addr:#x}"
    )]
    Bounds {
        /// The key.
        key: u32,
        /// First byte of the access.
        addr: u64,
        /// Bytes of the access.
        len: u64,
        /// First byte of the region.
        region_addr: u64,
        /// Bytes of the region.
        region_len: u64,
    },
    /// Not allowed.
    #[error(
        "the memory region with the key {key:#x} was registered without {needed:?}; it has {has:?}"
    )]
    Permission {
        /// The key.
        key: u32,
        /// What the access needs.
        needed: Access,
        /// What the region allows.
        has: Access,
    },
}

/// The regions of one engine by key. A key is used again only after its 8-bit generation has wrapped.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    slots: Vec<Slot>,
}

#[derive(Clone, Debug)]
struct Slot {
    generation: u8,
    region: Option<Region>,
}

const GENERATION_BITS: u32 = 8;

impl Regions {
    /// Adds a region and returns its key, which serves as lkey and rkey. `None`: 2^24 regions exist.
    pub fn insert(&mut self, region: Region) -> Option<u32> {
        let free = self.slots.iter().position(|slot| slot.region.is_none());
        let index = free.unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, region: None });
            self.slots.len() - 1
        });
        if index >= 1 << (32 - GENERATION_BITS) {
            return None;
        }
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.region = Some(region);
        Some((index as u32) << GENERATION_BITS | u32::from(slot.generation))
    }

    /// Removes a region; false if the key names none.
    pub fn remove(&mut self, key: u32) -> bool {
        let known = self.get(key).is_some();
        if known {
            self.slots[(key >> GENERATION_BITS) as usize].region = None;
        }
        known
    }

    /// The region of a key.
    pub fn get(&self, key: u32) -> Option<&Region> {
        let slot = self.slots.get((key >> GENERATION_BITS) as usize)?;
        let current = u32::from(slot.generation) == key & ((1 << GENERATION_BITS) - 1);
        slot.region.as_ref().filter(|_| current)
    }

    /// Whether a queue pair of `pd` may touch these bytes in this way. No bytes need no region.
    pub fn check(
        &self,
        pd: PdId,
        key: u32,
        addr: u64,
        len: u64,
        needed: Access,
    ) -> Result<(), AccessError> {
        if len == 0 {
            return Ok(());
        }
        let region = self.get(key).ok_or(AccessError::Key { key })?;
        if region.pd != pd {
            return Err(AccessError::Domain { key });
        }
        let inside = addr
            .checked_sub(region.addr)
            .and_then(|offset| offset.checked_add(len))
            .is_some_and(|end| end <= region.len);
        if !inside {
            let (region_addr, region_len) = (region.addr, region.len);
            return Err(AccessError::Bounds { key, addr, len, region_addr, region_len });
        }
        if !region.access.allows(needed) {
            return Err(AccessError::Permission { key, needed, has: region.access });
        }
        Ok(())
    }
}

/// What an atomic does with 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Compare and swap.
    CompareSwap(AtomicOperands),
    /// Fetch and add.
    FetchAdd(AtomicOperands),
}

/// The memory behind the addresses, as the protocol sees it.
pub trait Memory {
    /// The regions.
    fn regions(&self) -> &Regions;

    /// Carries out an atomic on 8 aligned bytes that have been checked, and returns what they held.
    fn atomic(&self, addr: u64, op: AtomicOp) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> Region {
        Region { pd: PdId(1), addr: 1000, len: 100, access: Access::REMOTE_READ }
    }

    #[test]
    fn checks_domain_bounds_and_permission() {
        let mut regions = Regions::default();
        let key = regions.insert(region()).unwrap();
        let check = |pd, addr, len, access| regions.check(PdId(pd), key, addr, len, access);
        assert_eq!(check(1, 1000, 100, Access::REMOTE_READ), Ok(()));
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
    fn a_removed_key_stays_dead_when_its_slot_is_used_again() {
        let mut regions = Regions::default();
        let old = regions.insert(region()).unwrap();
        assert!(regions.remove(old));
        let new = regions.insert(region()).unwrap();
        assert_ne!(old, new);
        assert_eq!(regions.get(old), None);
        assert!(!regions.remove(old));
    }
}
