//! Who sends how much to whom in an all-to-all: the traffic matrices of RailS, for what measures and what simulates.
#![forbid(unsafe_code)]

mod phase;
mod workload;

pub use phase::Phase;
pub use workload::{Workload, ZIPF, busiest};
