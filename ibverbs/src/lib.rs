//! The drop-in libibverbs, from which `cargo xtask drop-in` makes `libibverbs.so.1`. See
//! `docs/libibverbs.md`.
//!
//! The crate is a thin layer: every object of verbs stands for one of the engine, which makes all
//! packets. Programs hold pointers to boxes. Each box begins with the structure of
//! `infiniband/verbs.h`.
//!
//! # Layers
//!
//! From the bottom to the top:
//!
//! - `running`: the engine of an open device, with the state that all objects share.
//! - `domain`, `cq::shared`, `srq::shared`, `datagram::flow`, `qp::queue_pair`: the parts of
//!   objects that other objects and threads hold.
//! - `registry`: the queue pairs and flows of an engine, by number.
//! - `connect`: the control thread, which connects the queue pairs of a registry.
//! - `open_device`, `context`, `cq::handle`, `qp::handle`: the boxes that programs hold.
//! - The functions of verbs and, in `cm`, those of librdmacm. `op_table` lists the functions that
//!   programs call through a context.
//!
//! # The caller's promise
//!
//! A pointer that is not NULL points to what the man page of the function requires, for as long as
//! the man page requires. A pointer to an object leads to one that this library has made and that
//! was not destroyed. The SAFETY comments rely on nothing else.
#![allow(clippy::missing_safety_doc, reason = "it is the caller's promise, above, for all of them")]
#![allow(
    missing_docs,
    reason = "the functions are those of the man pages; here stands what they leave open"
)]

mod acknowledgements;
mod ah;
mod async_event_calls;
mod async_events;
mod cancel;
mod channel;
mod cm;
mod connect;
mod context;
mod cq;
mod cq_ex;
mod datagram;
mod device;
mod device_files;
mod domain;
mod errno;
mod gate;
mod gid;
mod gid_table;
mod grh;
mod interfaces;
mod limits;
mod memory;
mod memory_attributes;
mod messages;
mod names;
mod numbers;
mod op_table;
mod open_device;
mod peer;
mod poll;
mod post;
mod process_exit;
mod providers;
mod qp;
mod query;
mod rails;
mod registry;
mod requests;
mod resets;
mod routes;
mod running;
mod settings;
mod srq;
mod threads;
mod unsupported;
mod waiting;
mod work_requests;

/// Entry points of the fuzz targets into the private parsers. No part of the API.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::cm::fuzzing::exchanged_message;
    pub use crate::connect::fuzzing::connection_hello;
    pub use crate::messages::fuzzing::link_datagrams;
}

pub use self::ah::*;
pub use self::async_event_calls::{ibv_ack_async_event, ibv_get_async_event};
pub use self::channel::*;
pub use self::cm::*;
pub use self::cq::*;
pub use self::device::*;
pub use self::device_files::braid_device_files;
pub use self::memory::*;
pub use self::memory_attributes::{ibv_mr_init_attr, ibv_reg_mr_ex};
pub use self::names::*;
pub use self::op_table::{ibv_close_device, ibv_open_device};
pub use self::process_exit::_exit;
pub use self::qp::*;
pub use self::query::*;
pub use self::srq::*;
pub use self::unsupported::*;
pub use self::work_requests::ibv_qp_to_qp_ex;
