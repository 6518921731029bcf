//! Registered memory, and the memory that transfers address.

use std::ffi::c_int;
use std::sync::{Arc, Weak};

use braid::{MemoryRegion, REMOTE_REGION_LEN, RemoteRegion};

use crate::status::Error;

/// The kind of memory: that of the host, or of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemoryKind {
    /// `DRAM_SEG`.
    Dram,
    /// `VRAM_SEG`.
    Vram,
}

impl MemoryKind {
    /// The kind with a number of NIXL's.
    pub(crate) fn of(kind: c_int) -> Result<Self, Error> {
        match kind {
            0 => Ok(MemoryKind::Dram),
            1 => Ok(MemoryKind::Vram),
            _ => Err(Error::Kind { kind }),
        }
    }

    /// The kind of a region.
    pub(crate) fn of_region(region: &MemoryRegion) -> Self {
        if region.is_device() { MemoryKind::Vram } else { MemoryKind::Dram }
    }

    /// NIXL's word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MemoryKind::Dram => "DRAM",
            MemoryKind::Vram => "VRAM",
        }
    }
}

/// A descriptor of memory that is to be registered, or that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) kind: MemoryKind,
    pub(crate) addr: u64,
    pub(crate) len: usize,
    /// The number of the GPU, if it is memory of one.
    pub(crate) device: u64,
}

/// Memory of this process that NIXL has registered.
pub(crate) struct Registered {
    /// Others hold weak references only, so dropping this one deregisters.
    pub(crate) region: Arc<MemoryRegion>,
}

impl Registered {
    /// The bytes that describe the memory to peers.
    pub(crate) fn public_data(&self) -> [u8; REMOTE_REGION_LEN] {
        self.region.remote().to_bytes()
    }

    /// The memory as the far end of a transfer within this agent.
    pub(crate) fn target(&self) -> Target {
        let (addr, len) = (self.region.addr(), self.region.len() as u64);
        let region = Arc::downgrade(&self.region);
        Target::Here { region, kind: MemoryKind::of_region(&self.region), addr, len }
    }
}

/// The far end of a transfer.
pub(crate) enum Target {
    /// Memory of another agent.
    Remote { agent: Vec<u8>, kind: MemoryKind, region: RemoteRegion },
    /// Memory of this agent.
    Here { region: Weak<MemoryRegion>, kind: MemoryKind, addr: u64, len: u64 },
}

impl Target {
    /// Decodes what a peer has published.
    pub(crate) fn remote(
        agent: &[u8],
        kind: MemoryKind,
        data: &[u8],
    ) -> Result<Self, &'static str> {
        if data.len() != REMOTE_REGION_LEN {
            return Err("it does not have the length of a memory region");
        }
        let region = RemoteRegion::from_bytes(data).map_err(|_| "it is no memory region")?;
        if region.addr.checked_add(region.len).is_none() {
            return Err("the region does not fit in the address space");
        }
        Ok(Target::Remote { agent: agent.to_owned(), kind, region })
    }

    /// The first address and the length.
    pub(crate) fn extent(&self) -> (u64, u64) {
        match self {
            Target::Remote { region, .. } => (region.addr, region.len),
            Target::Here { addr, len, .. } => (*addr, *len),
        }
    }

    pub(crate) fn kind(&self) -> MemoryKind {
        match self {
            Target::Remote { kind, .. } | Target::Here { kind, .. } => *kind,
        }
    }
}

/// Whether `len` bytes at `addr` lie in an extent.
pub(crate) fn covers((start, extent): (u64, u64), addr: u64, len: u64) -> bool {
    addr.checked_sub(start)
        .and_then(|offset| offset.checked_add(len))
        .is_some_and(|end| end <= extent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pieces_are_covered() {
        let extent = (1000, 100);
        assert!(covers(extent, 1000, 100) && covers(extent, 1100, 0));
        assert!(!covers(extent, 999, 1) && !covers(extent, 1001, 100));
        assert!(!covers(extent, 1050, u64::MAX) && !covers(extent, u64::MAX, 1));
    }

    #[test]
    fn malformed_regions_of_peers_are_refused() {
        let region = RemoteRegion { addr: 4096, len: 64, rkey: 7 };
        let decode = |data: &[u8]| Target::remote(b"a", MemoryKind::Vram, data);
        assert_eq!(decode(&region.to_bytes()).ok().unwrap().kind(), MemoryKind::Vram);
        assert!(decode(&region.to_bytes()[1..]).is_err());
        assert!(decode(&[region.to_bytes().as_slice(), b"x"].concat()).is_err());
        let wrapping = RemoteRegion { addr: u64::MAX - 8, ..region };
        assert!(decode(&wrapping.to_bytes()).is_err());
    }

    #[test]
    fn other_kinds_of_memory_are_refused() {
        assert_eq!(MemoryKind::of(1).unwrap(), MemoryKind::Vram);
        for kind in [-1, 2, 3, 4] {
            assert!(matches!(MemoryKind::of(kind), Err(Error::Kind { .. })), "{kind}");
        }
    }
}
