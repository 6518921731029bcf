//! The libibverbs library: opened once, never closed.

use std::error::Error;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::VerbsError;
use crate::abi::Symbols;

/// The soname, which names the ABI.
const FILE: &str = "libibverbs.so.1";

static LIBIBVERBS: OnceLock<Symbols> = OnceLock::new();

/// Returns libibverbs, opened by the first call that finds it.
pub(crate) fn libibverbs() -> Result<&'static Symbols, VerbsError> {
    if let Some(symbols) = LIBIBVERBS.get() {
        return Ok(symbols);
    }
    // Two threads may load it at once, but both find the same library at the same address.
    let symbols = load(FILE)?;
    Ok(LIBIBVERBS.get_or_init(|| symbols))
}

fn load(file: &str) -> Result<Symbols, VerbsError> {
    let handle = open(file)?;
    // Without a version the linker would return the oldest form, with different structs.
    let find = |name: &CStr, version: &CStr| {
        // SAFETY: the handle is of an open library, and both strings end in a nul.
        unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) }
    };
    // SAFETY: a library of this soname has functions of these prototypes under these versions.
    unsafe { Symbols::find(find) }.map_err(|symbol| VerbsError::Library {
        library: file.into(),
        reason: format!("it has no {symbol}, so it is older than rdma-core or another library"),
    })
}

/// Opens a library for good: drivers may have threads and hooks that would not survive its
/// unloading.
fn open(file: &str) -> Result<*mut c_void, VerbsError> {
    // SAFETY: the initialisers of libibverbs and its drivers are sound to run at any time, in any
    // thread.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
    library.map(Library::into_raw).map_err(|e| VerbsError::Library {
        library: file.into(),
        // The linker's message, which names the file, is the source of libloading's error.
        reason: e.source().map_or_else(|| e.to_string(), ToString::to_string),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_no_device() {
        let error = load("libibverbs-that-is-not-there.so.1").err().expect("no such file");
        let text = error.to_string();
        assert!(text.starts_with("no RDMA device: libibverbs-that-is-not-there.so.1"), "{text}");
        assert!(text.contains("No such file") && text.contains("apt-get install"), "{text}");
    }

    #[test]
    fn another_library_is_no_device() {
        let text = load("libc.so.6").err().expect("libc has no verbs").to_string();
        assert!(text.starts_with("no RDMA device: libc.so.6"), "{text}");
        assert!(text.contains("it has no ibv_get_device_list"), "{text}");
    }
}
