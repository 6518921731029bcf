//! Functions that take a path and need nothing but the path of the stand-in.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::next::next;
use crate::place::{self, Room};

/// The open directory at which a relative path begins.
macro_rules! beginning {
    () => {
        libc::AT_FDCWD
    };
    ($dir:ident) => {
        $dir
    };
}

/// Calls a function with the path of the stand-in. The arguments before the path stand before the
/// first semicolon.
macro_rules! with_stand_in {
    ($($name:ident($($b:ident: $B:ty,)*; $path:ident $(in $dir:ident)?; $($a:ident: $A:ty,)*)
        -> $result:ty = $failure:expr;)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            $($b: $B,)* $path: *const c_char $(, $a: $A)*
        ) -> $result {
            let mut room = Room::new();
            // SAFETY: by the caller's promise.
            let $path = unsafe { room.stand_in(beginning!($($dir)?), $path) };
            next!($name: fn($($B,)* *const c_char $(, $A)*) -> $result = $failure,
                ($($b,)* $path $(, $a)*))
        }
    )*};
}

// `open` and similar functions take the mode as a variable argument, if the flags ask for one. On
// all Linux platforms that Rust supports, a fixed argument is passed in the same place.
with_stand_in! {
    open(; path; flags: c_int, mode: c_int,) -> c_int = -1;
    open64(; path; flags: c_int, mode: c_int,) -> c_int = -1;
    openat(dir: c_int,; path in dir; flags: c_int, mode: c_int,) -> c_int = -1;
    openat64(dir: c_int,; path in dir; flags: c_int, mode: c_int,) -> c_int = -1;
    __open_2(; path; flags: c_int,) -> c_int = -1;
    __open64_2(; path; flags: c_int,) -> c_int = -1;
    __openat_2(dir: c_int,; path in dir; flags: c_int,) -> c_int = -1;
    __openat64_2(dir: c_int,; path in dir; flags: c_int,) -> c_int = -1;
    fopen(; path; mode: *const c_char,) -> *mut c_void = ptr::null_mut();
    fopen64(; path; mode: *const c_char,) -> *mut c_void = ptr::null_mut();

    opendir(; path;) -> *mut c_void = ptr::null_mut();
    scandir(; path; list: *mut c_void, select: *mut c_void, compare: *mut c_void,) -> c_int = -1;
    scandir64(; path; list: *mut c_void, select: *mut c_void, compare: *mut c_void,) -> c_int = -1;
    chdir(; path;) -> c_int = -1;

    access(; path; mode: c_int,) -> c_int = -1;
    eaccess(; path; mode: c_int,) -> c_int = -1;
    euidaccess(; path; mode: c_int,) -> c_int = -1;
    faccessat(dir: c_int,; path in dir; mode: c_int, flags: c_int,) -> c_int = -1;

    stat(; path; to: *mut c_void,) -> c_int = -1;
    stat64(; path; to: *mut c_void,) -> c_int = -1;
    // Names for programs that were built before glibc 2.33.
    __xstat(version: c_int,; path; to: *mut c_void,) -> c_int = -1;
    __xstat64(version: c_int,; path; to: *mut c_void,) -> c_int = -1;

    readlink(; path; to: *mut c_char, size: usize,) -> isize = -1;
    readlinkat(dir: c_int,; path in dir; to: *mut c_char, size: usize,) -> isize = -1;
    __readlink_chk(; path; to: *mut c_char, size: usize, room_size: usize,) -> isize = -1;
    __readlinkat_chk(dir: c_int,; path in dir; to: *mut c_char, size: usize, room_size: usize,)
        -> isize = -1;

    getxattr(; path; name: *const c_char, to: *mut c_void, size: usize,) -> isize = -1;
    lgetxattr(; path; name: *const c_char, to: *mut c_void, size: usize,) -> isize = -1;
    listxattr(; path; to: *mut c_char, size: usize,) -> isize = -1;
    llistxattr(; path; to: *mut c_char, size: usize,) -> isize = -1;
}

/// Functions that describe a symbolic link itself. The stand-in of a device file is a link, so the
/// function that follows links is called for it.
macro_rules! not_following {
    ($($name:ident or $following:ident($($b:ident: $B:ty)?);)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            $($b: $B,)? path: *const c_char, to: *mut c_void
        ) -> c_int {
            // SAFETY: by the caller's promise.
            if unsafe { place::is_device(path) } {
                // SAFETY: as above.
                return unsafe { $following($($b,)? path, to) };
            }
            let mut room = Room::new();
            // SAFETY: as above.
            let path = unsafe { room.stand_in(libc::AT_FDCWD, path) };
            next!($name: fn($($B,)? *const c_char, *mut c_void) -> c_int = -1,
                ($($b,)? path, to))
        }
    )*};
}

not_following! {
    lstat or stat();
    lstat64 or stat64();
    __lxstat or __xstat(version: c_int);
    __lxstat64 or __xstat64(version: c_int);
}

/// The flags without the one that asks for a symbolic link itself, if the path leads to a device.
///
/// # Safety
/// `path` is null or points to a string.
unsafe fn following(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: by the caller's promise.
    if unsafe { place::is_device(path) } { flags & !libc::AT_SYMLINK_NOFOLLOW } else { flags }
}

/// Functions as in [`not_following`], for which a flag decides.
macro_rules! following_by_flag {
    ($($name:ident($($version:ident)?; $($a:ident: $A:ty),*; $flags:ident);)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name(
            $($version: c_int,)? dir: c_int, path: *const c_char, $($a: $A),*
        ) -> c_int {
            let mut room = Room::new();
            // SAFETY: by the caller's promise.
            let $flags = unsafe { following(path, $flags) };
            // SAFETY: as above.
            let path = unsafe { room.stand_in(dir, path) };
            next!($name: fn($(following_by_flag!(@type $version),)? c_int, *const c_char, $($A),*)
                -> c_int = -1, ($($version,)? dir, path, $($a),*))
        }
    )*};
    (@type $version:ident) => { c_int };
}

following_by_flag! {
    fstatat(; to: *mut c_void, flags: c_int; flags);
    fstatat64(; to: *mut c_void, flags: c_int; flags);
    __fxstatat(version; to: *mut c_void, flags: c_int; flags);
    __fxstatat64(version; to: *mut c_void, flags: c_int; flags);
    statx(; flags: c_int, mask: u32, to: *mut c_void; flags);
}
