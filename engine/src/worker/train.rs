//! Putting packets together into trains: as many as possible for one system call.
//!
//! Headers and short payloads are copied into the train's staging buffer; longer payloads go to the
//! link straight from application memory.

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use crate::link::{Link, LinkCaps, Sent, Train, Via};

/// Most slices of one train: what `sendmsg` takes (`UIO_MAXIOV`), less those of one packet.
const MAX_SLICES: usize = 1024 - 2 * MAX_PIECES;
/// Payloads of more pieces than this are staged.
pub(crate) const MAX_PIECES: usize = 8;

/// Where a packet goes, and how long it is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shipping {
    pub(crate) to: SocketAddr,
    pub(crate) via: Via,
    pub(crate) len: usize,
    /// It is longer than what the path carries: the network may fragment it, and it goes alone.
    pub(crate) oversize: bool,
}

/// Packets of one size (the last may be shorter) for one destination on one path.
///
/// Invariants: `staging` never grows beyond the capacity it was made with, so what points into it
/// stays valid; every entry of `slices` points into `staging` or into registered memory.
pub(crate) struct PendingTrain {
    to: SocketAddr,
    via: Via,
    segment_len: usize,
    segments: usize,
    bytes: usize,
    /// A shorter packet has ended it, or one that goes alone.
    ended: bool,
    oversize: bool,
    staging: Vec<u8>,
    slices: Vec<libc::iovec>,
    /// Some slices point into registered memory.
    refers: bool,
}

// SAFETY: the pointers in `slices` are to memory that any thread may read: the staging buffer,
// which moves along, and registered memory, which deregistration protects (`Outbox::forget`).
unsafe impl Send for PendingTrain {}

impl PendingTrain {
    pub(crate) fn new(caps: LinkCaps) -> Self {
        PendingTrain {
            to: SocketAddr::from(([0, 0, 0, 0], 0)),
            via: Via::Port,
            segment_len: 0,
            segments: 0,
            bytes: 0,
            ended: false,
            oversize: false,
            staging: Vec::with_capacity(caps.train_bytes),
            slices: Vec::with_capacity(64),
            refers: false,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// Whether it depends on registered memory.
    pub(crate) fn refers(&self) -> bool {
        self.refers
    }

    /// The path that it takes; `None` if nothing is in it, or none.
    pub(crate) fn path(&self) -> Option<Via> {
        (!self.is_empty() && self.via != Via::Port).then_some(self.via)
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    /// Whether a packet can join.
    pub(crate) fn takes(&self, packet: Shipping, caps: LinkCaps) -> bool {
        self.is_empty()
            || (!self.ended
                && !packet.oversize
                && packet.to == self.to
                && packet.via == self.via
                && packet.len <= self.segment_len
                && self.segments < caps.train_segments
                && self.bytes + packet.len <= caps.train_bytes
                && self.slices.len() <= MAX_SLICES)
    }

    /// Begins a packet that the train takes; its bytes follow by `stage` and `refer`, and must be
    /// exactly `packet.len`.
    pub(crate) fn begin(&mut self, packet: Shipping) {
        if self.is_empty() {
            (self.to, self.via, self.segment_len) = (packet.to, packet.via, packet.len);
        }
        debug_assert!(self.bytes + packet.len <= self.staging.capacity());
        self.oversize = packet.oversize;
        self.ended = packet.oversize || packet.len < self.segment_len;
        self.segments += 1;
        self.bytes += packet.len;
    }

    /// Appends what `write` appends to the staging buffer.
    pub(crate) fn stage(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let (before, room) = (self.staging.len(), self.staging.capacity());
        write(&mut self.staging);
        assert!(self.staging.capacity() == room, "a train was staged beyond its length");
        let added = self.staging.len() - before;
        // SAFETY: `before` is inside the allocation.
        let start = unsafe { self.staging.as_mut_ptr().add(before) };
        match self.slices.last_mut() {
            // Bytes staged one after the other need but one slice.
            Some(last) if last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == start => {
                last.iov_len += added;
            }
            _ if added > 0 => {
                self.slices.push(libc::iovec { iov_base: start.cast(), iov_len: added });
            }
            _ => {}
        }
    }

    /// Appends bytes that stay where they are.
    ///
    /// # Safety
    /// They are registered, and readable until the train is sent or cleared.
    pub(crate) unsafe fn refer(&mut self, addr: u64, len: usize) {
        let iov_base = std::ptr::with_exposed_provenance_mut(addr as usize);
        self.slices.push(libc::iovec { iov_base, iov_len: len });
        self.refers = true;
    }

    pub(crate) fn send(&self, link: &mut dyn Link) -> io::Result<Sent> {
        // SAFETY: `IoSlice` has the layout of `iovec`; by the invariants what the slices point to is readable.
        let slices: &[IoSlice<'_>] =
            unsafe { std::slice::from_raw_parts(self.slices.as_ptr().cast(), self.slices.len()) };
        link.send(&Train {
            to: self.to,
            via: self.via,
            segment_len: self.segment_len,
            fragment: self.oversize,
            slices,
        })
    }

    pub(crate) fn clear(&mut self) {
        self.staging.clear();
        self.slices.clear();
        (self.segments, self.bytes, self.ended, self.refers) = (0, 0, false, false);
    }
}
