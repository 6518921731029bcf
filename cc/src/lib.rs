//! How much may be in flight, and how fast it may leave: pure policies, one controller per subflow of an
//! outgoing stream.
//!
//! A [`Controller`] is told what acknowledgements say and what is lost, and answers with a window and perhaps a rate. Each
//! has a file of its own and a row in one table, by which users name it ([`CcConfig`]); one from outside this crate comes
//! with its [`ControllerFactory`]. There is no clock and no thread here: time is an argument.
#![forbid(unsafe_code)]

mod base_rtt;
mod config;
mod controller;
mod cubic;
mod cuts;
mod dcqcn;
mod fixed_rate;
mod fixed_window;
mod mcc;
mod mswift;
mod parameters;
mod quantity;
mod swift;
mod table;
mod timely;
mod undo;

pub use braid_wire::{PathId, Time};
pub use config::CcConfig;
pub use controller::{
    AckSample, Chunk, Controller, ControllerFactory, Loss, Metrics, RttSample, Spurious, Subflow,
};
pub use cubic::{Cubic, CubicConfig};
pub use dcqcn::{Dcqcn, DcqcnConfig};
pub use fixed_rate::FixedRate;
pub use fixed_window::FixedWindow;
pub use mcc::{Mcc, MccConfig};
pub use mswift::{MSwift, MSwiftConfig};
pub use parameters::UnknownPolicy;
pub use swift::{Swift, SwiftConfig};
pub use table::{controller_examples, controller_names, parse_controllers};
pub use timely::{Timely, TimelyConfig};
