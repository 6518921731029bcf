//! Braid: a userspace RDMA transport over plain UDP.
//!
//! One reliable queue pair uses many network paths. Each packet carries its path in the UDP source
//! port and is placed in application memory in whatever order it arrives. Completions come in
//! posting order. Braid needs no RDMA NIC, no kernel module and no root.
//!
//! The terms are those of verbs. An [`Engine`] is the context. A [`ProtectionDomain`] allocates or
//! registers memory as a [`MemoryRegion`] and creates a [`QueuePair`], which connects to a
//! [`Listener`]. The functions of [`wr`] make work requests. A work request is posted to the queue
//! pair and ends in a [`CompletionQueue`].
//!
//! ```
//! use std::thread;
//! use std::time::Duration;
//!
//! use braid::{Access, Engine, EngineConfig, QpOptions, RemoteRegion, wr};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! const PATIENCE: Duration = Duration::from_secs(10);
//! let bind = "127.0.0.1:0".parse()?; // here both ends are in one process
//!
//! // One end hands out the key of its memory, and does no more.
//! let server = Engine::new(EngineConfig { bind, ..Default::default() })?;
//! let (pd, cq) = (server.alloc_pd(), server.create_cq(16)?);
//! let board = pd.alloc_mr(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//! let accepted = pd.create_qp(QpOptions::new(&cq, &cq))?;
//! let listener = server.listen(1)?;
//!
//! // The other writes into it.
//! let client = Engine::new(EngineConfig { bind, ..Default::default() })?;
//! let (pd, cq) = (client.alloc_pd(), client.create_cq(16)?);
//! let text = pd.alloc_mr(4096, Access::NONE)?;
//! text.write_at(0, b"placed by the network")?;
//! let qp = pd.create_qp(QpOptions::new(&cq, &cq))?;
//! let key = thread::scope(|scope| {
//!     scope.spawn(|| {
//!         let request = listener.accept(PATIENCE).expect("the client comes");
//!         request.accept(&accepted, &board.remote().to_bytes()).expect("the queue pair is new");
//!     });
//!     qp.connect(server.local_addr(), b"", PATIENCE)
//! })?;
//! qp.post_send(wr::write(1, [text.slice(..21)?], RemoteRegion::from_bytes(&key)?.at(0)))?;
//! for done in cq.wait(PATIENCE)? {
//!     println!("{:?} {}", done.work, done.status);
//! }
//!
//! let mut placed = [0; 21];
//! board.read_at(0, &mut placed)?;
//! assert_eq!(&placed, b"placed by the network");
//! # Ok(())
//! # }
//! ```
//!
//! The program `examples/first.rs` also sends messages. The folder `docs/` of the repository has a
//! page for each task.

#![cfg_attr(
    not(all(feature = "verbs", feature = "xdp")),
    allow(dead_code, reason = "used by a datapath that this build leaves out")
)]

mod attributes;
mod auto;
mod backlog;
mod busy_wait;
mod clock;
mod config;
mod config_check;
mod connect;
mod counters;
mod cq;
mod cuda;
mod datapath;
mod datapaths;
mod degradation;
mod destination_groups;
mod discovery;
mod doorbell;
mod drivers;
mod engine;
pub mod environment;
mod error;
mod event_fd;
mod events;
mod fork;
mod group;
mod gsi;
mod inner;
mod key_file;
mod link;
mod listener;
mod mad_queue;
mod memory;
mod metrics;
mod observe;
mod parts;
mod paths_to;
mod pd;
mod qp;
mod qp_numbers;
mod rail_names;
mod random;
mod resolve;
mod ring;
mod roce;
mod roce_port;
mod roce_ud;
mod room;
mod security;
mod signals;
mod srq;
mod tcp;
mod threads;
mod ud_queues;
#[cfg_attr(not(feature = "verbs"), path = "no_verbs.rs")]
mod verbs;
mod wake;
mod work_queue;
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
    Access, AccessError, EndCause, FailedWork, LossRecovery, MAX_MESSAGE, MAX_TIMER, OooDegrees,
    PostError, QpAttributes, QpConfig, QpCounters, QpState, RecvWr, RemoteAddr, RoceMtu, SendOp,
    SgList, Sge, StateError, Status, SubflowMetrics, TimerError, UnknownRecovery, Work,
};

/// The end of a work request, taken from a [`CompletionQueue`].
///
/// ```
/// use braid::{Completion, Status, Work};
///
/// /// Handles one completion.
/// fn on_end(done: &Completion) -> Result<(), String> {
///     match (done.status, done.work) {
///         (Status::Success, Work::Recv) => {
///             println!("{} bytes in receive {}", done.len, done.wr_id);
///         }
///         (Status::Success, work) => println!("{work:?} {} is done", done.wr_id),
///         (Status::Flushed, _) => {} // another work request ended the queue pair
///         (why, work) => return Err(format!("{work:?} {} failed: {why}", done.wr_id)),
///     }
///     Ok(())
/// }
/// # use std::time::Duration;
/// # use braid::{Engine, EngineConfig, QpOptions, QpState, wr};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// # let cq = engine.create_cq(64)?;
/// # let qp = engine.alloc_pd().create_qp(QpOptions::new(&cq, &cq))?;
/// # qp.modify(QpState::Init)?;
/// # qp.post_recv(wr::recv(0, []))?;
/// # qp.modify(QpState::Error)?;
/// for done in cq.wait(Duration::from_secs(10))? {
///     on_end(&done)?;
/// }
/// # Ok(())
/// # }
/// ```
pub use braid_transport::Completion;

