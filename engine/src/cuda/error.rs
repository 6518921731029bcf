//! Errors of the CUDA driver.

use std::fmt;

/// A call of the CUDA driver that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaFault {
    /// The function.
    pub call: &'static str,
    /// The result, a `CUresult`. 0: the driver did not end the copy in time.
    pub code: u32,
    /// The name of the result, such as `CUDA_ERROR_CONTEXT_IS_DESTROYED`.
    pub name: &'static str,
}

impl fmt::Display for CudaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with {} ({})", self.call, self.name, self.code)
    }
}

impl std::error::Error for CudaFault {}

/// The reason why device memory was not allocated or registered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The library of the CUDA driver cannot be opened, or is too old.
    #[error("no GPU: {library}: {reason}; install the NVIDIA driver, which contains the library")]
    Library {
        /// The name of the library.
        library: &'static str,
        /// The reason.
        reason: String,
    },
    /// A call of the CUDA driver failed.
    #[error("{0}")]
    Driver(#[from] CudaFault),
    /// The address is not one of device memory.
    #[error(
        "CUDA does not know device memory at {addr:#x}: {reason}; \
         pass the pointer of cuMemAlloc or cudaMalloc"
    )]
    Pointer {
        /// The address.
        addr: u64,
        /// The answer of the CUDA driver.
        reason: String,
    },
    /// The bytes belong to two contexts.
    #[error(
        "the {len} bytes at {addr:#x} are memory of two CUDA contexts; register each part by itself"
    )]
    TwoContexts {
        /// The address of the first byte.
        addr: u64,
        /// The length in bytes.
        len: u64,
    },
    /// The system has no memory of the host left for copies.
    #[error("the system has no memory of the host for copies: {0}")]
    NoMemory(String),
    /// The engine has used too many contexts.
    #[error("the engine has used memory of {0} CUDA contexts, and no more are possible")]
    TooManyContexts(usize),
}
