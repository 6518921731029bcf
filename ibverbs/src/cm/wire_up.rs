//! The queue pairs that both ends of a connection have named, with their limits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::exchange::Protection;
use super::message::CmMessage;
use super::purpose::{ConnectionLimits, Purpose};
use crate::peer::Peer;

/// The properties of the queue pairs that both ends have named.
#[derive(Default)]
pub(super) struct WireUp(Mutex<Descriptions>);

/// The terms of a connection.
pub(super) struct Terms {
    pub(super) peer: Peer,
    pub(super) own: ConnectionLimits,
    /// Limit of this end's retries after RNR NAKs. The other end has named it.
    pub(super) rnr_retry_count: u8,
}

#[derive(Default)]
struct Descriptions {
    own: Option<ConnectionLimits>,
    peer: Option<(Peer, ConnectionLimits)>,
    /// The message that this end is ready, until the program lets it leave.
    ready: Option<(Protection, CmMessage)>,
}

impl WireUp {
    /// This end asks or accepts with these limits.
    pub(super) fn set_own(&self, own: ConnectionLimits) {
        self.descriptions().own = Some(own);
    }

    /// The other end has asked or accepted with this message.
    pub(super) fn set_peer(&self, message: &CmMessage) {
        if let Purpose::Connection(limits) = message.purpose {
            self.descriptions().peer = Some((message.queue_pair, limits));
        }
    }

    /// Keeps `ready` until the program has connected its queue pair.
    pub(super) fn defer(&self, protection: Protection, ready: CmMessage) {
        self.descriptions().ready = Some((protection, ready));
    }

    /// Takes the deferred message.
    pub(super) fn take_ready(&self) -> Option<(Protection, CmMessage)> {
        self.descriptions().ready.take()
    }

    /// The terms of the connection, once the other end has named its own. If this end has named no
    /// limits, those that suit the other end.
    pub(super) fn agreed(&self) -> Option<Terms> {
        let descriptions = self.descriptions();
        let (peer, limits) = descriptions.peer.as_ref()?;
        let suits = ConnectionLimits {
            responder_resources: limits.initiator_depth,
            initiator_depth: limits.responder_resources,
            ..*limits
        };
        let own = descriptions.own.unwrap_or(suits);
        Some(Terms { peer: *peer, own, rnr_retry_count: limits.rnr_retry_count })
    }

    fn descriptions(&self) -> MutexGuard<'_, Descriptions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
