//! The responder's end of a connection: its ACCEPT, for as long as the initiator may request it
//! again.

use braid_wire::{Connect, Offer, Reject, RejectReason, Routing, SealedOffer, Setup};

use super::addresses::AttemptId;
use super::backlog::Request;

/// The ACCEPT of a queue pair, and the attempt that it answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    attempt: AttemptId,
    accept: Setup,
}

impl Accepted {
    /// Accepts a request with this offer. `private_data` has at most
    /// [`braid_wire::MAX_PRIVATE_DATA`] bytes, and `routing` at most
    /// [`braid_wire::MAX_ROUTING_LEN`].
    pub fn new(request: &Request, ours: Offer, private_data: Vec<u8>, routing: Routing) -> Self {
        let nonce = request.connect.nonce;
        let accept = Connect { nonce, cookie: 0, offer: ours, private_data, routing };
        Accepted { attempt: request.attempt(), accept: Setup::Accept(accept) }
    }

    /// Accepts a request with a message of a key exchange, which contains everything that
    /// [`Accepted::new`] takes.
    pub fn sealed(request: &Request, message: Vec<u8>) -> Self {
        let accept = SealedOffer { nonce: request.connect.nonce, cookie: 0, message };
        Accepted { attempt: request.attempt(), accept: Setup::SealedAccept(accept) }
    }

    /// The attempt that was accepted.
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// Returns the answer to the initiator, now and when its CONNECT is repeated. It leaves from
    /// the address at which the queue pair receives, so that the initiator learns where to send
    /// data. `receives`: whether the queue pair still receives. If not, the answer is a REJECT,
    /// because the initiator would connect to a queue pair that has ended.
    pub fn answer(&self, receives: bool) -> Setup {
        if receives {
            return self.accept.clone();
        }
        let (nonce, reason) = (self.attempt.nonce, RejectReason::Refused);
        Setup::Reject(Reject { nonce, reason })
    }
}
