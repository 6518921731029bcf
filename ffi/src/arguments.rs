//! Conversion of arguments and results of C functions.
//!
//! Every function that takes a pointer relies only on the caller's promise, which the documentation
//! of the crate states.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;
use std::time::Duration;

use braid::{ConnectError, MAX_PRIVATE_DATA};

use crate::failure::Failure;

/// Maximum length of a string with its NUL. Names and addresses are shorter, so a missing NUL is
/// detected.
const MAX_TEXT: usize = 256;
/// Maximum timer in a configuration.
const MAX_TIMER: Duration = Duration::from_secs(24 * 3600);
/// Maximum time-out. Longer ones are clamped.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The destination of one result.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// # Safety
    /// The caller's promise, until [`Out::set`].
    pub(crate) unsafe fn new(ptr: *mut T, name: &'static str) -> Result<Self, Failure> {
        NonNull::new(ptr).map(Out).ok_or(Failure::Null(name))
    }

    pub(crate) fn set(self, value: T) {
        // SAFETY: `new` was promised room for one element.
        unsafe { self.0.write_unaligned(value) };
    }
}

/// Reads one element.
///
/// # Safety
/// The caller's promise.
pub(crate) unsafe fn one<T: Copy>(from: *const T, name: &'static str) -> Result<T, Failure> {
    // SAFETY: as the caller promises.
    let value = NonNull::new(from.cast_mut()).map(|from| unsafe { from.read_unaligned() });
    value.ok_or(Failure::Null(name))
}

/// An array of `count` elements, or NULL if there are none.
pub(crate) struct Array<T> {
    start: *const T,
    count: usize,
}

impl<T: Copy> Array<T> {
    /// # Safety
    /// The caller's promise, for as long as this is used.
    pub(crate) unsafe fn new(
        start: *const T,
        count: usize,
        name: &'static str,
    ) -> Result<Self, Failure> {
        if start.is_null() && count > 0 {
            return Err(Failure::Null(name));
        }
        Ok(Array { start, count })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        // SAFETY: `new` was promised `count` elements.
        (0..self.count).map(|index| unsafe { self.start.add(index).read_unaligned() })
    }
}

/// An output array of `capacity` elements.
pub(crate) struct Room<T> {
    start: *mut T,
    capacity: usize,
    used: usize,
}

impl<T> Room<T> {
    /// # Safety
    /// The caller's promise, for as long as this is used.
    pub(crate) unsafe fn new(
        start: *mut T,
        capacity: usize,
        name: &'static str,
    ) -> Result<Self, Failure> {
        if start.is_null() {
            return Err(Failure::Null(name));
        }
        Ok(Room { start, capacity, used: 0 })
    }

    pub(crate) fn left(&self) -> usize {
        self.capacity - self.used
    }

    /// Appends as many values as there is space for.
    pub(crate) fn extend(&mut self, values: impl IntoIterator<Item = T>) {
        for value in values.into_iter().take(self.left()) {
            // SAFETY: `used` is below the capacity that `new` was promised.
            unsafe { self.start.add(self.used).write_unaligned(value) };
            self.used += 1;
        }
    }

    /// Returns the number of elements written, as a C function returns it.
    pub(crate) fn used(&self) -> c_int {
        c_int::try_from(self.used).unwrap_or(c_int::MAX)
    }
}

/// Returns `len` bytes, or an empty slice for NULL without a length. The length is checked.
///
/// # Safety
/// The caller's promise, for as long as the slice is used, and that nobody changes the bytes.
pub(crate) unsafe fn bytes<'a>(
    start: *const c_void,
    len: usize,
    name: &'static str,
) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    let start = NonNull::new(start.cast_mut().cast::<u8>()).ok_or(Failure::Null(name))?;
    // SAFETY: the caller promises `len` bytes, few enough for a slice.
    Ok(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) })
}

