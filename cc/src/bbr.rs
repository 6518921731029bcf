//! BBR, version 3 (draft-ietf-ccwg-bbr-06): for long paths, shallow queues and random losses.
//!
//! The controller models the path by its bandwidth and its shortest round trip, and sends at that
//! bandwidth. A loss alone changes little: only a loss rate above a threshold bounds the bytes in
//! flight. The controller cycles through phases that send faster, slower and as fast as the network
//! delivers, and measures the shortest round trip every five seconds.
//!
//! Section numbers in this folder are those of the draft. Each deviation is described where it is
//! implemented:
//!
//! - `bbr/delivery.rs`: acknowledgements are recorded instead of packets.
//! - `bbr/loss_floor.rs`: the loss rate of a path that loses packets at random is subtracted.
//! - `bbr/state.rs`: marks count as losses, and time-outs are answered as in this crate's CUBIC.

use crate::row::Row;
use crate::{Controller, ControllerFactory, Subflow};

mod config;
mod control;
mod cycle;
mod delivery;
mod full_pipe;
mod loss_floor;
mod model;
mod rounds;
mod state;

pub use config::BbrConfig;
pub use state::Bbr;

pub(crate) const ROW: Row = Row { name: config::NAME, example: config::NAME, parse: config::parse };

impl ControllerFactory for BbrConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(Bbr::new(*self, subflow))
    }
}

#[cfg(test)]
mod tests;
