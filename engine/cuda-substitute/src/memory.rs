//! Device memory: addresses that the host cannot access, and the bytes behind them.

use std::ptr;

/// The allocations of all contexts, and the pinned memory of the host.
#[derive(Default)]
pub(crate) struct Memory {
    allocations: Vec<Allocation>,
    pinned: Vec<u64>,
}

struct Allocation {
    context: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Memory {
    /// Allocates device memory.
    pub(crate) fn allocate(&mut self, context: u64, len: usize) -> Option<u64> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping that nobody can access.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = start as u64;
        self.allocations.push(Allocation { context, start, bytes: vec![0xDE; len] });
        Some(start)
    }

    /// Frees the allocation that begins at an address. Returns whether there is one.
    pub(crate) fn free(&mut self, start: u64) -> bool {
        let before = self.allocations.len();
        self.allocations.retain(|it| it.start != start);
        self.allocations.len() < before
    }

    pub(crate) fn free_context(&mut self, context: u64) {
        self.allocations.retain(|it| it.context != context);
    }

    /// The context of the device memory at an address.
    pub(crate) fn context_of(&self, addr: u64) -> Option<u64> {
        let holds = |it: &&Allocation| addr.wrapping_sub(it.start) < it.bytes.len() as u64;
        self.allocations.iter().find(holds).map(|it| it.context)
    }

    /// The bytes of device memory.
    pub(crate) fn bytes(&mut self, addr: u64, len: usize) -> Option<&mut [u8]> {
        self.allocations.iter_mut().find_map(|it| {
            let offset = usize::try_from(addr.checked_sub(it.start)?).ok()?;
            it.bytes.get_mut(offset..offset.checked_add(len)?)
        })
    }

    /// Pins memory of the host. Returns false if it is pinned.
    pub(crate) fn pin(&mut self, start: u64) -> bool {
        let is_new = !self.pinned.contains(&start);
        if is_new {
            self.pinned.push(start);
        }
        is_new
    }

    /// Returns false if the memory is not pinned.
    pub(crate) fn unpin(&mut self, start: u64) -> bool {
        let before = self.pinned.len();
        self.pinned.retain(|pinned| *pinned != start);
        self.pinned.len() < before
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the mapping is this allocation's, and nobody accesses it.
        unsafe { libc::munmap(self.start as *mut _, self.bytes.len()) };
    }
}
