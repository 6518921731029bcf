//! The C API: `braid.h`, `libbraid.so` and `libbraid.a`, which `cargo xtask install` builds.
//!
//! Every type and function has its C name, and its comment here is its comment in `braid.h`.
//! `docs/c-api.md` explains their use.
//!
//! # The caller's promise
//!
//! A pointer that is not NULL points to as many elements as its description states, for the
//! duration of the call. The SAFETY comments rely only on that promise. Lengths, numbers, strings
//! and handles are checked. The library reads and writes memory of C by unaligned copies and
//! borrows only byte slices.
#![allow(non_camel_case_types, reason = "the names are those of braid.h")]
#![allow(clippy::missing_safety_doc, reason = "the caller's promise above applies to all of them")]

mod address;
mod answer;
mod arguments;
mod failure;
mod growing;
mod handle;

// From here on, the modules have the order of braid.h.

mod version;

mod error;

mod boundary;

mod log;

mod fabric;

mod engine_config;

mod engine;

mod pd;

mod mr;
mod remote;

mod cq;

mod qp_options;

mod qp;

mod connecting;

mod roce;

mod roce_datagram;
mod roce_ud;

mod listener;

mod wr;

mod post;
mod wc;

mod qp_error;

mod event;

mod group;

mod names;
mod ooo;
mod paths;

mod degradation;

mod metrics;

mod discovery;

pub use address::BRAID_ADDR_LEN;
pub use boundary::braid_last_error;
pub use connecting::*;
pub use cq::*;
pub use degradation::*;
pub use discovery::*;
pub use engine::*;
pub use engine_config::*;
pub use error::*;
pub use event::*;
pub use fabric::*;
pub use group::*;
pub use listener::*;
pub use log::*;
pub use metrics::*;
pub use mr::*;
pub use names::*;
pub use ooo::*;
pub use paths::*;
pub use pd::*;
pub use post::*;
pub use qp::*;
pub use qp_error::*;
pub use qp_options::*;
pub use remote::*;
pub use roce::*;
pub use roce_datagram::*;
pub use roce_ud::*;
pub use version::*;
pub use wc::*;
pub use wr::*;
