//! Protection domains and permissions, which decide who may access which memory (IBTA vol. 1,
//! 10.6).
//!
//! Addresses are plain numbers here; only a driver knows the memory behind them.

use std::ops::BitOr;

use braid_wire::AtomicOperands;

/// A protection domain. A queue pair can only access regions of its own domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PdId(pub u32);

/// Permissions of a region or a queue pair. The owner may always read.
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
    /// Receives, READs and atomic results may be written here.
    pub const LOCAL_WRITE: Access = Access(1);
    /// The peer may WRITE.
    pub const REMOTE_WRITE: Access = Access(2);
    /// The peer may READ.
    pub const REMOTE_READ: Access = Access(4);
    /// The peer may use atomics.
    pub const REMOTE_ATOMIC: Access = Access(8);
    /// All permissions.
    pub const ALL: Access = Access(15);

    /// Whether all permissions in `needed` are granted.
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

/// The reason why a memory access is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// No region has this key.
    #[error("no memory region has the key {key:#x}; it was never registered, or is deregistered")]
    Key {
        /// The key.
        key: u32,
    },
    /// The region belongs to another protection domain.
    #[error(
        "the memory region with the key {key:#x} belongs to another protection domain than the queue pair"
    )]
    Domain {
        /// The key.
        key: u32,
    },
    /// The access is out of the region's bounds.
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
    /// The region lacks a permission.
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

/// An atomic operation on 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Compare and swap.
    CompareSwap(AtomicOperands),
    /// Fetch and add.
    FetchAdd(AtomicOperands),
}
