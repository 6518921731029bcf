//! Output bytes whose length C does not know in advance.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::arguments::Room;
use crate::failure::Failure;

/// An output buffer of `*len` bytes. `*len` becomes the full length, which may exceed the buffer.
pub(crate) struct Answer {
    len: Option<NonNull<usize>>,
    room: Option<Room<u8>>,
}

impl Answer {
    /// Creates the output. Both pointers may be NULL if the caller does not need the bytes, and
    /// `start` alone if the length suffices.
    ///
    /// # Safety
    /// The caller's promise, until [`Answer::set`].
    pub(crate) unsafe fn new(
        start: *mut c_void,
        len: *mut usize,
        len_name: &'static str,
    ) -> Result<Self, Failure> {
        let len = NonNull::new(len);
        if start.is_null() {
            return Ok(Answer { len, room: None });
        }
        let len = len.ok_or(Failure::Null(len_name))?;
        // SAFETY: as the caller promises, `len` is valid and `start` points to that many bytes.
        let room = unsafe { Room::new(start.cast(), len.read_unaligned(), len_name) }?;
        Ok(Answer { len: Some(len), room: Some(room) })
    }

    pub(crate) fn set(self, bytes: &[u8]) {
        if let Some(mut room) = self.room {
            room.extend(bytes.iter().copied());
        }
        if let Some(len) = self.len {
            // SAFETY: `new` was promised a valid pointer.
            unsafe { len.write_unaligned(bytes.len()) };
        }
    }
}
