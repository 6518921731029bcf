//! Studies: the figures of papers, measured with the shipped protocol.
//!
//! A paper is a list of experiments that turn an [`Effort`] into a [`Study`]. A study has figures
//! with the spread over seeds, and the measurement and the verdict of each claim of the paper. Each
//! figure or group of figures has a file in the paper's module.
#![forbid(unsafe_code)]

mod batch;
mod experiment;
mod mcc;
mod ofan;
mod page;
mod papers;
mod pro;
mod rails;
mod runs;
mod shipped;
mod study;
mod themis;
mod write;

pub use batch::{Effort, run_all};
pub use braid_lab::charts::{Axis, Figure, Kind, Point, Series, Spread};
pub use experiment::Experiment;
pub use page::{Page, PageDifference, PageDifferences, PageError};
pub use papers::{PAPERS, Paper, UnknownExperiment, paper};
pub use shipped::Table;
pub use study::{Claim, Origin, Study, Verdict};
pub use write::{WriteError, tables_text, text, write, write_shipped};
