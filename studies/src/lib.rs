//! Studies: the figures of papers, measured with the shipped protocol.
//!
//! A paper is a function from an [`Effort`] to a [`Study`]: figures with the spread over seeds, and
//! for each claim of the paper the measurement and the verdict. Each figure or group of figures has
//! a file in the paper's module.
#![forbid(unsafe_code)]

mod batch;
pub mod mcc;
pub mod ofan;
mod papers;
pub mod pro;
pub mod rails;
mod runs;
mod shipped;
mod study;
pub mod themis;
mod write;

pub use batch::{Effort, run_all};
pub use braid_lab::charts::{Axis, Figure, Kind, Point, Series, Spread};
pub use papers::{PAPERS, Paper};
pub use shipped::Table;
pub use study::{Claim, Study, Verdict};
pub use write::{WriteError, tables_text, text, write, write_shipped};
