//! NSCC, the network-signalled congestion control of Ultra Ethernet Transport 1.0 (section 3.6.13):
//! a window at the sender, moved by congestion marks and by the queueing delay.
//!
//! | | delay below the target | delay from the target on |
//! |---|---|---|
//! | no mark | proportional increase, fast increase if there is no delay | fair increase |
//! | mark | nothing: the load balancer leaves the path | multiplicative decrease |
//!
//! Besides, QuickAdapt sets the window to the bytes that a period has delivered, if packets were
//! trimmed or are very late. Each lost or trimmed packet takes its length from the window.
//!
//! Rules and constants are those of the Ultra Ethernet Consortium's simulator (htsim, `uec.cpp`);
//! the text of the specification was not at hand. They are defined for a network of 100 Gb/s and
//! 12 us, and scaled to others. The rate and the round trip of the network are parameters. Without
//! them, this crate measures both, and each constant of that case states this crate's choice.
//!
//! Not implemented: the window penalty of the receiver (`rcv_cwnd_pend`), because Braid's
//! acknowledgements do not carry it.

use crate::row::Row;
use crate::{Controller, ControllerFactory, Subflow};

mod config;
mod increase;
mod network;
mod quick_adapt;
mod state;

pub use config::NsccConfig;
pub use state::Nscc;

pub(crate) const ROW: Row = Row { name: config::NAME, example: config::NAME, parse: config::parse };

impl ControllerFactory for NsccConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(Nscc::new(*self, subflow))
    }
}

#[cfg(test)]
mod tests;