/// Returns the private data of a connection after a check of its length.
///
/// # Safety
/// See [`bytes`].
pub(crate) unsafe fn private_data<'a>(
    start: *const c_void,
    len: usize,
) -> Result<&'a [u8], Failure> {
    if len > MAX_PRIVATE_DATA {
        return Err(ConnectError::PrivateData { len }.into());
    }
    // SAFETY: as the caller promises.
    unsafe { bytes(start, len, "data") }
}

/// Reads a string.
///
/// # Safety
/// The caller's promise: there is a NUL within the first 256 bytes, or there are as many bytes.
pub(crate) unsafe fn text(start: *const c_char, name: &'static str) -> Result<String, Failure> {
    if start.is_null() {
        return Err(Failure::Null(name));
    }
    let mut bytes = Vec::new();
    loop {
        // SAFETY: no byte so far was the NUL, so this one is part of the string.
        let byte = unsafe { start.add(bytes.len()).read() } as u8;
        match byte {
            0 => break,
            _ if bytes.len() + 1 == MAX_TEXT => {
                return Err(Failure::Text { name, why: "it has more than 255 bytes" });
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| Failure::Text { name, why: "it is not UTF-8" })
}

/// Reads a string like [`text`], or returns `None` for NULL.
///
/// # Safety
/// See [`text`].
pub(crate) unsafe fn optional_text(
    start: *const c_char,
    name: &'static str,
) -> Result<Option<String>, Failure> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { text(start, name) }.map(Some)
}

/// Copies a string and its NUL into `room`.
///
/// # Safety
/// The caller's promise, with `capacity` bytes at `room`.
pub(crate) unsafe fn put_text(
    text: &str,
    room: *mut c_char,
    capacity: usize,
    name: &'static str,
) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    let mut room = unsafe { Room::new(room, capacity, name) }?;
    let needed = text.len() + 1;
    if needed > capacity {
        return Err(Failure::Room { name, have: capacity, needed });
    }
    room.extend(text.bytes().chain([0]).map(|byte| byte as c_char));
    Ok(())
}

/// Truncates a text to the available space and appends a NUL.
pub(crate) fn cut<const LEN: usize>(text: &str) -> [c_char; LEN] {
    let end = (0..LEN.min(text.len() + 1)).rev().find(|end| text.is_char_boundary(*end));
    let end = end.unwrap_or(0);
    let mut all = [0; LEN];
    for (to, from) in all.iter_mut().zip(text[..end].bytes()) {
        *to = from as c_char;
    }
    all
}

/// Returns the element at `index`.
pub(crate) fn element<'a, T>(
    all: &'a [T],
    index: usize,
    name: &'static str,
) -> Result<&'a T, Failure> {
    all.get(index).ok_or(Failure::Index { name, value: index, count: all.len() })
}

/// Converts a C truth value: 0 or 1.
pub(crate) fn flag(value: c_int, name: &'static str) -> Result<bool, Failure> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Failure::Constant { name, value: value.into(), accepted: "0 or 1" }),
    }
}

/// Converts a number to the narrower type of the engine.
pub(crate) fn narrow<T: TryFrom<u64>>(
    value: u64,
    max: u64,
    name: &'static str,
) -> Result<T, Failure> {
    let fits = (value <= max).then(|| T::try_from(value).ok()).flatten();
    fits.ok_or(Failure::Range { name, value, min: 0, max })
}

/// Converts a timer of a configuration.
pub(crate) fn timer(micros: u64, name: &'static str) -> Result<Duration, Failure> {
    narrow(micros, MAX_TIMER.as_micros() as u64, name).map(Duration::from_micros)
}

/// Converts the time-out of a call.
pub(crate) fn patience(timeout_us: u64) -> Duration {
    Duration::from_micros(timeout_us).min(FOREVER)
}

/// Converts a duration to microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_letters_and_ends_with_nul() {
        let text: [c_char; 5] = cut("abc\u{e9}d");
        assert_eq!(text.map(|letter| letter as u8), *b"abc\0\0");
        let whole: [c_char; 5] = cut("abcd");
        assert_eq!(whole.map(|letter| letter as u8), *b"abcd\0");
    }
}
