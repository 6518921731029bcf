//! The papers' figures, measured again with the shipped protocol.
//!
//! A paper is a function from an [`Effort`] to a [`Study`]: figures with the spread over seeds, and for
//! each claim of the paper what was measured and whether it came out. One file per figure or group of
//! figures below the paper's module.

mod batch;
pub mod ofan;
mod plot;
pub mod pro;
mod study;
pub mod themis;
mod write;

pub use batch::{Effort, run_all};
pub use study::{Axis, Claim, Figure, Kind, Point, Series, Spread, Study, Verdict};
pub use write::{WriteError, print, write, write_json};

/// A paper that can be reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Runs it.
    pub study: fn(&Effort) -> Study,
}

/// All of them.
pub const PAPERS: &[Paper] = &[
    Paper { name: "ofan", study: ofan::study },
    Paper { name: "pro", study: pro::study },
    Paper { name: "themis", study: themis::study },
];
