//! Registered memory, and the memory that transfers address.

use braid::{MemoryRegion, REMOTE_REGION_LEN, RemoteRegion};

/// Memory of this process that NIXL has registered.
pub(crate) struct Registered {
    pub(crate) region: MemoryRegion,
}

impl Registered {
    /// The bytes that describe the memory to peers.
    pub(crate) fn public_data(&self) -> [u8; REMOTE_REGION_LEN] {
        self.region.remote().to_bytes()
    }
}

/// The far end of a transfer.
pub(crate) enum Target {
    /// Memory of another agent.
    Remote { agent: Vec<u8>, region: RemoteRegion },
    /// Memory of this agent.
    Here { addr: u64, len: u64 },
}

impl Target {
    /// Decodes what a peer has published.
    pub(crate) fn remote(agent: &[u8], data: &[u8]) -> Result<Self, &'static str> {
        if data.len() != REMOTE_REGION_LEN {
            return Err("it does not have the length of a memory region");
        }
        let region = RemoteRegion::from_bytes(data).map_err(|_| "it is no memory region")?;
        if region.addr.checked_add(region.len).is_none() {
            return Err("the region does not fit in the address space");
        }
        Ok(Target::Remote { agent: agent.to_owned(), region })
    }

    /// The first address and the length.
    pub(crate) fn extent(&self) -> (u64, u64) {
        match self {
            Target::Remote { region, .. } => (region.addr, region.len),
            Target::Here { addr, len } => (*addr, *len),
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
        assert!(Target::remote(b"a", &region.to_bytes()).is_ok());
        assert!(Target::remote(b"a", &region.to_bytes()[1..]).is_err());
        assert!(Target::remote(b"a", &[region.to_bytes().as_slice(), b"x"].concat()).is_err());
        let wrapping = RemoteRegion { addr: u64::MAX - 8, ..region };
        assert!(Target::remote(b"a", &wrapping.to_bytes()).is_err());
    }
}
