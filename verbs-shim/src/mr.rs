//! Memory regions.

use std::ops::BitOr;
use std::ptr::NonNull;

use crate::abi::*;
use crate::{Pd, VerbsError};

/// The permissions of a memory region, or of a queue pair. Local reads are always permitted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MrAccess(u32);

impl MrAccess {
    /// The device may only read the memory, for local work requests.
    pub const NONE: MrAccess = MrAccess(0);
    /// Receives may write the memory. Remote writes and atomics need this permission too.
    pub const LOCAL_WRITE: MrAccess = MrAccess(IBV_ACCESS_LOCAL_WRITE);
    /// Peers may write the memory.
    pub const REMOTE_WRITE: MrAccess = MrAccess(IBV_ACCESS_REMOTE_WRITE);
    /// Peers may read the memory.
    pub const REMOTE_READ: MrAccess = MrAccess(IBV_ACCESS_REMOTE_READ);
    /// Peers may execute atomics on the memory.
    pub const REMOTE_ATOMIC: MrAccess = MrAccess(IBV_ACCESS_REMOTE_ATOMIC);

    /// Returns whether it includes all permissions of `other`.
    pub fn contains(self, other: MrAccess) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for MrAccess {
    type Output = MrAccess;

    fn bitor(self, other: MrAccess) -> MrAccess {
        MrAccess(self.0 | other.0)
    }
}

/// A memory region that is registered with the device. After it is dropped the memory may be freed.
#[derive(Debug)]
pub struct Mr {
    pd: Pd,
    raw: NonNull<ibv_mr>,
}

// SAFETY: libibverbs may be called from any thread. The pointer stays valid until `drop`, and its
// target is not written after its creation.
unsafe impl Send for Mr {}
// SAFETY: as above.
unsafe impl Sync for Mr {}

impl Pd {
    /// Registers `len` bytes at `addr` with the device, which pins them.
    ///
    /// # Errors
    /// [`VerbsError::Refused`]; `ENOMEM` usually means the limit of locked memory, `ulimit -l`.
    ///
    /// # Safety
    /// Until the region is dropped the bytes stay mapped, and writable if `access` includes
    /// [`MrAccess::LOCAL_WRITE`]. No Rust reference to them exists while the device may access
    /// them: for peers with the `rkey` at any time, and for outstanding work requests.
    pub unsafe fn register(
        &self,
        addr: *mut u8,
        len: usize,
        access: MrAccess,
    ) -> Result<Mr, VerbsError> {
        let context = self.context();
        // SAFETY: the domain is alive, and the caller guarantees the memory.
        let raw = unsafe {
            (context.symbols().ibv_reg_mr)(self.raw(), addr.cast(), len, access.bits() as i32)
        };
        let raw =
            context.made("ibv_reg_mr", || format!("{len} bytes at {addr:p}, {access:?}"), raw)?;
        Ok(Mr { pd: self.clone(), raw })
    }
}

impl Mr {
    /// Returns the key for scatter/gather entries.
    pub fn lkey(&self) -> u32 {
        // SAFETY: the region is alive.
        unsafe { (*self.raw.as_ptr()).lkey }
    }

    /// Returns the key for peers.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is alive.
        unsafe { (*self.raw.as_ptr()).rkey }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        // SAFETY: the region is alive.
        unsafe { (*self.raw.as_ptr()).length }
    }

    /// Returns whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: the region came from a registration and is deregistered once.
        let code = unsafe { (self.pd.context().symbols().ibv_dereg_mr)(self.raw.as_ptr()) };
        self.pd.context().unmade("ibv_dereg_mr", code);
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::fake;

    #[test]
    fn access_is_a_set() {
        let both = MrAccess::LOCAL_WRITE | MrAccess::REMOTE_WRITE;
        assert!(both.contains(MrAccess::REMOTE_WRITE) && both.contains(MrAccess::NONE));
        assert!(!both.contains(MrAccess::REMOTE_READ | MrAccess::REMOTE_WRITE));
        assert_eq!(both.bits(), 3);
    }

    #[test]
    fn a_region_has_the_keys_of_the_device() {
        let fake = fake::Device::new();
        let pd = fake.open().alloc_pd().expect("a domain");
        let mut bytes = [0u8; 64];
        // SAFETY: the fake device does not touch memory.
        let mr = unsafe { pd.register(bytes.as_mut_ptr(), 64, MrAccess::LOCAL_WRITE) };
        let mr = mr.expect("registered");
        assert_eq!((mr.lkey(), mr.rkey(), mr.len()), (0x11, 0x22, 64));
        drop(mr);
        assert_eq!(fake.took("ibv_dereg_mr"), 1);
    }

    #[test]
    fn a_refused_registration_names_the_bytes() {
        let fake = fake::Device::new().failing("ibv_reg_mr");
        let pd = fake.open().alloc_pd().expect("a domain");
        // SAFETY: the fake device does not touch memory.
        let refused = unsafe { pd.register(std::ptr::null_mut(), 4096, MrAccess::NONE) };
        let text = refused.expect_err("refused").to_string();
        assert!(text.starts_with("fake0: ibv_reg_mr failed (4096 bytes at 0x0"), "{text}");
    }
}
