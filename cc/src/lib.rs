//! Congestion control: pure policies that limit the bytes in flight and the sending rate of a
//! subflow.
//!
//! A [`Controller`] processes acknowledgements and losses and returns a window and an optional
//! rate. Each controller has its own file and a row in the table of names, which [`CcConfig`]
//! parses. Other crates provide a [`ControllerFactory`]. The crate has no clock and no threads:
//! time is an argument.
#![forbid(unsafe_code)]

mod bandwidth;
mod base_rtt;
mod bbr;
mod config;
mod controller;
mod cubic;
mod cuts;
mod dcqcn;
mod fixed_rate;
mod fixed_window;
mod mcc;
mod mswift;
mod nscc;
mod parameters;
mod quantity;
mod rccc;
mod reaction_point;
mod row;
mod swift;
mod table;
mod timely;
mod undo;

pub use bbr::{Bbr, BbrConfig};
pub use braid_wire::{PathId, Time};
pub use config::CcConfig;
pub use controller::{
    AckSample, Chunk, Controller, ControllerFactory, CreditTerms, Loss, Metrics, RttSample,
    Spurious, Subflow,
};
pub use cubic::{Cubic, CubicConfig};
pub use dcqcn::{Dcqcn, DcqcnConfig};
pub use fixed_rate::FixedRate;
pub use fixed_window::FixedWindow;
pub use mcc::{Mcc, MccConfig};
pub use mswift::{MSwift, MSwiftConfig};
pub use nscc::{Nscc, NsccConfig};
pub use parameters::UnknownPolicy;
pub use rccc::{CreditDemand, CreditGrant, CreditPacer, CreditTurn, Rccc, RcccConfig};
pub use reaction_point::{ReactionPoint, ReactionPointConfig};
pub use swift::{Swift, SwiftConfig};
pub use table::{controller_examples, controller_names, parse_controllers};
pub use timely::{Timely, TimelyConfig};
