//! Bytes of a length that C does not know before.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::arguments::Room;
use crate::failure::Failure;

/// Room for `*len` bytes; `*len` becomes how many there are, more than the room or not.
pub(crate) struct Answer {
    len: Option<NonNull<usize>>,
    room: Option<Room<u8>>,
}

impl Answer {
    /// NULL for both: nobody wants to know; for `start` alone: the length is enough.
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
        // SAFETY: as the caller promises: `len` is there and so are that many bytes at `start`.
        let room = unsafe { Room::new(start.cast(), len.read_unaligned(), len_name) }?;
        Ok(Answer { len: Some(len), room: Some(room) })
    }

    pub(crate) fn set(self, bytes: &[u8]) {
        if let Some(mut room) = self.room {
            room.extend(bytes.iter().copied());
        }
        if let Some(len) = self.len {
            // SAFETY: `new` was promised that it is there.
            unsafe { len.write_unaligned(bytes.len()) };
        }
    }
}
