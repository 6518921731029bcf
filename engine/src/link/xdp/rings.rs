//! The rings that this process shares with the kernel (`linux/if_xdp.h`). One side writes entries
//! and advances the producer's index, and the other reads them and advances the consumer's. Indices
//! wrap.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// A memory mapping of a socket.
struct RingMapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is an address space's, not a thread's.
unsafe impl Send for RingMapping {}

impl RingMapping {
    fn new(fd: BorrowedFd<'_>, len: usize, offset: libc::off_t) -> io::Result<RingMapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (flags, fd) = (libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd());
        // SAFETY: nothing is mapped over: the kernel chooses the place.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, fd, offset) };
        match NonNull::new(start.cast()) {
            Some(start) if start.as_ptr() as *mut libc::c_void != libc::MAP_FAILED => {
                Ok(RingMapping { start, len })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and whoever refers to it holds it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The location of a ring.
#[derive(Clone, Copy)]
pub(super) struct RingLocation {
    /// The offset of the mapping, as `mmap` takes it.
    pub(super) page: libc::off_t,
    /// The offsets of the ring's parts in the mapping.
    pub(super) parts: libc::xdp_ring_offset,
    /// The number of entries, a power of two.
    pub(super) entries: u32,
}

/// Invariant: the pointers are into `mapping`, which holds `mask + 1` entries behind the last of
/// them.
struct XdpRing<T> {
    /// The mapping that the pointers are into.
    _mapping: RingMapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
}

// SAFETY: the pointers are into the mapping, which goes where they go.
unsafe impl<T: Send> Send for XdpRing<T> {}

impl<T: Copy> XdpRing<T> {
    fn map(fd: BorrowedFd<'_>, place: RingLocation) -> io::Result<XdpRing<T>> {
        let RingLocation { page, parts, entries } = place;
        let len = parts.desc as usize + entries as usize * size_of::<T>();
        let mapping = RingMapping::new(fd, len, page)?;
        // SAFETY: the kernel has laid them out inside of what was mapped, each aligned as its type.
        let at = |offset: u64| unsafe { mapping.start.add(offset as usize) };
        let (producer, consumer) = (at(parts.producer).cast(), at(parts.consumer).cast());
        let entries_start = at(parts.desc).cast();
        Ok(XdpRing {
            _mapping: mapping,
            producer,
            consumer,
            entries: entries_start,
            mask: entries - 1,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: it lies in the mapping (the type's invariant), and both sides use atomics.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: there are `mask + 1` entries (the type's invariant).
        unsafe { self.entries.add((index & self.mask) as usize) }
    }
}

/// A ring that this process fills.
pub(super) struct Producer<T> {
    ring: XdpRing<T>,
    /// The index of the next entry. The kernel knows the entries before the last
    /// [`Producer::submit`].
    next: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn map(fd: BorrowedFd<'_>, place: RingLocation) -> io::Result<Producer<T>> {
        Ok(Producer { ring: XdpRing::map(fd, place)?, next: 0 })
    }

    /// Writes the next entry.
    ///
    /// # Panics
    /// Panics if the ring is full.
    pub(super) fn push(&mut self, entry: T) {
        assert!(self.in_use() <= self.ring.mask, "more entries than the ring was made for");
        // SAFETY: the kernel reads an entry once it is submitted, and has read the one that was
        // here before.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Makes the written entries visible to the kernel.
    pub(super) fn submit(&self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// The number of entries that the kernel has not taken.
    pub(super) fn in_use(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }
}

/// A ring that the kernel fills.
pub(super) struct Consumer<T> {
    ring: XdpRing<T>,
    /// The index of the next entry.
    next: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn map(fd: BorrowedFd<'_>, place: RingLocation) -> io::Result<Consumer<T>> {
        Ok(Consumer { ring: XdpRing::map(fd, place)?, next: 0 })
    }

    /// The number of available entries.
    pub(super) fn available(&self) -> u32 {
        self.ring.producer().load(Ordering::Acquire).wrapping_sub(self.next)
    }

    /// Takes the next of the available entries.
    pub(super) fn pop(&mut self) -> T {
        // SAFETY: the kernel has written it, and overwrites it when it has been released.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        entry
    }

    /// Returns the places of the taken entries to the kernel.
    pub(super) fn release(&self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    use super::*;

    /// Both ends of a ring of four entries, with indices from `start` on.
    fn both_ends(start: u32) -> (Producer<u64>, Consumer<u64>) {
        // SAFETY: the name is a text.
        let fd = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: it was made just now; if it was not, the calls below fail.
        let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(4096).expect("memory");
        let parts = libc::xdp_ring_offset { producer: 0, consumer: 64, desc: 128, flags: 0 };
        let place = RingLocation { page: 0, parts, entries: 4 };
        let mut producer = Producer::map(file.as_fd(), place).expect("a mapping");
        let mut consumer = Consumer::map(file.as_fd(), place).expect("a mapping");
        (producer.next, consumer.next) = (start, start);
        producer.submit();
        consumer.release();
        (producer, consumer)
    }

    #[test]
    fn entries_come_in_order_and_indices_wrap() {
        let (mut producer, mut consumer) = both_ends(u32::MAX - 2);
        for round in 0..5u64 {
            (0..3).for_each(|index| producer.push(10 * round + index));
            assert_eq!(consumer.available(), 0, "they have not been shown");
            producer.submit();
            assert_eq!((producer.in_use(), consumer.available()), (3, 3));
            let taken = [consumer.pop(), consumer.pop(), consumer.pop()];
            assert_eq!(taken, [10 * round, 10 * round + 1, 10 * round + 2]);
            assert_eq!(producer.in_use(), 3, "they have not been released");
            consumer.release();
            assert_eq!((producer.in_use(), consumer.available()), (0, 0));
        }
    }

    #[test]
    #[should_panic(expected = "more entries than the ring was made for")]
    fn a_full_ring_takes_no_more() {
        let (mut producer, _consumer) = both_ends(u32::MAX);
        (0..5).for_each(|entry| producer.push(entry));
    }
}
