//! The log of Braid: its filter and its receiver, for `braid-perf`, `braid-sim`, the C library, the
//! drop-in and the plugins of NCCL and NIXL. The crates that log events use only `tracing`.
//! `docs/logs.md` lists the events.
#![forbid(unsafe_code)]

mod filter;
mod record;
mod sink;
mod stderr;

pub use filter::{CRATES, Filter, FilterError, VARIABLE};
pub use record::Record;
pub use sink::{Taken, show, silence};
pub use stderr::{from_environment, to_stderr};
