//! Memory that holds nothing: the simulator moves descriptors.

use braid_transport::{Access, AtomicOp, Memory, PdId, Region, Regions};

/// One region as large as the address space that all hosts share.
#[derive(Clone, Debug)]
pub struct GhostMemory {
    regions: Regions,
    key: u32,
}

/// Bits of an address that lie within a message; those above are the message's number.
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

    /// The key to all of it.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }
}

/// Where a message lies, at either side.
pub(crate) fn address_of(message: u32) -> u64 {
    u64::from(message) << MESSAGE_BITS
}

/// The message that an address lies in.
pub(crate) fn message_at(address: u64) -> u32 {
    (address >> MESSAGE_BITS) as u32
}

impl Memory for GhostMemory {
    fn regions(&self) -> &Regions {
        &self.regions
    }

    fn atomic(&self, _: u64, _: AtomicOp) -> u64 {
        unreachable!("no workload sends atomics")
    }
}
