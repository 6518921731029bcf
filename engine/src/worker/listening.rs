//! The worker that listens: HELLOs and CONNECTs go to the responder, new requests to the listener.

use std::net::SocketAddr;
use std::sync::Arc;

use braid_keys::{Credentials, Denied};
use braid_transport::{AddrPair, AttemptId, Guesses, Reply, Responder};
use braid_wire::{Connect, Hello, QpId, Reject, RejectReason, SealedOffer, Setup, Time};

use super::exchange::{self, open_request};
use super::outbox::Outbox;
use crate::backlog::Backlog;
use crate::counters::WorkerCounters;
use crate::qp::{Asked, QpShared};
use crate::random;
use crate::security::Security;

/// What a worker answers to those who want to connect.
pub(crate) struct Listening {
    responder: Responder<Arc<QpShared>>,
    backlog: Option<Arc<Backlog>>,
    security: Option<Arc<Security>>,
    guesses: Guesses,
}

/// How many requests of one host are opened in vain in a second: some hundredths of a processor.
/// Without the key, one with a pre-shared key takes a few microseconds, one with static keys two
/// Diffie-Hellman operations.
fn refusals(credentials: &Credentials) -> u32 {
    match credentials {
        Credentials::Shared(_) => 4096,
        Credentials::Static(_) => 256,
    }
}

impl Listening {
    pub(crate) fn new(security: Option<Arc<Security>>) -> Self {
        let responder = Responder::new(random::bytes());
        let per_second = security.as_ref().map_or(1, |security| refusals(&security.credentials));
        let guesses = Guesses::new(random::bytes(), per_second);
        Listening { responder, backlog: None, security, guesses }
    }

    /// Begins to listen. False: somebody does already.
    pub(crate) fn listen(&mut self, backlog: Arc<Backlog>) -> bool {
        let free = self.backlog.is_none();
        if free {
            self.backlog = Some(backlog);
        }
        free
    }

    pub(crate) fn stop_listening(&mut self, now: Time) {
        if let Some(backlog) = self.backlog.take() {
            self.responder.forget_stale(now, &mut backlog.waiting());
        }
    }

    pub(crate) fn on_hello(&self, now: Time, from: AddrPair, hello: Hello, outbox: &mut Outbox) {
        let mut answer = self.responder.on_hello(now, from, hello, self.backlog.is_some());
        if let (Setup::Cookie { nonce, cookie, key_id, .. }, Some(security)) =
            (&mut answer, &self.security)
        {
            *key_id = exchange::key_id(security, *nonce, *cookie);
        }
        outbox.answer(from, &answer);
    }

    pub(crate) fn on_connect(
        &mut self,
        now: Time,
        from: AddrPair,
        connect: &Connect,
        outbox: &mut Outbox,
        counters: &WorkerCounters,
    ) {
        let nonce = connect.nonce;
        if self.security.as_ref().is_some_and(|security| security.required) {
            let reject = Reject { nonce, reason: RejectReason::KeyRequired };
            return self.reply(from, Reply::Rejected(reject), None, outbox, counters);
        }
        let backlog = self.backlog.as_deref();
        let wanted = |data: &[u8]| backlog.is_some_and(|backlog| backlog.wants(data));
        let mut waiting = backlog.map(Backlog::waiting);
        let waiting = waiting.as_deref_mut();
        let reply = self.responder.on_connect(now, from, connect, waiting, wanted);
        self.reply(from, reply, None, outbox, counters);
    }

