//! Everything that can fail in a call, and the code that C gets for it.

use std::ffi::c_int;

use braid::{
    ConnectError, CqError, CreateCqError, CreateQpError, DatapathError, DatapathKind,
    DiscoveryError, EndpointError, EngineError, GroupError, ListenError, MalformedKey, MemoryError,
    PostError, RegisterError, SecurityError, StateError, UnknownCc, UnknownEndpoint, UnknownLb,
    UnknownRailScheme, UnknownRecovery, UnknownSecurity, VerbsError, VerbsSetupError,
    XdpSetupError,
};

use crate::error::*;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("`{0}` is NULL")]
    Null(&'static str),
    #[error("this {kind} handle is closed, or is no handle of that kind")]
    Handle { kind: &'static str },
    #[error("the {kind} is in use by another thread's call; let that end, then close it")]
    InCall { kind: &'static str },
    #[error("the {kind} still has {count} objects that were made with it; close them first")]
    HasChildren { kind: &'static str, count: usize },
    #[error("there are as many {kind} handles as there can be; close some")]
    Handles { kind: &'static str },
    #[error("`{name}` is {value}; take {min} to {max}")]
    Range { name: &'static str, value: u64, min: u64, max: u64 },
    #[error("`{name}` is {value}; take 0 to 1")]
    Share { name: &'static str, value: f64 },
    #[error("`{name}` is {value}, and there are {count}, counted from 0")]
    Index { name: &'static str, value: usize, count: usize },
    #[error("`{name}` is {value}; there is {accepted}")]
    Constant { name: &'static str, value: i64, accepted: &'static str },
    #[error("`{name}` is {value:#x}; take any combination of {accepted}")]
    Bits { name: &'static str, value: u32, accepted: &'static str },
    #[error(
        "of `fabric`, `device` and `xdp` more than one is set; an engine has one network: leave the others NULL or 0"
    )]
    TwoDatapaths,
    #[error(
        "`datapath` is `{named}`, and of `fabric`, `device` and `xdp` one selects `{implied}`; leave `datapath` NULL or the other unset"
    )]
    OtherDatapath { named: DatapathKind, implied: DatapathKind },
    #[error("`{name}` is no string: {why}")]
    Text { name: &'static str, why: &'static str },
    #[error("`{name}` has {have} bytes of room and {needed} are needed")]
    Room { name: &'static str, have: usize, needed: usize },
    #[error("`{text}` is no address: {why}; write 10.0.0.2:4791, [fe80::1%2]:4791 or name:4791")]
    Address { text: String, why: String },
    #[error("`size` of {name} is {size}; let its braid_*_init set it, or set it to sizeof")]
    Size { name: &'static str, size: usize },
    #[error(
        "{name} of {size} bytes has fields set that this library, which knows {known} bytes, has not; use a newer library"
    )]
    Newer { name: &'static str, size: usize, known: usize },
    #[error("no descriptor: {0}; raise the limit of open files (`ulimit -n`)")]
    Descriptor(#[source] std::io::Error),
    #[error(
        "a round that is not over uses the memory region; wait for it, or close the group first"
    )]
    InRound,
    #[error(
        "`root` is empty and `addresses` is NULL; say in one of them where the ranks of the group are"
    )]
    NoMembers,
    #[error(
        "`root` and `addresses` are both set; say in one of them where the ranks of the group are"
    )]
    TwoMembers,
    #[error("nobody connected in time")]
    NobodyCame,
    #[error(transparent)]
    LogFilter(#[from] braid_log::FilterError),
    #[error(transparent)]
    LogTaken(#[from] braid_log::Taken),
    #[error(transparent)]
    Endpoint(#[from] UnknownEndpoint),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    CreateCq(#[from] CreateCqError),
    #[error(transparent)]
    Cq(#[from] CqError),
    #[error(transparent)]
    CreateQp(#[from] CreateQpError),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Key(#[from] MalformedKey),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Lb(#[from] UnknownLb),
    #[error(transparent)]
    RailPolicy(#[from] UnknownRailScheme),
    #[error(transparent)]
    Cc(#[from] UnknownCc),
    #[error(transparent)]
    Recovery(#[from] UnknownRecovery),
    #[error(transparent)]
    Datapath(#[from] DatapathError),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error(transparent)]
    SecurityMode(#[from] UnknownSecurity),
    #[error("a bug of Braid: {0}")]
    Panicked(String),
}

impl Failure {
    pub(crate) fn code(&self) -> c_int {
        match self {
            Failure::Null(_) => BRAID_ERR_NULL,
            Failure::Handle { .. } => BRAID_ERR_HANDLE,
            Failure::InCall { .. }
            | Failure::HasChildren { .. }
            | Failure::InRound
            | Failure::LogTaken(_) => BRAID_ERR_BUSY,
            Failure::Handles { .. } => BRAID_ERR_EXHAUSTED,
            Failure::Newer { .. } => BRAID_ERR_UNSUPPORTED,
            Failure::NobodyCame => BRAID_ERR_TIMED_OUT,
            Failure::Cq(_) => BRAID_ERR_OVERRUN,
            Failure::State(_) => BRAID_ERR_STATE,
            Failure::Panicked(_) => BRAID_ERR_INTERNAL,
            Failure::Engine(error) => engine_code(error),
            Failure::Listen(ListenError::AlreadyListening { .. }) => BRAID_ERR_BUSY,
            Failure::CreateCq(CreateCqError::Event(_))
            | Failure::Listen(ListenError::Event { .. })
            | Failure::Connect(ConnectError::Event(_))
            | Failure::Descriptor(_) => BRAID_ERR_SYSTEM,
            Failure::CreateQp(error) => create_qp_code(error),
            Failure::Register(error) => register_code(error),
            Failure::Post(error) => post_code(error),
            Failure::Connect(error) => connect_code(error),
            Failure::Discovery(error) => discovery_code(error),
            Failure::Group(error) => crate::group::code(error),
            Failure::Range { .. }
            | Failure::Share { .. }
            | Failure::Index { .. }
            | Failure::Constant { .. }
            | Failure::Bits { .. }
            | Failure::TwoDatapaths
            | Failure::OtherDatapath { .. }
            | Failure::Datapath(_)
            | Failure::NoMembers
            | Failure::TwoMembers
            | Failure::Text { .. }
            | Failure::Room { .. }
            | Failure::Address { .. }
            | Failure::Size { .. }
            | Failure::LogFilter(_)
            | Failure::Endpoint(_)
            | Failure::Listen(_)
            | Failure::CreateCq(_)
            | Failure::Security(_)
            | Failure::SecurityMode(_)
            | Failure::Memory(_)
            | Failure::Key(_)
            | Failure::Lb(_)
            | Failure::RailPolicy(_)
            | Failure::Cc(_)
            | Failure::Recovery(_) => BRAID_ERR_INVALID,
        }
    }
}

// The engine's enums may grow. A variant that is not named below counts as a bad value, which is
// what most are; its text says more in any case.

fn engine_code(error: &EngineError) -> c_int {
    match error {
        EngineError::Bind { .. } | EngineError::Paths { .. } | EngineError::System(_) => {
            BRAID_ERR_SYSTEM
        }
        EngineError::Metrics(EndpointError::Unknown(_)) => BRAID_ERR_INVALID,
        EngineError::Metrics(_) => BRAID_ERR_SYSTEM,
        EngineError::Verbs(error) => verbs_code(error),
        EngineError::Xdp(error) => xdp_code(error),
        _ => BRAID_ERR_INVALID,
    }
}

/// As [`verbs_code`].
fn xdp_code(error: &XdpSetupError) -> c_int {
    match error {
        XdpSetupError::Busy { .. } => BRAID_ERR_BUSY,
        XdpSetupError::Privilege { .. }
        | XdpSetupError::Locked { .. }
        | XdpSetupError::Unsupported { .. }
        | XdpSetupError::System { .. } => BRAID_ERR_SYSTEM,
        _ => BRAID_ERR_INVALID,
    }
}

/// What is not there, or refuses, is the system's; what was asked for is the caller's.
fn verbs_code(error: &VerbsSetupError) -> c_int {
    match error {
        VerbsSetupError::Verbs(
            VerbsError::UnknownDevice { .. }
            | VerbsError::NoSuchPort { .. }
            | VerbsError::GidOutOfRange { .. },
        ) => BRAID_ERR_INVALID,
        VerbsSetupError::Verbs(_)
        | VerbsSetupError::PortDown { .. }
        | VerbsSetupError::NoGid { .. }
        | VerbsSetupError::Memory(_) => BRAID_ERR_SYSTEM,
        _ => BRAID_ERR_INVALID,
    }
}

fn create_qp_code(error: &CreateQpError) -> c_int {
    match error {
        CreateQpError::TooMany => BRAID_ERR_EXHAUSTED,
        CreateQpError::Inline(error) => register_code(error),
        _ => BRAID_ERR_INVALID,
    }
}

fn register_code(error: &RegisterError) -> c_int {
    match error {
        RegisterError::NoMemory { .. }
        | RegisterError::NoHugePages { .. }
        | RegisterError::Device(_) => BRAID_ERR_SYSTEM,
        RegisterError::TooMany => BRAID_ERR_EXHAUSTED,
        _ => BRAID_ERR_INVALID,
    }
}

fn post_code(error: &PostError) -> c_int {
    match error {
        PostError::State { .. } => BRAID_ERR_STATE,
        PostError::QueueFull { .. } => BRAID_ERR_FULL,
        PostError::Access(_) => BRAID_ERR_ACCESS,
        PostError::NoInlineMemory { .. } => BRAID_ERR_SYSTEM,
        PostError::TooLong { .. }
        | PostError::InlineTooLong { .. }
        | PostError::TooManySges { .. }
        | PostError::AtomicLength { .. }
        | PostError::AtomicAlignment { .. } => BRAID_ERR_INVALID,
    }
}

fn connect_code(error: &ConnectError) -> c_int {
    match error {
        ConnectError::TimedOut { .. } | ConnectError::Misrouted { .. } => BRAID_ERR_TIMED_OUT,
        ConnectError::Rejected { .. } => BRAID_ERR_REJECTED,
        ConnectError::Unreachable { .. } | ConnectError::PathMtu { .. } => BRAID_ERR_UNREACHABLE,
        ConnectError::State { .. } | ConnectError::AlreadyConnecting { .. } => BRAID_ERR_STATE,
        ConnectError::Cancelled { .. } => BRAID_ERR_CANCELLED,
        _ => BRAID_ERR_INVALID,
    }
}

fn discovery_code(error: &DiscoveryError) -> c_int {
    match error {
        DiscoveryError::NoRoute { .. } | DiscoveryError::Unreachable { .. } => {
            BRAID_ERR_UNREACHABLE
        }
        DiscoveryError::Port { .. } => BRAID_ERR_SYSTEM,
        _ => BRAID_ERR_INVALID,
    }
}
