//! Slices of a batch, which point to the bytes in place.

use std::marker::PhantomData;
use std::ops::Range;

use crate::memory;

/// Bytes to send that others may write to at the same time: registered memory is shared with the
/// application, peers and devices. So no reference to them is ever made. The kernel reads them, or
/// they are copied. The layout is that of `iovec`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Slice<'a> {
    raw: libc::iovec,
    /// The lifetime of the bytes.
    bytes: PhantomData<&'a ()>,
}

impl<'a> Slice<'a> {
    /// A slice of bytes that nothing writes to.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        // SAFETY: they can be read for as long as they are borrowed.
        unsafe { Slice::from_raw(bytes.as_ptr(), bytes.len()) }
    }

    /// A slice of bytes anywhere.
    ///
    /// # Safety
    /// The bytes must be readable for the lifetime of the slice.
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

    /// A part of the slice.
    ///
    /// # Panics
    /// Panics if `range` is not inside the slice.
    pub(crate) fn part(&self, range: Range<usize>) -> Slice<'a> {
        assert!(range.start <= range.end && range.end <= self.len());
        // SAFETY: a part of what can be read, and so is its beginning.
        unsafe { Slice::from_raw(self.start().add(range.start), range.len()) }
    }

    /// Whether the bytes at `start` follow directly, so that one slice can cover both.
    pub(crate) fn ends_at(&self, start: *const u8) -> bool {
        self.start().wrapping_add(self.len()) == start
    }

    /// Makes the slice longer.
    ///
    /// # Safety
    /// The next `len` bytes must be readable for the lifetime of the slice.
    pub(crate) unsafe fn extend(&mut self, len: usize) {
        self.raw.iov_len += len;
    }

    /// Copies the bytes to `out`.
    ///
    /// # Panics
    /// Panics if `out` has another length.
    pub(crate) fn copy_to(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.len());
        // SAFETY: they can be read for as long as this lives, and `out` is borrowed by nobody else.
        unsafe { memory::copy_from(out, self.start()) };
    }

    /// Appends the bytes to `out`.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        // SAFETY: they can be read for as long as this lives, and `out` is borrowed by nobody else.
        unsafe { memory::append_from(out, self.start(), self.len()) };
    }
}