    /// As [`Listening::on_connect`]. It is opened only once its cookie has proved where it comes
    /// from, and not while that host has been refused too often.
    pub(crate) fn on_sealed_connect(
        &mut self,
        now: Time,
        from: AddrPair,
        sealed: &SealedOffer,
        outbox: &mut Outbox,
        counters: &WorkerCounters,
    ) {
        let SealedOffer { nonce, cookie, .. } = *sealed;
        let backlog = self.backlog.as_deref();
        let mut waiting = backlog.map(Backlog::waiting);
        let attempt = AttemptId { from, nonce };
        let known = self.responder.on_repeated(now, attempt, cookie, waiting.as_deref_mut());
        let rejected = |reason| Reply::Rejected(Reject { nonce, reason });
        let mut denied = None;
        let reply = match (known, &self.security) {
            (Some(reply), _) => reply,
            (None, None) => rejected(RejectReason::NoKey),
            (None, Some(_)) if !self.guesses.allows(now, from.remote) => {
                rejected(RejectReason::Busy)
            }
            (None, Some(security)) => {
                let reply = match open_request(security, from, sealed) {
                    Err((reason, why)) => {
                        denied = why;
                        rejected(reason)
                    }
                    Ok(request) => {
                        let wanted = |data: &[u8]| backlog.is_some_and(|it| it.wants(data));
                        self.responder.on_new(now, request, waiting.as_deref_mut(), wanted)
                    }
                };
                // For whatever reason: it may come again as long as its cookie is good, from who
                // has only seen it.
                if matches!(reply, Reply::Rejected(_)) {
                    self.guesses.charge(now, from.remote);
                }
                reply
            }
        };
        drop(waiting);
        self.reply(from, reply, denied, outbox, counters);
    }

    fn reply(
        &self,
        from: AddrPair,
        reply: Reply<Arc<QpShared>>,
        denied: Option<Denied>,
        outbox: &mut Outbox,
        counters: &WorkerCounters,
    ) {
        match reply {
            Reply::Requested => self.backlog.iter().for_each(|backlog| backlog.tell()),
            Reply::Pending => {}
            Reply::Repeat(qp) => qp.ask(Asked::Repeat),
            Reply::Rejected(reject) => {
                match reject.reason {
                    RejectReason::Busy => counters.setup_busy.add(1),
                    reason if is_about_keys(reason) => {
                        tell_refused(counters, from.remote, reason, denied)
                    }
                    _ => counters.setup_refused.add(1),
                }
                outbox.answer(from, &Setup::Reject(reject));
            }
        }
    }

    /// A packet of a version that this build does not speak.
    pub(crate) fn on_other_version(&self, from: AddrPair, bytes: &[u8], outbox: &mut Outbox) {
        if let Some(answer) = self.responder.on_other_version(bytes) {
            outbox.answer(from, &answer);
        }
    }

    /// The application accepts with this queue pair, whose worker answers from now on.
    pub(crate) fn accepted(&mut self, attempt: AttemptId, qp: Arc<QpShared>) {
        self.responder.accepted(attempt, qp);
    }

    /// The application has refused, or has not even looked.
    pub(crate) fn turn_down(
        &mut self,
        now: Time,
        attempt: AttemptId,
        reason: RejectReason,
        outbox: &mut Outbox,
    ) {
        outbox.answer(attempt.from, &self.responder.turn_down(now, attempt, reason));
    }

    /// The queue pair that was accepted for this attempt is gone, or something else by now.
    pub(crate) fn forget(&mut self, now: Time, attempt: AttemptId, id: QpId) {
        self.responder.forget(now, attempt, |qp| qp.id == id);
    }
}

fn is_about_keys(reason: RejectReason) -> bool {
    use RejectReason::{
        Cipher, KeyForm, KeyRequired, NoKey, NotAllowed, UnknownListener, WrongKey,
    };
    let of_static_keys = matches!(reason, NotAllowed | UnknownListener | KeyForm);
    of_static_keys || matches!(reason, NoKey | KeyRequired | WrongKey | Cipher)
}

/// Says so here as the REJECT does there, and why if that says less; anybody can bring it about, so
/// not every time.
fn tell_refused(
    counters: &WorkerCounters,
    from: SocketAddr,
    reason: RejectReason,
    denied: Option<Denied>,
) {
    counters.setup_refused.add(1);
    let refused = counters.setup_refused.get();
    if refused.is_power_of_two() {
        let why = denied.map(|denied| denied.to_string());
        tracing::warn!(%from, ?reason, why, refused, "a connection was turned down for its key");
    }
}
