//! The key exchanges of connections that are being set up.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use braid_keys::{Asked, Asking as Handshake, Binding, Session};
use braid_transport::Request;
use braid_wire::{Connect, Offer, RejectReason, SealedOffer, Setup};

use crate::random;
use crate::security::Security;

/// Cookies for which an attempt can be answered, the latest. A responder gives another when the one before has become too old,
/// and may answer by then what was asked with that.
const COOKIES: usize = 4;

/// The exchange of an attempt of ours.
pub(crate) struct Exchange {
    security: Arc<Security>,
    /// One for each cookie, the latest last.
    handshakes: VecDeque<Handshake>,
    session: Option<Session>,
}

impl Exchange {
    pub(crate) fn new(security: Arc<Security>) -> Self {
        Exchange { security, handshakes: VecDeque::new(), session: None }
    }

    /// A CONNECT as it leaves: the same each time that it is repeated with the same cookie.
    pub(crate) fn seal(&mut self, connect: &Connect) -> Setup {
        let Connect { nonce, cookie, .. } = *connect;
        let binding = Binding { nonce, cookie };
        let known = self.handshakes.iter().position(|handshake| handshake.binding() == binding);
        let at = known.unwrap_or_else(|| {
            let (key, terms) = (&self.security.key, self.security.terms());
            let offer = connect.encode_offer();
            if self.handshakes.len() == COOKIES {
                self.handshakes.pop_front();
            }
            self.handshakes.push_back(Handshake::new(key, binding, random::bytes(), terms, &offer));
            self.handshakes.len() - 1
        });
        let message = self.handshakes[at].message().to_vec();
        Setup::SealedConnect(SealedOffer { nonce, cookie, message })
    }

    /// Opens an ACCEPT. `None`: it is nobody's who has the key.
    pub(crate) fn open(&mut self, sealed: &SealedOffer) -> Option<Setup> {
        let of_attempt = |handshake: &&mut Handshake| handshake.binding().nonce == sealed.nonce;
        let mut handshakes = self.handshakes.iter_mut().filter(of_attempt);
        let answer = handshakes.find_map(|handshake| handshake.read(&sealed.message))?;
        let accept = Connect::decode_offer(sealed.nonce, 0, &answer.offer).ok()?;
        let to = (accept.offer.qp, accept.offer.token);
        self.session = Some(Session::new(answer.secrets, answer.agreed, to));
        Some(Setup::Accept(accept))
    }

    /// What has come of it.
    pub(crate) fn take_session(&mut self) -> Option<Session> {
        self.session.take()
    }
}

/// Opens a CONNECT.
pub(super) fn open_request(
    security: &Security,
    from: SocketAddr,
    sealed: &SealedOffer,
) -> Result<Request, RejectReason> {
    let binding = Binding { nonce: sealed.nonce, cookie: sealed.cookie };
    let asked = Asked::read(&security.key, binding, random::bytes(), &sealed.message);
    let asked = asked.ok_or(RejectReason::WrongKey)?;
    asked.settle(&security.terms()).map_err(|_| RejectReason::Cipher)?;
    let connect = Connect::decode_offer(sealed.nonce, sealed.cookie, asked.offer());
    let connect = connect.map_err(|_| RejectReason::Refused)?;
    Ok(Request { from, connect, sealed_in: sealed.message.clone() })
}

/// Accepts such a request. Returns the message of the ACCEPT.
///
/// # Panics
/// If it was not opened with this by [`open_request`].
pub(super) fn accept(security: &Security, request: &Request, ours: &Connect) -> (Vec<u8>, Session) {
    let Request { connect, sealed_in, .. } = request;
    let binding = Binding { nonce: connect.nonce, cookie: connect.cookie };
    let asked = Asked::read(&security.key, binding, random::bytes(), sealed_in);
    let asked = asked.expect("it was opened when it came");
    let agreed = asked.settle(&security.terms()).expect("it was settled when it came");
    let Offer { qp, token, .. } = connect.offer;
    let (message, secrets) = asked.answer(agreed, &ours.encode_offer());
    (message, Session::new(secrets, agreed, (qp, token)))
}
