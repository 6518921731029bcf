//! The responder's end of a connection: its ACCEPT, for as long as the initiator may ask for it
//! again.

use braid_wire::{Connect, Offer, Reject, RejectReason, Routing, SealedOffer, Setup};

use super::addresses::AttemptId;
use super::backlog::Request;

/// The attempt that a queue pair was accepted for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    attempt: AttemptId,
    accept: Setup,
}

impl Accepted {
    /// Accepts a request with this offer. `private_data` is at most
    /// [`braid_wire::MAX_PRIVATE_DATA`] bytes, `routing` takes at most
    /// [`braid_wire::MAX_ROUTING_LEN`].
    pub fn new(request: &Request, ours: Offer, private_data: Vec<u8>, routing: Routing) -> Self {
        let nonce = request.connect.nonce;
        let accept = Connect { nonce, cookie: 0, offer: ours, private_data, routing };
        Accepted { attempt: request.attempt(), accept: Setup::Accept(accept) }
    }

    /// Accepts a request by a message of a key exchange, which contains all that [`Accepted::new`]
    /// takes.
    pub fn sealed(request: &Request, message: Vec<u8>) -> Self {
        let accept = SealedOffer { nonce: request.connect.nonce, cookie: 0, message };
        Accepted { attempt: request.attempt(), accept: Setup::SealedAccept(accept) }
    }

    /// Which attempt it was.
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// The answer to the initiator, now and when its CONNECT comes again. It leaves from where the
    /// queue pair receives, so that the initiator learns where its data is to go. An initiator that
    /// hears of its connection when that has ended would connect to nobody, so it is refused if the
    /// queue pair does not receive any more.
    pub fn answer(&self, receives: bool) -> Setup {
        if receives {
            return self.accept.clone();
        }
        let (nonce, reason) = (self.attempt.nonce, RejectReason::Refused);
        Setup::Reject(Reject { nonce, reason })
    }
}
