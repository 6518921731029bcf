//! The state of a connection whose queue pair the program connects by itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::exchange::Protection;
use super::message::CmMessage;
use super::purpose::{ConnectionLimits, Purpose};
use crate::peer::Peer;

/// The properties of the queue pairs that both ends have named.
#[derive(Default)]
pub(super) struct WireUp(Mutex<Descriptions>);

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

    /// The queue pair of the other end, with the limits that this end has named or, if it has named
    /// none, those that suit the other end.
    pub(super) fn agreed(&self) -> Option<(Peer, ConnectionLimits)> {
        let descriptions = self.descriptions();
        let (peer, limits) = descriptions.peer.as_ref()?;
        let suits = ConnectionLimits {
            responder_resources: limits.initiator_depth,
            initiator_depth: limits.responder_resources,
            ..*limits
        };
        Some((*peer, descriptions.own.unwrap_or(suits)))
    }

    fn descriptions(&self) -> MutexGuard<'_, Descriptions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
