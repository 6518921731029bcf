//! Memory without content: the simulator moves descriptors only.

use braid_transport::{Access, AtomicOp, Memory, PdId, Region, Regions};

/// One region as large as the address space, which all hosts share.
#[derive(Clone, Debug)]
pub struct GhostMemory {
    regions: Regions,
    key: u32,
}

/// Bits of an address within a message. The bits above are the number of the message.
const MESSAGE_BITS: u32 = 31;

impl GhostMemory {
    pub(crate) fn new() -> Self {
        let mut regions = Regions::new([0; 16]);
        let region = Region {
            pd: PdId::default(),
            addr: 0,
            iova: 0,
            len: 1 << 63,
            access: Access::ALL,
            nics: None,
        };
        let key = regions.insert(region).expect("room for one region");
        GhostMemory { regions, key }
    }

    /// Returns the key of the region.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }
}

/// Returns the address of a message, the same at both ends.
pub(crate) fn address_of(message: u32) -> u64 {
    u64::from(message) << MESSAGE_BITS
}

/// Returns the message at an address.
pub(crate) fn message_at(address: u64) -> u32 {
    (address >> MESSAGE_BITS) as u32
}

impl Memory for GhostMemory {
    fn regions(&self) -> &Regions {
        &self.regions
    }

    fn atomic(&self, _: u64, _: AtomicOp) -> Option<u64> {
        unreachable!("no workload sends atomics")
    }
}