/// The reason why a queue pair ended, from [`QueuePair::error`] or [`AsyncEvent::QpEnded`].
///
/// ```
/// use braid::EndCause;
/// # use braid::{Engine, EngineConfig, QpOptions, QpState};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// # let cq = engine.create_cq(64)?;
/// # let qp = engine.alloc_pd().create_qp(QpOptions::new(&cq, &cq))?;
/// # assert_eq!(qp.error(), None);
/// # qp.modify(QpState::Init)?;
/// # qp.modify(QpState::Error)?;
/// if let Some(error) = qp.error() {
///     match error.cause {
///         EndCause::Application => println!("this program has ended it"),
///         EndCause::PeerSilent | EndCause::PeerGone | EndCause::PeerUnknown => {
///             println!("connect anew: {error}");
///         }
///         _ => println!("{error}"),
///     }
///     if let Some(failed) = error.work {
///         println!("{:?} {} ended with: {}", failed.work, failed.wr_id, failed.status);
///     }
/// }
/// # assert_eq!(qp.error().map(|error| error.cause), Some(EndCause::Application));
/// # Ok(())
/// # }
/// ```
pub use braid_transport::QpError;

/// A send request, made by the functions of [`wr`] and posted with [`QueuePair::post_send`].
///
/// ```
/// use braid::wr::{self, SendWrExt};
/// use braid::{Access, Engine, EngineConfig, RemoteRegion};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// # let board = RemoteRegion { addr: 0x8000, len: 4096, rkey: 9 }; // as the peer sends it
/// let text = engine.alloc_pd().alloc_mr(4096, Access::LOCAL_WRITE)?;
/// let requests = [
///     wr::write(1, [text.slice(..64)?, text.slice(128..192)?], board.at(0)).unsignalled(),
///     wr::read(2, [text.slice(1024..2048)?], board.at(0)).fenced(),
///     wr::send(3, [text.slice(..21)?]),
/// ];
/// assert_eq!(requests.each_ref().map(|request| request.signalled), [false, true, true]);
/// assert!(requests.iter().all(|request| request.check().is_ok()));
/// # Ok(())
/// # }
/// ```
pub use braid_transport::SendWr;
pub use braid_wire::{
    Crc, DEFAULT_PORT, MAX_PATHS, MAX_PRIVATE_DATA, NETWORK_HEADER_LEN, QpId, RailId, RejectReason,
    Stream, network_header_ends,
};

/// The parsers that the fuzz targets call. Not part of the API.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::discovery::fuzzing::hearsay;
    pub use crate::link::xdp::fuzzing::ethernet_frame;
}

pub use attributes::DatapathAttributes;
pub use config::{EngineConfig, Progress};
pub use connect::ConnectError;
pub use counters::EngineCounters;
pub use cq::{CompletionQueue, CqError, CreateCqError};
pub use cuda::{CudaError, CudaFault, check_cuda};
pub use datapath::JoinError;
pub use datapaths::{Datapath, DatapathError, DatapathKind, DatapathOptions, Medium, Program};
pub use degradation::{Degradation, Misrouting, RailTrouble};
pub use destination_groups::{DestinationGroups, DestinationGroupsError};
pub use discovery::{
    DiscoveryConfig, DiscoveryError, PathId, PathMap, Way, discover, discover_any,
};
pub use engine::Engine;
pub use error::EngineError;
pub use events::AsyncEvent;
pub use fork::Origin;
pub use group::{
    AllToAllV, Blame, Group, GroupConfig, GroupError, MAX_JOB, MAX_RANKS, Members, Round,
};
pub use gsi::{ReceivedMad, RoceGsi};
pub use key_file::{KeyFileError, make_key, make_private_key, read_allowed_keys, read_key};
pub use link::faults::{Faults, FaultsError};
pub use link::mem::MemFabric;
pub use link::xdp::{XdpSetupError, check_xdp};
pub use listener::{ConnectionRequest, ListenError, Listener};
pub use memory::{
    MalformedKey, MemoryError, MemoryRegion, PageSize, REMOTE_REGION_LEN, RegisterError,
    RegisterVecError, RemoteRegion,
};
pub use metrics::{EngineMetrics, QpMetrics};
pub use observe::{EndpointError, MetricsEndpoint, UnknownEndpoint};
pub use paths_to::{PathRoute, PathsTo};
pub use pd::ProtectionDomain;
pub use qp::{Connecting, CreateQpError, QpOptions, QueuePair};
pub use rail_names::{MalformedRailNames, RailNames};
pub use resolve::{ResolveError, resolve};
pub use roce::{RoceError, RocePort, RoceRemote, RoceUdAddress};
pub use roce_ud::{RoceDatagram, RoceUd, RoceUdOptions};
pub use security::{
    Agreed, AllowList, AllowListError, AllowedKey, Cipher, Credentials, Date, Key, KeyError,
    KeyPurpose, KeyText, PrivateKey, Protection, PublicKey, SecretKey, Security, SecurityError,
    SecurityMode, StaticKeys, UnknownCipher, UnknownSecurity,
};
pub use srq::{CreateSrqError, SharedReceiveQueue};
pub use threads::{Uncancelled, spawn_without_signals, wait_for_new_threads};
pub use verbs::{VerbsError, VerbsOptions, VerbsService, VerbsSetupError};
