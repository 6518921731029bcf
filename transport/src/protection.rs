//! Protection domains and permissions, which say who may touch which memory (IBTA vol. 1, 10.6).
//!
//! Addresses are numbers here; only a driver knows what lies behind them.

use std::ops::BitOr;

use braid_wire::AtomicOperands;

/// A protection domain. Queue pairs and regions of different domains do not meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PdId(pub u32);

/// Permissions of a region or a queue pair. Reading by the owner is always allowed.
///
/// ```
/// use braid_transport::Access;
///
/// let inbox = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
/// assert!(inbox.allows(Access::REMOTE_WRITE) && !inbox.allows(Access::REMOTE_READ));
/// assert!(inbox.allows(Access::NONE) && Access::ALL.allows(inbox));
/// ```
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

/// Why an access is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
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
        /// Permissions that the access needs.
        needed: Access,
        /// Permissions that the region has.
        has: Access,
    },
}

/// Operation of an atomic on 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Compare and swap.
    CompareSwap(AtomicOperands),
    /// Fetch and add.
    FetchAdd(AtomicOperands),
}
