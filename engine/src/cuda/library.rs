//! The library of the CUDA driver: opened by the first call that needs it, never closed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::{mem, ptr};

use super::error::{CudaError, CudaFault};

/// The soname of the driver's library.
const FILE: &str = "libcuda.so.1";
const FILE_C: &CStr = c"libcuda.so.1";

/// `CUresult`.
pub(super) type Code = c_uint;
pub(super) const SUCCESS: Code = 0;
/// `CUDA_ERROR_NOT_READY`: the event has not happened yet.
pub(super) const NOT_READY: Code = 600;
/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`.
pub(super) const ALREADY_REGISTERED: Code = 712;

/// `CU_POINTER_ATTRIBUTE_CONTEXT`, `CU_POINTER_ATTRIBUTE_MEMORY_TYPE` and
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
pub(super) const CONTEXT: c_int = 1;
pub(super) const MEMORY_TYPE: c_int = 2;
pub(super) const DEVICE_ORDINAL: c_int = 9;
/// `CU_MEMORYTYPE_DEVICE`.
pub(super) const DEVICE_MEMORY: c_uint = 2;
/// `CU_STREAM_NON_BLOCKING`: copies do not wait for the kernels of the default stream.
pub(super) const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub(super) const NO_TIMING: c_uint = 2;
/// `CU_MEMHOSTREGISTER_PORTABLE`: pinned for all contexts.
pub(super) const PORTABLE: c_uint = 1;

/// `CUcontext`, `CUstream` and `CUevent`.
pub(super) type Handle = *mut c_void;
/// `CUdeviceptr`.
pub(super) type DevicePtr = u64;

macro_rules! functions {
    ($($field:ident: $symbol:literal ($($arg:ty),*);)*) => {
        /// The functions of the driver.
        #[derive(Clone, Copy)]
        pub(super) struct Library {
            $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> Code,)*
        }

        impl Library {
            /// Finds all functions. The error is the name of one that the library lacks.
            ///
            /// # Safety
            /// The handle is of an open library, which is never closed and has functions of these
            /// prototypes under these names.
            unsafe fn find(handle: *mut c_void) -> Result<Self, &'static str> {
                Ok(Library {
                    $($field: {
                        let name = concat!($symbol, "\0");
                        // SAFETY: the handle is of an open library, and the name ends in a nul.
                        let found = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
                        if found.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: the caller vouches for the prototype.
                        unsafe {
                            mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($arg),*) -> Code,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    init: "cuInit" (c_uint);
    device_get: "cuDeviceGet" (*mut c_int, c_int);
    primary_retain: "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    context_push: "cuCtxPushCurrent_v2" (Handle);
    context_pop: "cuCtxPopCurrent_v2" (*mut Handle);
    pointer_attribute: "cuPointerGetAttribute" (*mut c_void, c_int, DevicePtr);
    memory_alloc: "cuMemAlloc_v2" (*mut DevicePtr, usize);
    memory_free: "cuMemFree_v2" (DevicePtr);
    host_register: "cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
    host_unregister: "cuMemHostUnregister" (*mut c_void);
    stream_create: "cuStreamCreate" (*mut Handle, c_uint);
    stream_destroy: "cuStreamDestroy_v2" (Handle);
    stream_synchronize: "cuStreamSynchronize" (Handle);
    event_create: "cuEventCreate" (*mut Handle, c_uint);
    event_destroy: "cuEventDestroy_v2" (Handle);
    event_record: "cuEventRecord" (Handle, Handle);
    event_query: "cuEventQuery" (Handle);
    copy_in: "cuMemcpyHtoDAsync_v2" (DevicePtr, *const c_void, usize, Handle);
    copy_out: "cuMemcpyDtoHAsync_v2" (*mut c_void, DevicePtr, usize, Handle);
    error_name: "cuGetErrorName" (Code, *mut *const c_char);
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// Checks that the library of the CUDA driver can be opened and has what the engine needs. The
/// driver is not initialised, so that a process may still fork. Whether there is a GPU is known
/// once memory is registered.
///
/// # Errors
/// [`CudaError::Library`], with the reason.
pub fn check_cuda() -> Result<(), CudaError> {
    if LIBRARY.get().is_some() {
        return Ok(());
    }
    open(FILE_C).map(drop)
}

/// Returns the library, initialised.
pub(super) fn libcuda() -> Result<&'static Library, CudaError> {
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    // Two threads may open it at once: both find the same library.
    let library = open(FILE_C)?;
    // SAFETY: the driver may be initialised at any time and several times; flags must be 0.
    library.check("cuInit", unsafe { (library.init)(0) })?;
    Ok(LIBRARY.get_or_init(|| library))
}

fn open(file: &CStr) -> Result<Library, CudaError> {
    let wrong = |reason| CudaError::Library { library: FILE, reason };
    // SAFETY: the name ends in a nul. The initialisers of the driver may run in any thread.
    let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: the text stays valid until this thread's next call of the linker.
        let text = unsafe { libc::dlerror() };
        let reason = match text.is_null() {
            true => "the library cannot be opened".to_owned(),
            // SAFETY: the linker's text ends in a nul.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        };
        return Err(wrong(reason));
    }
    // SAFETY: a library of this soname has these functions, and it is never closed.
    unsafe { Library::find(handle) }
        .map_err(|symbol| wrong(format!("it has no {symbol}: older than CUDA 11, or not CUDA's")))
}

impl Library {
    /// Checks the result of a call.
    pub(super) fn check(&self, call: &'static str, code: Code) -> Result<(), CudaFault> {
        if code == SUCCESS { Ok(()) } else { Err(self.fault(call, code)) }
    }

    /// Describes a call that failed.
    #[cold]
    pub(super) fn fault(&self, call: &'static str, code: Code) -> CudaFault {
        let mut name = ptr::null();
        // SAFETY: the driver sets the pointer to a text that it never frees.
        let known = unsafe { (self.error_name)(code, &raw mut name) } == SUCCESS && !name.is_null();
        let name = match known {
            // SAFETY: as above; it ends in a nul.
            true => unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("an unknown result"),
            false => "an unknown result",
        };
        CudaFault { call, code, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_is_named() {
        let error = open(c"libcuda-that-is-not-there.so.1").err().expect("no such file");
        let text = error.to_string();
        assert!(text.contains("libcuda-that-is-not-there.so.1"), "{text}");
        assert!(text.contains("install the NVIDIA driver"), "{text}");
    }

    #[test]
    fn another_library_is_not_taken_for_the_driver() {
        let error = open(c"libc.so.6").err().expect("libc has no cuInit");
        assert!(error.to_string().contains("it has no cuInit"), "{error}");
    }
}
