//! The key exchanges of connections that are being set up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use braid_keys::{
    Asking as Handshake, Binding, Credentials, Date, Denied, KeyId, Listener, Session, Terms,
};
use braid_transport::{AddrPair, Request};
use braid_wire::{Connect, Offer, RejectReason, SealedOffer, Setup};

use crate::random;
use crate::security::Security;

/// Cookies for which an attempt can be answered, the latest. A responder gives another when the one
/// before has become too old, and may answer by then what was asked with that.
const COOKIES: usize = 4;

/// The exchange of an attempt of ours.
pub(crate) struct Exchange {
    security: Arc<Security>,
    /// What came with the latest cookies, the latest last.
    listeners: VecDeque<(Binding, KeyId)>,
    /// One for each cookie, the latest last.
    handshakes: VecDeque<Handshake>,
    session: Option<Session>,
}

impl Exchange {
    pub(crate) fn new(security: Arc<Security>) -> Self {
        let (listeners, handshakes) = (VecDeque::new(), VecDeque::new());
        Exchange { security, listeners, handshakes, session: None }
    }

    /// A COOKIE has come, which says that its listener has this key.
    pub(crate) fn hear(&mut self, binding: Binding, key: KeyId) {
        // The first counts: who answers later than the listener, with its cookie, is somebody else.
        if self.listeners.iter().all(|(known, _)| *known != binding) {
            push_latest(&mut self.listeners, (binding, key));
        }
    }

    /// A CONNECT as it leaves: the same each time that it is repeated with the same cookie.
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
        let (handshake, denied) = credentials.ask(listener, random::bytes(), terms, &offer);
        if let Some(why) = denied {
            tracing::warn!(%why, "the listener is not one that may be connected to");
        }
        handshake
    }

    /// Opens an ACCEPT. `None`: it is nobody's who has the key.
    pub(crate) fn open(&mut self, sealed: &SealedOffer) -> Option<Setup> {
        let of_attempt = |handshake: &&mut Handshake| handshake.binding().nonce == sealed.nonce;
        let mut handshakes = self.handshakes.iter_mut().filter(of_attempt);
        let answer = handshakes.find_map(|handshake| handshake.read(&sealed.message))?;
        let accept = Connect::decode_offer(sealed.nonce, 0, &answer.offer).ok()?;
        let to = (accept.offer.qp, accept.offer.token);
        self.session = Some(Session::new(answer.secrets, answer.agreed, to).with(answer.peer));
        Some(Setup::Accept(accept))
    }

    /// What has come of it.
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

/// Which key a COOKIE says to be of; 0: of none.
pub(super) fn key_id(security: &Security, nonce: u64, cookie: u64) -> u64 {
    security.credentials.key_id(Binding { nonce, cookie }).0
}

/// Opens a CONNECT.
///
/// # Errors
/// What the initiator is told, and what is said here.
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

/// One and the same for all that an initiator may not learn about the list of allowed keys.
fn reason(credentials: &Credentials, why: &Denied) -> RejectReason {
    match (why, credentials) {
        (Denied::Form, _) => RejectReason::KeyForm,
        (Denied::UnknownHere, _) => RejectReason::UnknownListener,
        (_, Credentials::Shared(_)) => RejectReason::WrongKey,
        (_, Credentials::Static(_)) => RejectReason::NotAllowed,
    }
}

/// Accepts such a request. Returns the message of the ACCEPT.
///
/// # Panics
/// If it was not opened with this by [`open_request`].
pub(super) fn accept(security: &Security, request: &Request, ours: &Connect) -> (Vec<u8>, Session) {
    let Request { connect, sealed_in, .. } = request;
    let binding = Binding { nonce: connect.nonce, cookie: connect.cookie };
    // Its key was allowed on the day when it came.
    let asked = security.credentials.read(binding, Date::FIRST, random::bytes(), sealed_in);
    let asked = asked.expect("it was opened when it came");
    let agreed = asked.settle(&Terms::from(security)).expect("it was settled when it came");
    let Offer { qp, token, .. } = connect.offer;
    let peer = asked.peer();
    let (message, secrets) = asked.answer(agreed, &ours.encode_offer());
    (message, Session::new(secrets, agreed, (qp, token)).with(peer))
}
