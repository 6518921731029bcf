//! Anonymous memory of the operating system.

use std::io;
use std::ptr::NonNull;

/// Bytes of a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;
/// Bytes made resident at a time. Meanwhile no other thread of the process can map memory. On a
/// machine with more threads than processors, the engine's threads would stand still until a whole
/// long region is resident, and peers would consider the engine dead.
const PIECE: usize = HUGE_PAGE;

/// Pages owned by this process, zeroed and resident from the start.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address range; any thread may use or unmap it.
unsafe impl Send for Mapping {}
// SAFETY: shared access hands out nothing but the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `len` bytes, with `len` at least 1. With `huge`, the pages have 2 MiB.
    pub(crate) fn new(len: usize, huge: bool) -> io::Result<Self> {
        let page = if huge { HUGE_PAGE } else { 4096 };
        let len = len.checked_next_multiple_of(page).ok_or(io::ErrorKind::OutOfMemory)?;
        let huge_flags = if huge { libc::MAP_HUGETLB | libc::MAP_HUGE_2MB } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | huge_flags;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches no memory
        // that exists already.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping { start, len };
        mapping.populate()?;
        Ok(mapping)
    }

    fn populate(&self) -> io::Result<()> {
        for at in (0..self.len).step_by(PIECE) {
            let (piece, advice) = (PIECE.min(self.len - at), libc::MADV_POPULATE_WRITE);
            // SAFETY: a part of our own mapping, whose pages are made as a write to them would.
            let made = unsafe { libc::madvise(self.start.as_ptr().add(at).cast(), piece, advice) };
            if made == 0 {
                continue;
            }
            let why = io::Error::last_os_error();
            // Linux before 5.14 does not support the advice and creates pages on first use.
            return if why.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(why) };
        }
        Ok(())
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped. A region's owner has deregistered it, so the engine is
        // done with it, and pointers handed out are documented to end with the region.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
