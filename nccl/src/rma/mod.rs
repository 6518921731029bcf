//! The core of the RMA tables: groups of ranks that put into each other's registered memory.
//!
//! ```text
//!   listener    one rank's address, which its handle carries
//!   group       `connect`: all ranks, each linked to each; NCCL's collComm
//!   meeting     connects and accepts queue pairs of a group, in whatever order ranks come
//!   call        the calls that all ranks make together
//!   exchange    what the ranks of a group tell each other: registrations, and whether one failed
//!   symmetric   memory that all ranks register; NCCL's mhandle
//!   context     `createContext`: a queue for each rank and context; NCCL's rmaCtx
//!   peer_queue  the requests towards one rank, in posting order on one queue pair
//!   request     NCCL's request, a number that a group resolves
//! ```
//!
//! A put is one or more WRITEs, a signal is a fetch-and-add behind them on the same queue pair. The
//! engine carries an atomic out when everything before it has arrived and is in place, also in the
//! memory of a GPU. So each signal is a strong one, and there is no second ordering here.

mod call;
mod context;
mod error;
mod exchange;
mod group;
mod listener;
mod meeting;
mod peer_queue;
mod request;
mod symmetric;

pub(crate) use context::{ContextConfig, Extent, RmaContext, Signal, Span, Target};
pub(crate) use error::RmaError;
pub(crate) use group::RmaGroup;
pub(crate) use listener::RmaListener;
pub(crate) use request::RequestId;
pub(crate) use symmetric::SymmetricRegion;
