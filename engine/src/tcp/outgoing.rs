//! The bytes that wait to leave by a connection.
//!
//! Headers and short payloads are copied into blocks. Longer payloads stay in the application's
//! memory until the kernel takes them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;

use super::socket;
use super::spares::{Spares, new_block};
use crate::link::Slice;

/// Bytes of a frame's length.
pub(super) const LENGTH: usize = 4;

/// The waiting bytes.
///
/// Invariants: a block never grows beyond its initial capacity, so pointers into it stay valid.
/// Every slice lies in a block or in registered memory. The slices that lie in blocks are the
/// blocks' bytes in order, without the first `freed` of the first block. The whole capacity of a
/// block is initialized.
pub(super) struct Outgoing {
    slices: VecDeque<Slice<'static>>,
    /// Whether each slice lies in registered memory.
    refers: VecDeque<bool>,
    blocks: VecDeque<Vec<u8>>,
    freed: usize,
    bytes: usize,
    spares: Spares,
    /// Bytes that the kernel has taken so far.
    sent: u64,
}

// SAFETY: the pointers in `slices` are to memory that any thread may read: the blocks, which move
// along, and registered memory, which deregistration protects (`Outgoing::own`).
unsafe impl Send for Outgoing {}

impl Outgoing {
    pub(super) fn new(spares: Spares) -> Self {
        Outgoing {
            slices: VecDeque::new(),
            refers: VecDeque::new(),
            blocks: VecDeque::new(),
            freed: 0,
            bytes: 0,
            spares,
            sent: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Begins a frame. Its `len` bytes follow by [`Outgoing::stage`] and [`Outgoing::refer`].
    pub(super) fn begin(&mut self, len: usize) {
        self.stage(LENGTH, |out| out.extend_from_slice(&(len as u32).to_be_bytes()));
    }

    /// Appends a whole frame.
    pub(super) fn frame(&mut self, packet: &[u8]) {
        self.begin(packet.len());
        self.stage(packet.len(), |out| out.extend_from_slice(packet));
    }

    /// Appends the bytes that `write` appends to a block, at most `room`.
    pub(super) fn stage(&mut self, room: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let fits = |block: &Vec<u8>| block.len() + room <= block.capacity();
        if !self.blocks.back().is_some_and(fits) {
            self.blocks.push_back(self.spares.take(room));
        }
        let Some(block) = self.blocks.back_mut() else { return };
        let (before, capacity) = (block.len(), block.capacity());
        write(block);
        assert!(block.capacity() == capacity, "more was staged than announced");
        let (added, base) = (block.len() - before, block.as_ptr());
        self.bytes += added;
        // SAFETY: `before` is inside the allocation.
        let start = unsafe { base.add(before) };
        match self.slices.back_mut() {
            // Bytes staged one after the other share one slice.
            Some(last) if before > 0 && last.start() >= base && last.ends_at(start) => {
                // SAFETY: both are bytes of one block, which stay until they are sent.
                unsafe { last.extend(added) };
            }
            _ if added > 0 => {
                // SAFETY: bytes of a block stay until they are sent.
                self.slices.push_back(unsafe { Slice::from_raw(start, added) });
                self.refers.push_back(false);
            }
            _ => {}
        }
    }

    /// Appends `len` bytes to a block. `start` appends the first of them and returns the function
    /// that gets all of them and writes the others.
    pub(super) fn stage_whole<F: FnOnce(&mut [u8])>(
        &mut self,
        len: usize,
        start: impl FnOnce(&mut Vec<u8>) -> F,
    ) {
        self.stage(len, |block| {
            let range = block.len()..block.len() + len;
            let complete = start(block);
            assert!(block.len() <= range.end, "more was staged than announced");
            // SAFETY: `stage` has found `len` bytes of room, so the block was not reallocated, and
            // all of its capacity is initialized.
            unsafe { block.set_len(range.end) };
            complete(&mut block[range]);
        });
    }

    /// Appends bytes without a copy.
    ///
    /// # Safety
    /// The bytes must be registered, and readable until they are sent or [`Outgoing::own`] is
    /// called.
    pub(super) unsafe fn refer(&mut self, addr: u64, len: usize) {
        let start = std::ptr::with_exposed_provenance(addr as usize);
        // SAFETY: the caller vouches for the bytes.
        self.slices.push_back(unsafe { Slice::from_raw(start, len) });
        self.refers.push_back(true);
        self.bytes += len;
    }

    /// Sends as much as the socket takes. Returns whether all is sent.
    pub(super) fn send(&mut self, fd: RawFd) -> io::Result<bool> {
        while self.bytes > 0 {
            let slices = self.slices.make_contiguous();
            let slices = &slices[..slices.len().min(socket::MAX_SLICES)];
            let offered: usize = slices.iter().map(Slice::len).sum();
            let Some(sent) = socket::send(fd, slices)? else { return Ok(false) };
            self.consume(sent);
            if sent < offered {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the first bytes.
    fn consume(&mut self, count: usize) {
        self.bytes -= count;
        self.sent += count as u64;
        let mut left = count;
        while left > 0 {
            let (Some(slice), Some(refers)) = (self.slices.front_mut(), self.refers.front()) else {
                return;
            };
            let taken = slice.len().min(left);
            let refers = *refers;
            if taken == slice.len() {
                self.slices.pop_front();
                self.refers.pop_front();
            } else {
                *slice = slice.part(taken..slice.len());
            }
            if !refers {
                self.free(taken);
            }
            left -= taken;
        }
    }

    /// Frees the next bytes of the blocks.
    fn free(&mut self, count: usize) {
        self.freed += count;
        while let Some(block) = self.blocks.front()
            && self.freed >= block.len()
        {
            self.freed -= block.len();
            if let Some(block) = self.blocks.pop_front() {
                self.spares.put(block);
            }
        }
    }

    /// Copies the waiting bytes that lie in registered memory, some of which is about to go. A
    /// frame that was begun has to be completed.
    pub(super) fn own(&mut self) {
        if !self.refers.contains(&true) {
            return;
        }
        let mut all = new_block(self.bytes);
        self.slices.iter().for_each(|slice| slice.append_to(&mut all));
        // SAFETY: bytes of a block stay until they are sent.
        let slice = unsafe { Slice::from_raw(all.as_ptr(), all.len()) };
        self.slices = VecDeque::from([slice]);
        self.refers = VecDeque::from([false]);
        self.blocks = VecDeque::from([all]);
        self.freed = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_leave_in_order_however_little_the_socket_takes() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        let payload: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        let (mut out, mut expected, mut got) =
            (Outgoing::new(Spares::default()), Vec::new(), Vec::new());
        let mut buffer = vec![0; 10_000];
        for round in 0..200usize {
            let (start, len) = (round * 1000, (round * 977) % 60_000 + 1);
            let piece = &payload[start..start + len];
            out.begin(len + 3);
            out.stage(3, |block| block.extend_from_slice(b"abc"));
            if round % 3 == 0 {
                out.stage(len, |block| block.extend_from_slice(piece));
            } else {
                // SAFETY: `payload` outlives `out`.
                unsafe { out.refer(piece.as_ptr().expose_provenance() as u64, len) };
            }
            expected.extend_from_slice(&(len as u32 + 3).to_be_bytes());
            expected.extend_from_slice(b"abc");
            expected.extend_from_slice(piece);
            if round % 17 == 0 {
                out.own();
            }
            out.send(here.as_raw_fd()).unwrap();
            if let Ok(count) = there.read(&mut buffer) {
                got.extend_from_slice(&buffer[..count]);
            }
        }
        loop {
            let is_done = out.send(here.as_raw_fd()).unwrap();
            while let Ok(count) = there.read(&mut buffer) {
                got.extend_from_slice(&buffer[..count]);
            }
            if is_done {
                break;
            }
        }
        assert_eq!(got.len(), expected.len());
        assert!(got == expected, "the bytes differ");
        assert_eq!((out.bytes(), out.blocks.len(), out.freed), (0, 0, 0));
        assert_eq!(out.sent(), expected.len() as u64);
    }
}
