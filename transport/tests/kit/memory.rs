//! One region that allows everything, for two hosts that move no bytes.

use std::ops::Range;

use braid_transport::{
    Access, AtomicOp, Memory, PdId, Region, Regions, RemoteAddr, SendOp, SendWr, SgList, Sge,
};

const BASE: u64 = 1 << 20;
const LEN: u64 = 1 << 30;

/// Registers addresses that their peers know them by. Returns the key.
pub(crate) fn register(regions: &mut Regions, pd: PdId, at: Range<u64>, access: Access) -> u32 {
    let (addr, len) = (at.start, at.end - at.start);
    let region = Region { pd, addr, iova: addr, len, access, nics: None };
    regions.insert(region).expect("there is room")
}

pub(crate) struct Everything {
    regions: Regions,
    key: u32,
}

impl Everything {
    pub(crate) fn new() -> Self {
        let mut regions = Regions::new([0; 16]);
        let key = register(&mut regions, PdId(0), BASE..BASE + LEN, Access::ALL);
        Everything { regions, key }
    }

    /// Its first `len` bytes, at home.
    pub(crate) fn sges(&self, len: u32) -> SgList {
        SgList::from_iter([Sge { addr: BASE, len, lkey: self.key }])
    }

    /// Its beginning, seen from the other host.
    pub(crate) fn remote(&self) -> RemoteAddr {
        RemoteAddr { addr: BASE, rkey: self.key }
    }

    /// A work request for its first `len` bytes.
    pub(crate) fn work(&self, op: SendOp, len: u32) -> SendWr {
        let sges = self.sges(len);
        SendWr { id: 0, op, sges, signalled: true, solicited: false, fence: false }
    }
}

impl Memory for Everything {
    fn regions(&self) -> &Regions {
        &self.regions
    }

    fn atomic(&self, _: u64, _: AtomicOp) -> Option<u64> {
        Some(0)
    }
}
