//! Braid's protocol core, sans-IO: endpoints, queue pairs, windows, timers.
//!
//! The core moves descriptors (address, length, key), never payload. Time, randomness and memory
//! are arguments; a driver owns the clock, the sockets and the threads. `engine` drives it in real
//! time over real networks, the tests and the simulator in virtual time, so that the tested code is
//! the code that ships.
//!
//! The loop of a driver has three steps:
//!
//! 1. Feed [`Endpoint::on_arrival`] (then place, then [`Endpoint::placed`]), [`Endpoint::on_ack`],
//!    [`Endpoint::on_control`] and [`Endpoint::on_timeout`].
//! 2. Drain [`Endpoint::poll_transmit`], [`Endpoint::poll_completion`], [`Endpoint::poll_event`]
//!    and [`Endpoint::poll_disconnect`] (for its [`Disconnects`]).
//! 3. Wait until [`Endpoint::next_timeout`], [`Disconnects::next_timeout`] or the next packet.
//!
//! [`Initiators`] and a [`Responder`] set up connections. An [`RcQp`] speaks plain RoCEv2 instead
//! of Braid's protocol, and a [`CmManager`] connects queue pairs with peers that do so too.
#![forbid(unsafe_code)]

// From the lowest layer up: a module uses only those before it.
mod egress;
mod followers;
mod idle;
mod loss_recovery;
mod patience;
mod places;
mod protection;
mod region_keys;
mod regions;
mod sg_list;
mod state;
mod error;
mod wr;
mod end;
mod config;
mod disconnects;
mod setup;
mod stream;
mod output;
mod qp;
mod rc;
mod cm;
mod endpoint;

pub use cm::{CmEvent, CmEventKind, CmId, CmManager};
pub use config::{
    DirectConfig, EndpointConfig, MAX_TIMER, QpAttributes, QpConfig, Remote, TimerError,
};
pub use disconnects::{Confirmation, Disconnect, Disconnects, DueDisconnect, StrayAnswer};
pub use egress::Egress;
pub use end::{EndCause, FailedWork, QpError};
pub use endpoint::{EcnTrouble, Endpoint};
pub use error::{PostError, StateError};
pub use followers::Followers;
pub use loss_recovery::{LossRecovery, UnknownRecovery};
pub use output::{Event, EventKind, QpSlot, Transmit, TransmitBody};
pub use protection::{Access, AccessError, AtomicOp, PdId};
pub use qp::{Admit, ConnectedQp, Landing, QpCounters, QueuePair, SubflowMetrics};
pub use rc::{RcArrival, RcQp, RcRemote, RcTransmit, RoceMtu};
pub use regions::{Memory, NicKeys, Region, Regions};
pub use setup::{
    Accepted, AddrPair, Attempt, AttemptId, Backlog, Carrier, ConnectError, CookieJar, Guesses,
    Initiator, Initiators, LocalAddr, OfferTerms, Reply, Request, Responder, ResponderAddr, Step,
    Use, decline,
};
pub use sg_list::{SgList, Sge};
pub use state::QpState;
pub use stream::recv::recv_stream::Arrival;
pub use stream::recv::refusal::Refusal;
pub use stream::recv::reordering_extent::OooDegrees;
pub use stream::send::direct::{NicEpoch, Placement};
pub use stream::send::response_queue::WaitingRead;
pub use wr::{
    Completion, Ended, MAX_MESSAGE, RecvWr, RemoteAddr, SendOp, SendWr, Status, Work, message_len,
};
