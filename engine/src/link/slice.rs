//! Bytes of a batch, where they lie.

use std::marker::PhantomData;
use std::ops::Range;

use crate::memory;

/// Bytes to send that others may write to meanwhile: registered memory is shared with the
/// application, peers and devices. So no reference to them is ever made; the kernel reads them, or
/// they are copied. The layout is that of `iovec`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Slice<'a> {
    raw: libc::iovec,
    /// For how long they can be read.
    bytes: PhantomData<&'a ()>,
}

impl<'a> Slice<'a> {
    /// Bytes that nobody writes to.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        // SAFETY: they can be read for as long as they are borrowed.
        unsafe { Slice::from_raw(bytes.as_ptr(), bytes.len()) }
    }

    /// Bytes anywhere.
    ///
    /// # Safety
    /// They can be read for as long as this lives.
    pub(crate) unsafe fn from_raw(start: *const u8, len: usize) -> Self {
        let raw = libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len };
        Slice { raw, bytes: PhantomData }
    }

    pub(crate) fn start(&self) -> *const u8 {
        self.raw.iov_base.cast_const().cast()
    }

    pub(crate) fn len(&self) -> usize {
        self.raw.iov_len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of them.
    ///
    /// # Panics
    /// It is not inside.
    pub(crate) fn part(&self, range: Range<usize>) -> Slice<'a> {
        assert!(range.start <= range.end && range.end <= self.len());
        // SAFETY: a part of what can be read, and so is its beginning.
        unsafe { Slice::from_raw(self.start().add(range.start), range.len()) }
    }

    /// Whether these bytes follow them, so that one slice can be both.
    pub(crate) fn ends_at(&self, start: *const u8) -> bool {
        self.start().wrapping_add(self.len()) == start
    }

    /// Makes it longer.
    ///
    /// # Safety
    /// So many bytes more can be read for as long as this lives.
    pub(crate) unsafe fn extend(&mut self, len: usize) {
        self.raw.iov_len += len;
    }

    /// Copies them.
    ///
    /// # Panics
    /// `out` is not as long as they are.
    pub(crate) fn copy_to(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.len());
        // SAFETY: they can be read for as long as this lives, and `out` is borrowed by nobody else.
        unsafe { memory::copy_from(out, self.start()) };
    }

    /// Copies them to the end of `out`.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        // SAFETY: they can be read for as long as this lives, and `out` is borrowed by nobody else.
        unsafe { memory::append_from(out, self.start(), self.len()) };
    }
}
