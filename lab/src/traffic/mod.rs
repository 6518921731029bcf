//! Traffic matrices of all-to-alls (RailS), for measurements and simulations.

mod phase;
mod workload;

pub use phase::Phase;
pub use workload::{Workload, ZIPF, busiest};
