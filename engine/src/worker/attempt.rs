//! The worker's part of an attempt to connect.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use braid_transport::{Carrier, Initiators, QpState};
use braid_wire::QpId;

use super::exchange::KeyExchange;
use super::qps::QpEntry;
use super::reachability::Reachability;
use crate::connect::{ConnectError, Outcome};
use crate::datapath::CarrierTrouble;

/// The worker's data for an attempt.
pub(crate) struct AttemptState {
    /// The reachability of each address of the responder by carrier, until one has answered.
    pub(crate) reach: HashMap<(SocketAddr, Carrier), Reachability>,
    /// The trouble with the first carrier.
    pub(crate) trouble: CarrierTrouble,
    /// The number of the attempt, which identifies it for cancellation.
    pub(crate) number: u64,
    /// The outcome that the application waits for.
    pub(crate) outcome: Arc<Outcome>,
    /// The key exchange, if the connection is to be keyed.
    pub(crate) exchange: Option<KeyExchange>,
}

/// Ends the attempt of a queue pair that was reset, disconnected or moved to ERR.
pub(super) fn abandon(initiators: &mut Initiators<AttemptState>, qp: QpId) {
    if let Some(attempt) = initiators.cancel(qp) {
        attempt.driver.outcome.set(Err(ConnectError::Cancelled { addr: attempt.asked }));
    }
}

impl QpEntry {
    /// Ends the attempt of a queue pair that has left INIT.
    pub(super) fn check_attempt(&self, initiators: &mut Initiators<AttemptState>) {
        if self.shared.state() != QpState::Init {
            abandon(initiators, self.shared.id);
        }
    }
}
