//! What can go wrong in a call of NCCL's, and the code that NCCL gets for it.

use std::ffi::c_int;
use std::io::ErrorKind;

use braid::{
    ConnectError, CreateCqError, CreateQpError, DatapathError, EngineError, ListenError, PostError,
    RegisterError, StateError,
};

use crate::broken::Broken;
use crate::config::ConfigError;
use crate::handle::HandleError;
use crate::result_code as code;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the argument `{0}` is NULL")]
    Null(&'static str),
    #[error("`{name}` is {value}; {accepted} is possible")]
    Argument { name: &'static str, value: i64, accepted: &'static str },
    #[error("there is no device {index}, only 0 to {last}", last = count - 1)]
    Device { index: c_int, count: usize },
    #[error(
        "device {index} is not one of the {count} that the plugin has found, of which others are made"
    )]
    NotPhysical { index: c_int, count: usize },
    #[error("a device of {count} others; this version of the table has room for {most}")]
    TooManyMembers { count: usize, most: usize },
    #[error("there are {most} devices already, no more can be made")]
    TooManyDevices { most: usize },
    #[error("{devices} cannot be one device: {why}")]
    Apart { devices: String, why: &'static str },
    #[error("the plugin has not been initialised; call `init` first")]
    NotInitialised,
    #[error(
        "memory of type {kind} cannot be registered; only host memory (1) can, as the properties say"
    )]
    MemoryType { kind: c_int },
    #[error("this is a {is} communicator; the call needs a {needed} communicator")]
    WrongComm { is: &'static str, needed: &'static str },
    #[error("this request is not outstanding; it has been reported as done already")]
    StaleRequest,
    #[error(
        "the process that has made it was forked, and this is the child; call `init` here and \
         connect anew, or start processes by `spawn` instead of `fork`"
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
    #[error("the peer at {peer} speaks another version of this plugin; use the same on all hosts")]
    Greeting { peer: std::net::SocketAddr },
    #[error("no thread for connecting: {0}")]
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
}

impl Error {
    /// What NCCL is told.
    pub(crate) fn code(&self) -> c_int {
        match self {
            Error::Null(_)
            | Error::Argument { .. }
            | Error::Device { .. }
            | Error::MemoryType { .. }
            | Error::WrongComm { .. }
            | Error::StaleRequest
            | Error::Handle(_) => code::INVALID_ARGUMENT,
            // NCCL's own InfiniBand plugin has this code for devices that it does not combine, and NCCL goes on without.
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

    /// Whether it has yet to be told in the log: a broken communicator says so once, by itself.
    pub(crate) fn is_news(&self) -> bool {
        !matches!(self, Error::Broken(_))
    }
}

/// The remedy if the system does not list its interfaces, where one is known.
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
