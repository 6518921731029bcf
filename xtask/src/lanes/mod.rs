//! Lanes of steps that run beside each other, and the summary of what they found.

mod lane;
mod step;
mod summary;

pub(crate) use lane::{Lane, Ran, run_lanes};
pub(crate) use step::Step;
pub(crate) use summary::{LeftOut, end};
