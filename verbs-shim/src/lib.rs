//! Safe wrappers of libibverbs, which is opened at run time.
//!
//! Nothing is needed at build time, and nothing links to libibverbs. The library is opened with the
//! first device. If the library or a device is missing, the error says what to install or to set up
//! ([`VerbsError`]).
//!
//! A [`Context`] is an open device. It creates protection domains ([`Pd`]), completion channels and
//! queues ([`CompletionChannel`], [`Cq`]). A domain creates memory regions, queue pairs, shared
//! receive queues and address handles ([`Mr`], [`Qp`], [`Srq`], [`Ah`]). Each object keeps its
//! parents alive, so they may be dropped in any order. All of them may be used from any thread,
//! because libibverbs locks inside. No call waits for the network. Dropping an object waits for a
//! thread that is reading an event about it.
//!
//! Only RoCE is supported: addresses are GIDs, and LIDs are not set.

// The file of an object has the method of its parent that creates it, so a parent imports nothing
// from its children.
#[doc(hidden)]
pub mod abi;
mod ah;
mod async_event;
mod channel;
mod completion;
mod context;
mod cq;
mod descriptor;
mod device;
mod error;
#[cfg(any(test, feature = "fake"))]
#[cfg_attr(not(test), allow(dead_code, reason = "some of it is for this crate's own tests"))]
#[doc(hidden)]
pub mod fake;
mod gid;
mod gid_table;
mod library;
mod mr;
mod pd;
mod port;
mod post;
mod qp;
mod sge;
mod srq;

pub use ah::{Ah, Route};
pub use async_event::{AsyncEvent, QpEvent};
pub use channel::CompletionChannel;
pub use completion::{Completion, WcOpcode, WcStatus};
pub use context::{Context, DeviceAttributes};
pub use cq::Cq;
pub use device::device_names;
pub use error::{PostError, VerbsError};
pub use gid::{Gid, GidType};
pub use mr::{Mr, MrAccess};
pub use pd::Pd;
pub use port::{PortAttributes, PortState};
pub use post::{RecvWr, SendOp, SendWr};
pub use qp::{Qp, QpInit, QpKind, QpState, Rtr, Rts};
pub use sge::Sge;
pub use srq::Srq;
