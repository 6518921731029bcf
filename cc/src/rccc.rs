//! RCCC, the receiver-credit congestion control of Ultra Ethernet Transport 1.0: the receiver
//! grants its senders credit, in turn and at the rate of its link.
//!
//! The parts:
//!
//! - [`Rccc`], the controller of the sender: a window of 1.5 bandwidth-delay products, and the
//!   terms of the credit.
//! - The account of each stream, which is the protocol's (`braid-transport`): it counts what was
//!   sent and granted, tells the receiver the backlog, and repeats that if no grant comes.
//! - [`CreditPacer`], one for each link of the receiver, which serves senders round robin.
//!
//! The text of the specification was not at hand. Terms and constants are those of the Ultra
//! Ethernet Consortium's simulator (htsim, `UecPullPacer`), for example grants of four packets.

use crate::row::Row;
use crate::{Controller, ControllerFactory, Subflow};

mod config;
mod pacer;
mod state;

pub use config::RcccConfig;
pub use pacer::{CreditDemand, CreditGrant, CreditPacer, CreditTurn};
pub use state::Rccc;

pub(crate) const ROW: Row =
    Row { name: config::NAME, example: "rccc:line=100G", parse: config::parse };

impl ControllerFactory for RcccConfig {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(Rccc::new(*self, subflow))
    }

    fn needs_credit(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
