//! Which events of Braid's log are shown, and to whom: what `braid-perf`, `braid-sim`, the C library and the NCCL plugin
//! have in common. The crates that log only use `tracing`; docs/logs.md lists what they say.
#![forbid(unsafe_code)]

mod filter;
mod record;
mod sink;
mod stderr;

pub use filter::{CRATES, Filter, FilterError, VARIABLE};
pub use record::Record;
pub use sink::{Taken, show, silence};
pub use stderr::{from_environment, to_stderr};
