//! The version of the library.

use std::ffi::c_char;

/// The version of the binary interface that this header describes. A program works with every
/// library of the same version, newer or older, if it uses only features of that library.
pub const BRAID_ABI_VERSION: u32 = 0;

/// Returns the BRAID_ABI_VERSION of the loaded library.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn braid_abi_version() -> u32 {
    BRAID_ABI_VERSION
}

/// Returns the release of the loaded library, such as "0.1.0".
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
