//! Places in memory of what an event will need, for drivers that prefetch them.

use std::ptr;

/// Visits the place of a value, and its length in bytes.
#[inline]
pub(crate) fn visit_value<T>(value: &T, mut visit: impl FnMut(*const u8, usize)) {
    visit(ptr::from_ref(value).cast(), size_of::<T>());
}
