//! All failures of calls and their error codes.

use std::ffi::c_int;

use braid::{
    ConnectError, CqError, CreateCqError, CreateQpError, CreateSrqError, CudaError, DatapathError,
    DatapathKind, DestinationGroupsError, DiscoveryError, EndpointError, EngineError, GroupError,
    ListenError, MalformedKey, MemoryError, PostError, RegisterError, RoceError, SecurityError,
    StateError, UnknownCc, UnknownEndpoint, UnknownLb, UnknownRailScheme, UnknownRecovery,
    UnknownSecurity, VerbsError, VerbsSetupError, XdpSetupError,
};

use crate::error::*;

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("`{0}` is NULL")]
    Null(&'static str),
    #[error("the {kind} handle is closed or of another kind")]
    Handle { kind: &'static str },
    #[error("the {kind} is in use by another thread's call; wait for that call, then close it")]
    InCall { kind: &'static str },
    #[error("the {kind} still has {count} objects; close them first")]
    HasChildren { kind: &'static str, count: usize },
    #[error("the maximum number of {kind} handles is open; close some")]
    Handles { kind: &'static str },
    #[error("`{name}` is {value}; use {min} to {max}")]
    Range { name: &'static str, value: u64, min: u64, max: u64 },
    #[error("`{name}` is {value}; use 0 to 1")]
    Share { name: &'static str, value: f64 },
    #[error("`{name}` is {value}; use an index below {count}")]
    Index { name: &'static str, value: usize, count: usize },
    #[error("`{name}` is {value}; use {accepted}")]
    Constant { name: &'static str, value: i64, accepted: &'static str },
    #[error("`{name}` is {value:#x}; use any combination of {accepted}")]
    Bits { name: &'static str, value: u32, accepted: &'static str },
    #[error(
        "more than one of `fabric`, `device` and `xdp` is set; set one and leave the others NULL or 0"
    )]
    TwoDatapaths,
    #[error(
        "`datapath` is `{named}`, and of `fabric`, `device` and `xdp` one selects `{implied}`; leave `datapath` NULL or the other unset"
    )]
    OtherDatapath { named: DatapathKind, implied: DatapathKind },
    #[error("`{name}` is not a valid string: {why}")]
    Text { name: &'static str, why: &'static str },
    #[error("`{name}` has {have} bytes; provide at least {needed}")]
    Room { name: &'static str, have: usize, needed: usize },
    #[error(
        "`{text}` is not a valid address: {why}; use 10.0.0.2:4791, [fe80::1%2]:4791 or name:4791"
    )]
    Address { text: String, why: String },
    #[error("`size` of {name} is {size}; initialise it with braid_*_init or with sizeof")]
    Size { name: &'static str, size: usize },
    #[error(
        "{name} has {size} bytes and sets fields beyond the {known} bytes that this library knows; use a newer library"
    )]
    Newer { name: &'static str, size: usize, known: usize },
    #[error("cannot create a descriptor: {0}; raise the limit of open files (`ulimit -n`)")]
    Descriptor(#[source] std::io::Error),
    #[error(
        "an unfinished round uses the memory region; wait for the round or close the group first"
    )]
    InRound,
    #[error(
        "`root` is empty and `addresses` is NULL; set one of them to the addresses of the ranks"
    )]
    NoMembers,
    #[error("`root` and `addresses` are both set; set only one of them")]
    TwoMembers,
    #[error(
        "the address belongs to another datagram queue pair; create it with the one that sends"
    )]
    OtherAddress,
    #[error(
        "a datagram of {len} bytes does not fit into the path MTU of {mtu}; send at most \
         {mtu} bytes, or use a connection"
    )]
    LongDatagram { len: usize, mtu: u32 },
    #[error("no peer connected in time; start the peer or raise the time-out")]
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
    CreateSrq(#[from] CreateSrqError),
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
    Roce(#[from] RoceError),
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    DestinationGroups(#[from] DestinationGroupsError),
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
            Failure::Roce(error) => roce_code(error),
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
            | Failure::DestinationGroups(_)
            | Failure::NoMembers
            | Failure::TwoMembers
            | Failure::OtherAddress
            | Failure::LongDatagram { .. }
            | Failure::CreateSrq(_)
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

// The engine's enums may grow. A variant without an arm below maps to BRAID_ERR_INVALID, which fits
// most; its text is more specific.

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

/// See [`verbs_code`].
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

/// Missing or refused resources are system errors. Invalid requests are the caller's errors.
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
        RegisterError::Cuda(
            CudaError::Library { .. } | CudaError::Driver(_) | CudaError::NoMemory(_),
        ) => BRAID_ERR_SYSTEM,
        RegisterError::Cuda(CudaError::TooManyContexts(_)) | RegisterError::TooMany => {
            BRAID_ERR_EXHAUSTED
        }
        _ => BRAID_ERR_INVALID,
    }
}

fn post_code(error: &PostError) -> c_int {
    match error {
        PostError::State { .. } => BRAID_ERR_STATE,
        PostError::QueueFull { .. } => BRAID_ERR_FULL,
        PostError::Access(_) => BRAID_ERR_ACCESS,
        PostError::NoInlineMemory { .. } => BRAID_ERR_SYSTEM,
        PostError::SharedReceives
        | PostError::TooLong { .. }
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

fn roce_code(error: &RoceError) -> c_int {
    match error {
        RoceError::Port { .. } => BRAID_ERR_SYSTEM,
        RoceError::PathMtu { .. } | RoceError::Unreachable { .. } => BRAID_ERR_UNREACHABLE,
        RoceError::State { .. } | RoceError::Sending { .. } => BRAID_ERR_STATE,
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
