//! The key exchanges of connections during set-up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use braid_keys::{
    Binding, Credentials, Date, Denied, InitiatorHandshake as Handshake, KeyId, Listener, Session,
    Terms,
};
use braid_transport::{AddrPair, Request};
use braid_wire::{Connect, Offer, RejectReason, SealedOffer, Setup};

use crate::random;
use crate::security::Security;

/// The number of recent cookies whose answers an attempt accepts. A responder replaces a cookie
/// that has become too old, and may still answer a packet with the earlier one.
const COOKIES: usize = 4;

/// The key exchange of an attempt of this engine.
pub(crate) struct KeyExchange {
    security: Arc<Security>,
    /// The listeners of the latest cookies, the latest last.
    listeners: VecDeque<(Binding, KeyId)>,
    /// A handshake for each cookie, the latest last.
    handshakes: VecDeque<Handshake>,
    session: Option<Session>,
}

impl KeyExchange {
    pub(crate) fn new(security: Arc<Security>) -> Self {
        let (listeners, handshakes) = (VecDeque::new(), VecDeque::new());
        KeyExchange { security, listeners, handshakes, session: None }
    }

    /// Records a COOKIE, which names the key of its listener.
    pub(crate) fn on_cookie(&mut self, binding: Binding, key: KeyId) {
        // The first one counts. A later one with the listener's cookie is from another host.
        if self.listeners.iter().all(|(known, _)| *known != binding) {
            push_latest(&mut self.listeners, (binding, key));
        }
    }

    /// Builds a sealed CONNECT. Each repetition with the same cookie is identical.
    pub(crate) fn seal(&mut self, connect: &Connect) -> Setup {
        let Connect { nonce, cookie, .. } = *connect;
        let binding = Binding { nonce, cookie };
        let known = self.handshakes.iter().position(|handshake| handshake.binding() == binding);
        let at = known.unwrap_or_else(|| {
            let handshake = self.begin(binding, connect);
            push_latest(&mut self.handshakes, handshake);
            self.handshakes.len() - 1
        });
        let message = self.handshakes[at].message().to_vec();
        Setup::SealedConnect(SealedOffer { nonce, cookie, message })
    }

    fn begin(&self, binding: Binding, connect: &Connect) -> Handshake {
        let heard = self.listeners.iter().find(|(of, _)| *of == binding);
        let key = heard.map_or(KeyId::NONE, |(_, key)| *key);
        let listener = Listener { binding, key, today: Date::from(SystemTime::now()) };
        let (credentials, terms) = (&self.security.credentials, Terms::from(&*self.security));
        let offer = connect.encode_offer();
        let (handshake, denied) = credentials.initiate(listener, random::bytes(), terms, &offer);
        if let Some(why) = denied {
            tracing::warn!(%why, "the listener is not one that may be connected to");
        }
        handshake
    }

    /// Decrypts an ACCEPT. `None`: its sender does not have the key.
    pub(crate) fn open(&mut self, sealed: &SealedOffer) -> Option<Setup> {
        let of_attempt = |handshake: &&mut Handshake| handshake.binding().nonce == sealed.nonce;
        let mut handshakes = self.handshakes.iter_mut().filter(of_attempt);
        let answer = handshakes.find_map(|handshake| handshake.read(&sealed.message))?;
        let accept = Connect::decode_offer(sealed.nonce, 0, &answer.offer).ok()?;
        let to = (accept.offer.qp, accept.offer.token);
        self.session = Some(Session::new(answer.secrets, answer.agreed, to).with(answer.peer));
        Some(Setup::Accept(accept))
    }

    /// Takes the session that the exchange has produced.
    pub(crate) fn take_session(&mut self) -> Option<Session> {
        self.session.take()
    }
}

fn push_latest<T>(all: &mut VecDeque<T>, latest: T) {
    if all.len() == COOKIES {
        all.pop_front();
    }
    all.push_back(latest);
}

/// The id of the key that a COOKIE names. 0: none.
pub(super) fn key_id(security: &Security, nonce: u64, cookie: u64) -> u64 {
    security.credentials.key_id(Binding { nonce, cookie }).0
}

/// Decrypts a CONNECT.
///
/// # Errors
/// Returns the reason for the initiator and the reason for the log.
pub(super) fn open_request(
    security: &Security,
    from: AddrPair,
    sealed: &SealedOffer,
) -> Result<Request, (RejectReason, Option<Denied>)> {
    let binding = Binding { nonce: sealed.nonce, cookie: sealed.cookie };
    let credentials = &security.credentials;
    let asked =
        credentials.read(binding, Date::from(SystemTime::now()), random::bytes(), &sealed.message);
    let asked = asked.map_err(|why| (reason(credentials, &why), Some(why)))?;
    asked.settle(&Terms::from(security)).map_err(|_| (RejectReason::Cipher, None))?;
    let connect = Connect::decode_offer(sealed.nonce, sealed.cookie, asked.offer());
    let connect = connect.map_err(|_| (RejectReason::Refused, None))?;
    let peer = asked.peer();
    Ok(Request { from, connect, sealed_in: sealed.message.clone(), peer })
}

/// The reason for the initiator. It is the same for everything that must not reveal the list of
/// allowed keys.
fn reason(credentials: &Credentials, why: &Denied) -> RejectReason {
    match (why, credentials) {
        (Denied::Form, _) => RejectReason::KeyForm,
        (Denied::UnknownHere, _) => RejectReason::UnknownListener,
        (_, Credentials::Shared(_)) => RejectReason::WrongKey,
        (_, Credentials::Static(_)) => RejectReason::NotAllowed,
    }
}

/// Accepts a decrypted request. Returns the message of the ACCEPT.
///
/// # Panics
/// Panics if [`open_request`] did not decrypt the request with this configuration.
pub(super) fn accept(security: &Security, request: &Request, ours: &Connect) -> (Vec<u8>, Session) {
    let Request { connect, sealed_in, .. } = request;
    let binding = Binding { nonce: connect.nonce, cookie: connect.cookie };
    // The key was allowed on the day when the request came.
    let asked = security.credentials.read(binding, Date::FIRST, random::bytes(), sealed_in);
    let asked = asked.expect("it was opened when it came");
    let agreed = asked.settle(&Terms::from(security)).expect("it was settled when it came");
    let Offer { qp, token, .. } = connect.offer;
    let peer = asked.peer();
    let (message, secrets) = asked.answer(agreed, &ours.encode_offer());
    (message, Session::new(secrets, agreed, (qp, token)).with(peer))
}
