//! The failures of NCCL's calls and their result codes.

use std::ffi::c_int;
use std::io::ErrorKind;

use braid::{
    ConnectError, CreateCqError, CreateQpError, CudaError, DatapathError, EngineError, ListenError,
    PostError, RegisterError, StateError,
};

use crate::broken::Broken;
use crate::config::ConfigError;
use crate::handle::HandleError;
use crate::result_code as code;
use crate::rma::RmaError;

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the argument `{0}` is NULL")]
    Null(&'static str),
    #[error("`{name}` is {value}; use {accepted}")]
    Argument { name: &'static str, value: i64, accepted: &'static str },
    #[error("device {index} does not exist; use 0 to {last}", last = count - 1)]
    Device { index: c_int, count: usize },
    #[error(
        "device {index} cannot be combined; use 0 to {last}, the devices that the plugin has found",
        last = count - 1
    )]
    NotPhysical { index: c_int, count: usize },
    #[error("cannot combine {count} devices; this table version allows {most}")]
    TooManyMembers { count: usize, most: usize },
    #[error("the maximum of {most} devices exists already")]
    TooManyDevices { most: usize },
    #[error("{devices} cannot be one device: {why}")]
    Apart { devices: String, why: &'static str },
    #[error("the plugin has not been initialised; call `init` first")]
    NotInitialised,
    #[error(
        "memory of type {kind} cannot be registered; use host memory (1), as the properties state"
    )]
    MemoryType { kind: c_int },
    #[error("memory of type {kind} cannot be registered; use host memory (1) or CUDA memory (2)")]
    SymmetricMemoryType { kind: c_int },
    #[error("this is a {is} communicator; the call needs a {needed} communicator")]
    WrongComm { is: &'static str, needed: &'static str },
    #[error("this request is not outstanding; it was already reported as done")]
    StaleRequest,
    #[error(
        "the object belongs to the parent of this forked process; call `init` and connect again \
         here, or start processes by `spawn` instead of `fork`"
    )]
    Forked,
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("no usable network interface: {0}")]
    NoInterface(String),
    #[error("the network interfaces cannot be listed: {0}{remedy}", remedy = remedy(.0))]
    Interfaces(#[source] std::io::Error),
    #[error(transparent)]
    Datapath(#[from] DatapathError),
    #[error(transparent)]
    Handle(#[from] HandleError),
    #[error(
        "the peer at {peer} has another version of this plugin; use the same version on all hosts"
    )]
    Greeting { peer: std::net::SocketAddr },
    #[error("cannot create a thread to connect: {0}")]
    Thread(#[source] std::io::Error),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Cq(#[from] CreateCqError),
    #[error(transparent)]
    Qp(#[from] CreateQpError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Broken(#[from] Broken),
    #[error(transparent)]
    Rma(#[from] RmaError),
}

impl Error {
    /// Returns the result code for NCCL.
    pub(crate) fn code(&self) -> c_int {
        match self {
            Error::Null(_)
            | Error::Argument { .. }
            | Error::Device { .. }
            | Error::MemoryType { .. }
            | Error::SymmetricMemoryType { .. }
            | Error::WrongComm { .. }
            | Error::StaleRequest
            | Error::Handle(_) => code::INVALID_ARGUMENT,
            // NCCL's own InfiniBand plugin returns this code for devices that it does not combine,
            // and NCCL continues without.
            Error::NotPhysical { .. }
            | Error::TooManyMembers { .. }
            | Error::TooManyDevices { .. }
            | Error::Apart { .. }
            | Error::Config(_)
            | Error::Datapath(_)
            | Error::Forked
            | Error::NotInitialised => code::INVALID_USAGE,
            Error::Greeting { .. } => code::REMOTE_ERROR,
            Error::Connect(error) => connect_code(error),
            Error::Broken(broken) => broken.code(),
            Error::Rma(error) => error.code(),
            Error::Register(RegisterError::Cuda(
                CudaError::Pointer { .. } | CudaError::TwoContexts { .. },
            )) => code::INVALID_ARGUMENT,
            Error::State(_) | Error::Post(_) => code::INTERNAL_ERROR,
            Error::NoInterface(_)
            | Error::Interfaces(_)
            | Error::Thread(_)
            | Error::Engine(_)
            | Error::Listen(_)
            | Error::Cq(_)
            | Error::Qp(_)
            | Error::Register(_) => code::SYSTEM_ERROR,
        }
    }

    /// Returns whether the error must be logged. A broken communicator logs its error once by
    /// itself.
    pub(crate) fn is_news(&self) -> bool {
        !matches!(self, Error::Broken(_))
    }
}

/// Returns the remedy if the system does not list its interfaces, where one is known.
fn remedy(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(nix::libc::EMFILE) => "; raise the limit of open files (`ulimit -n`)",
        _ => "",
    }
}

fn connect_code(error: &ConnectError) -> c_int {
    match error {
        ConnectError::TimedOut { .. }
        | ConnectError::Misrouted { .. }
        | ConnectError::Rejected { .. }
        | ConnectError::Cancelled { .. } => code::REMOTE_ERROR,
        ConnectError::Unreachable { source, .. }
            if source.kind() == ErrorKind::ConnectionRefused =>
        {
            code::REMOTE_ERROR
        }
        ConnectError::Unreachable { .. } | ConnectError::PathMtu { .. } => code::SYSTEM_ERROR,
        _ => code::INTERNAL_ERROR,
    }
}
