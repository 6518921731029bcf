//! The replaced functions: those of the C library, or of another preloaded library.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A replaced function, which is looked up when it is first needed.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Next { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The address of the function. Null with `ENOSYS`: the C library is too old to have it.
    pub(crate) fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: the name is a string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the pointer leads to this thread's errno.
            unsafe { *libc::__errno_location() = libc::ENOSYS };
        }
        found
    }
}

/// Calls the replaced function.
macro_rules! next {
    ($name:ident: fn($($type:ty),*) -> $result:ty = $failure:expr, ($($argument:expr),*)) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new(
            match ::std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
        );
        let found = NEXT.get();
        if found.is_null() {
            $failure
        } else {
            // SAFETY: the type is that of the C library, and by the caller's promise the arguments
            // are valid.
            unsafe {
                ::std::mem::transmute::<
                    *mut ::std::ffi::c_void,
                    unsafe extern "C-unwind" fn($($type),*) -> $result,
                >(found)($($argument),*)
            }
        }
    }};
}
pub(crate) use next;
