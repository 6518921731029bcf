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
    pub(super) fn say(&self, own: ConnectionLimits) {
        self.said().own = Some(own);
    }

    /// The other end has asked or accepted with this message.
    pub(super) fn hear(&self, message: &CmMessage) {
        if let Purpose::Connection(limits) = message.purpose {
            self.said().peer = Some((message.queue_pair, limits));
        }
    }

    /// Keeps `ready` until the program has connected its queue pair.
    pub(super) fn defer(&self, speech: Protection, ready: CmMessage) {
        self.said().ready = Some((speech, ready));
    }

    /// Takes the deferred message.
    pub(super) fn take_ready(&self) -> Option<(Protection, CmMessage)> {
        self.said().ready.take()
    }

    /// The queue pair of the other end, with the limits that this end has named or, if it has named
    /// none, those that suit the other end.
    pub(super) fn agreed(&self) -> Option<(Peer, ConnectionLimits)> {
        let said = self.said();
        let (peer, limits) = said.peer.as_ref()?;
        let suits = ConnectionLimits {
            responder_resources: limits.initiator_depth,
            initiator_depth: limits.responder_resources,
            ..*limits
        };
        Some((*peer, said.own.unwrap_or(suits)))
    }

    fn said(&self) -> MutexGuard<'_, Descriptions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
