//! Braid: a userspace RDMA transport over plain UDP.
//!
//! One reliable queue pair is woven out of many network paths: every packet carries its path in the
//! UDP source port, lands in application memory in whatever order it arrives, and completions still
//! come out in the order they were posted. No RDMA NIC, no kernel module, no root.
//!
//! The terms are those of verbs. An [`Engine`] is the context. Memory is allocated or registered
//! with a [`ProtectionDomain`] and becomes a [`MemoryRegion`]; a [`QueuePair`] is created there too
//! and connected to a [`Listener`]; work requests (made by [`wr`]) are posted to it and end in a
//! [`CompletionQueue`].
//!
//! `examples/first.rs` shows all of it in one page.

mod attributes;
mod backlog;
mod busy_wait;
mod clock;
mod config;
mod config_check;
mod connect;
mod counters;
mod cq;
mod datapath;
mod discovery;
mod doorbell;
mod engine;
mod error;
mod event_fd;
mod events;
mod group;
mod inner;
mod link;
mod listener;
mod memory;
mod metrics;
mod observe;
mod parts;
mod paths_to;
mod pd;
mod qp;
mod qp_numbers;
mod random;
mod ring;
mod signals;
mod srq;
mod verbs;
mod wake;
mod worker;
pub mod wr;

pub use braid_cc as congestion;
pub use braid_cc::{CcConfig, UnknownPolicy as UnknownCc};
pub use braid_lb as paths;
pub use braid_lb::{
    LbPolicy, PathCounters, PathReport, PathsError, RailScheme, UnknownPolicy as UnknownLb,
    UnknownRailScheme,
};
pub use braid_transport::{
    Access, AccessError, Completion, EndCause, FailedWork, LossRecovery, MAX_MESSAGE, OooDegrees,
    PostError, QpAttributes, QpConfig, QpCounters, QpError, QpState, RecvWr, RemoteAddr, SendOp,
    SendWr, SgList, Sge, StateError, Status, SubflowMetrics, UnknownRecovery, Work,
};
pub use braid_wire::{
    Crc, DEFAULT_PORT, MAX_PATHS, MAX_PRIVATE_DATA, QpId, RailId, RejectReason, Stream,
};

/// What fuzz targets reach of the parsers in here; no part of the API.
#[cfg(fuzzing)]
#[doc(hidden)]
pub use discovery::fuzzing;

pub use attributes::DatapathAttributes;
pub use braid_verbs::VerbsError;
pub use config::{Datapath, EngineConfig, Progress};
pub use connect::ConnectError;
pub use counters::EngineCounters;
pub use cq::{CompletionQueue, CqError, CreateCqError};
pub use datapath::JoinError;
pub use discovery::{DiscoveryConfig, DiscoveryError, PathId, PathMap, Way, discover};
pub use engine::Engine;
pub use error::EngineError;
pub use events::AsyncEvent;
pub use group::{AllToAllV, Blame, Group, GroupConfig, GroupError, MAX_RANKS, Members, Round};
pub use link::faults::{Faults, FaultsError};
pub use link::mem::MemFabric;
pub use listener::{ConnectionRequest, ListenError, Listener};
pub use memory::{
    MalformedKey, MemoryError, MemoryRegion, PageSize, REMOTE_REGION_LEN, RegisterError,
    RemoteRegion,
};
pub use metrics::{EngineMetrics, QpMetrics};
pub use observe::{EndpointError, MetricsEndpoint, UnknownEndpoint};
pub use paths_to::PathsTo;
pub use pd::ProtectionDomain;
pub use qp::{Connecting, CreateQpError, QpOptions, QueuePair};
pub use srq::{CreateSrqError, SharedReceiveQueue};
pub use verbs::{VerbsOptions, VerbsService, VerbsSetupError};
