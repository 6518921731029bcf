//! Functions that return the path of a file. The program gets the path that it knows, not that of
//! the stand-in.

use std::ffi::{CStr, c_char};
use std::ptr;

use crate::next::next;
use crate::place::{self, Room};

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char {
    let mut room = Room::new();
    // SAFETY: by the caller's promise.
    let stand_in = unsafe { room.stand_in(libc::AT_FDCWD, path) };
    let found = next!(realpath: fn(*const c_char, *mut c_char) -> *mut c_char = ptr::null_mut(),
        (stand_in, to));
    // SAFETY: as above; the function has returned it for the stand-in.
    unsafe { named(found, path, stand_in, to) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __realpath_chk(
    path: *const c_char,
    to: *mut c_char,
    size: usize,
) -> *mut c_char {
    let mut room = Room::new();
    // SAFETY: by the caller's promise.
    let stand_in = unsafe { room.stand_in(libc::AT_FDCWD, path) };
    let found = next!(__realpath_chk:
        fn(*const c_char, *mut c_char, usize) -> *mut c_char = ptr::null_mut(),
        (stand_in, to, size));
    // SAFETY: as above; the function has returned it for the stand-in.
    unsafe { named(found, path, stand_in, to) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: by the caller's promise.
    unsafe { realpath(path, ptr::null_mut()) }
}

/// The path that was found for a stand-in, without the directory of the stand-ins.
///
/// # Safety
/// `path` is null or a string, and `found` is the result of `realpath` for `stand_in` and `to`.
unsafe fn named(
    found: *mut c_char,
    path: *const c_char,
    stand_in: *const c_char,
    to: *mut c_char,
) -> *mut c_char {
    let root = if ptr::eq(path, stand_in) { None } else { place::root() };
    let Some(root) = root.filter(|_| !found.is_null()) else { return found };
    // SAFETY: by the caller's promise; the rest of a path has room where the whole path was.
    unsafe {
        let bytes = CStr::from_ptr(found).to_bytes_with_nul();
        if let Some(rest) = bytes.strip_prefix(root.to_bytes()) {
            ptr::copy(rest.as_ptr().cast(), found, rest.len());
            return found;
        }
        // The path of a device is the device itself, because its stand-in is a symbolic link that
        // leads elsewhere.
        match (place::is_device(path), to.is_null()) {
            (false, _) => found,
            (true, true) => {
                libc::free(found.cast());
                libc::strdup(path)
            }
            (true, false) => libc::strcpy(to, path),
        }
    }
}
