//! The responder's end of a connection: its ACCEPT, for as long as the initiator may ask for it again.

use braid_wire::{Connect, Offer, Reject, RejectReason, Routing, SealedOffer, Setup};

use super::addresses::AttemptId;
use super::backlog::Request;

/// What a queue pair was accepted for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    attempt: AttemptId,
    accept: Setup,
}

impl Accepted {
    /// Takes a request with this offer. `private_data` is at most [`braid_wire::MAX_PRIVATE_DATA`] bytes, `routing`
    /// takes at most [`braid_wire::MAX_ROUTING_LEN`].
    pub fn new(request: &Request, ours: Offer, private_data: Vec<u8>, routing: Routing) -> Self {
        let nonce = request.connect.nonce;
        let accept = Connect { nonce, cookie: 0, offer: ours, private_data, routing };
        Accepted { attempt: request.attempt(), accept: Setup::Accept(accept) }
    }

    /// Takes a request by a message of a key exchange, in which all that stands that [`Accepted::new`] takes.
    pub fn sealed(request: &Request, message: Vec<u8>) -> Self {
        let accept = SealedOffer { nonce: request.connect.nonce, cookie: 0, message };
        Accepted { attempt: request.attempt(), accept: Setup::SealedAccept(accept) }
    }

    /// Which attempt it was.
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// What the initiator is told, now and when its CONNECT comes again, from where the queue pair receives: that is how
    /// the initiator learns where its data is to go. One that hears of its connection when that has ended
    /// would connect to nobody, so it is refused if the queue pair does not receive any more.
    pub fn answer(&self, receives: bool) -> Setup {
        if receives {
            return self.accept.clone();
        }
        let (nonce, reason) = (self.attempt.nonce, RejectReason::Refused);
        Setup::Reject(Reject { nonce, reason })
    }
}
