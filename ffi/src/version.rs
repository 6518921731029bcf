//! Which library this is.

use std::ffi::c_char;

/// The version of the binary interface that this header describes. A program that was built with it
/// works with every library of the same number, newer or older, as long as it uses what that has.
pub const BRAID_ABI_VERSION: u32 = 0;

/// The BRAID_ABI_VERSION of the library that the program runs with.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn braid_abi_version() -> u32 {
    BRAID_ABI_VERSION
}

/// The release of the library that the program runs with, such as "0.1.0".
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
