//! The outcomes of NIXL's calls.

use std::ffi::c_int;

use braid::{
    ConnectError, CreateCqError, CreateQpError, CudaError, EngineError, MemoryError, RegisterError,
};

use crate::settings::SettingError;
use crate::version::VersionError;

/// `NIXL_IN_PROG`.
pub(crate) const IN_PROGRESS: c_int = 1;
/// `NIXL_SUCCESS`.
pub(crate) const SUCCESS: c_int = 0;
/// `NIXL_ERR_UNKNOWN`.
pub(crate) const UNKNOWN: c_int = -8;

const INVALID_PARAM: c_int = -2;
const BACKEND: c_int = -3;
const NOT_FOUND: c_int = -4;
const MISMATCH: c_int = -5;
const NOT_ALLOWED: c_int = -6;
const REPOST_ACTIVE: c_int = -7;
const NOT_SUPPORTED: c_int = -9;
const REMOTE_DISCONNECT: c_int = -10;

/// The reason why a call of NIXL failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Version(#[from] VersionError),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error("cannot start the engine: {0}")]
    Engine(Box<EngineError>),
    #[error("cannot start the backend: {0}")]
    Queue(#[from] CreateCqError),
    #[error("cannot start the backend: {0}")]
    Listen(#[from] braid::ListenError),
    #[error("cannot start the backend: {0}; raise the limits of processes and open files")]
    System(#[from] std::io::Error),
    #[error(
        "memory of kind {kind} is not supported; Braid moves DRAM (kind 0) and VRAM (kind 1), so \
         register buffers of the host or of a GPU"
    )]
    Kind { kind: c_int },
    #[error("cannot register {len} bytes at {addr:#x}: {source}")]
    Register { addr: u64, len: usize, source: Box<RegisterError> },
    #[error("a NULL pointer instead of {0}")]
    Null(&'static str),
    #[error("{what} of agent `{agent}` is malformed: {why}; do both agents have this plugin?")]
    Malformed { what: &'static str, agent: String, why: &'static str },
    #[error(
        "the connection information of agent `{agent}` is loaded already; remove the agent first"
    )]
    Loaded { agent: String },
    #[error("agent `{agent}` is unknown; load its metadata first")]
    Stranger { agent: String },
    #[error("the list of descriptors is empty")]
    Empty,
    #[error(
        "descriptor {index} has {len} bytes at {addr:#x}, outside the registered memory of \
         {region_len} bytes at {region_addr:#x}"
    )]
    Bounds { index: usize, addr: u64, len: u64, region_addr: u64, region_len: u64 },
    #[error("descriptor {index} is memory of agent `{owner}`, and the transfer is with `{agent}`")]
    Owner { index: usize, owner: String, agent: String },
    #[error("a notification of {len} bytes is longer than {max}; send less, or memory instead")]
    Notification { len: usize, max: usize },
    #[error("a transfer is being posted that has not ended")]
    Active,
    #[error("the transfer uses memory that was deregistered; register it and prepare it anew")]
    Deregistered,
    #[error("memory of a GPU was not copied: {source}")]
    Copy { source: MemoryError },
    #[error("the connection to agent `{agent}` ended: {why}")]
    Gpu { agent: String, why: String },
    #[error(
        "no {operation} of {kind} with agent `{agent}` has been measured yet; estimates follow the \
         first transfer that began with a connection"
    )]
    Unmeasured { operation: &'static str, kind: &'static str, agent: String },
    #[error("cannot connect to agent `{agent}`: {source}")]
    QueuePair { agent: String, source: Box<CreateQpError> },
    #[error("cannot connect to agent `{agent}`: {source}")]
    Connect { agent: String, source: Box<ConnectError> },
    #[error("the connection to agent `{agent}` ended: {why}")]
    Ended { agent: String, why: String, is_refused: bool },
    #[error("the backend belongs to the parent process; create an agent in this one")]
    Forked,
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        Error::Engine(Box::new(error))
    }
}

impl Error {
    /// The code for NIXL.
    pub(crate) fn code(&self) -> c_int {
        match *self {
            Error::Kind { .. } | Error::Unmeasured { .. } => NOT_SUPPORTED,
            Error::Register { ref source, .. } if is_without_driver(source) => NOT_SUPPORTED,
            Error::Null(_)
            | Error::Setting(_)
            | Error::Loaded { .. }
            | Error::Empty
            | Error::Bounds { .. }
            | Error::Notification { .. }
            | Error::Owner { .. } => INVALID_PARAM,
            Error::Malformed { .. } => MISMATCH,
            Error::Stranger { .. } => NOT_FOUND,
            Error::Active => REPOST_ACTIVE,
            Error::Connect { .. } => REMOTE_DISCONNECT,
            Error::Deregistered | Error::Ended { is_refused: true, .. } => NOT_ALLOWED,
            Error::Ended { is_refused: false, .. } => REMOTE_DISCONNECT,
            Error::Version(_)
            | Error::Engine(_)
            | Error::Queue(_)
            | Error::Listen(_)
            | Error::System(_)
            | Error::Register { .. }
            | Error::Copy { .. }
            | Error::Gpu { .. }
            | Error::QueuePair { .. }
            | Error::Forked => BACKEND,
        }
    }
}

/// Whether memory was not registered because there is no CUDA driver.
fn is_without_driver(error: &RegisterError) -> bool {
    matches!(error, RegisterError::Cuda(CudaError::Library { .. }))
}
