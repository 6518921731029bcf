//! The listening worker. HELLOs and CONNECTs go to the responder, and new requests to the listener.

use std::net::SocketAddr;
use std::sync::Arc;

use braid_keys::{Credentials, Denied};
use braid_transport::{AddrPair, AttemptId, Guesses, Reply, Responder};
use braid_wire::{Connect, Hello, QpId, Reject, RejectReason, SealedOffer, Setup, Time};

use super::exchange::{self, open_request};
use super::outbox::Outbox;
use crate::backlog::Backlog;
use crate::counters::WorkerCounters;
use crate::qp::{QpShared, WorkerRequest};
use crate::random;
use crate::security::Security;

/// The state of a worker that answers initiators.
pub(crate) struct ListenState {
    responder: Responder<Arc<QpShared>>,
    backlog: Option<Arc<Backlog>>,
    security: Option<Arc<Security>>,
    guesses: Guesses,
}

/// The number of requests of one host that may fail to decrypt per second, which costs a few
/// percent of a processor. Without the key, a request with a pre-shared key costs a few
/// microseconds, and one with static keys two Diffie-Hellman operations.
fn refusals(credentials: &Credentials) -> u32 {
    match credentials {
        Credentials::Shared(_) => 4096,
        Credentials::Static(_) => 256,
    }
}

impl ListenState {
    pub(crate) fn new(security: Option<Arc<Security>>) -> Self {
        let responder = Responder::new(random::bytes());
        let per_second = security.as_ref().map_or(1, |security| refusals(&security.credentials));
        let guesses = Guesses::new(random::bytes(), per_second);
        ListenState { responder, backlog: None, security, guesses }
    }

    /// Begins to listen. Returns `false` if the engine listens already.
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

    /// Handles a sealed CONNECT, see [`ListenState::on_connect`]. The CONNECT is decrypted only if
    /// its cookie proves its source and that host was not refused too often.
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
                // Counts every rejection. A host that has only seen the packet may repeat it as
                // long as its cookie is valid.
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
            Reply::Requested => self.backlog.iter().for_each(|backlog| backlog.announce()),
            Reply::Pending => {}
            Reply::Repeat(qp) => qp.request(WorkerRequest::Repeat),
            Reply::Rejected(reject) => {
                match reject.reason {
                    RejectReason::Busy => counters.setup_busy.add(1),
                    reason if is_about_keys(reason) => {
                        log_refusal(counters, from.remote, reason, denied)
                    }
                    _ => counters.setup_refused.add(1),
                }
                outbox.answer(from, &Setup::Reject(reject));
            }
        }
    }

    /// Answers a packet of a version that this build does not support.
    pub(crate) fn on_other_version(&self, from: AddrPair, bytes: &[u8], outbox: &mut Outbox) {
        if let Some(answer) = self.responder.on_other_version(bytes) {
            outbox.answer(from, &answer);
        }
    }

    /// Records that the application accepts with this queue pair, whose worker answers from now on.
    pub(crate) fn accepted(&mut self, attempt: AttemptId, qp: Arc<QpShared>) {
        self.responder.accepted(attempt, qp);
    }

    /// Rejects an attempt that the application has refused or not taken.
    pub(crate) fn turn_down(
        &mut self,
        now: Time,
        attempt: AttemptId,
        reason: RejectReason,
        outbox: &mut Outbox,
    ) {
        outbox.answer(attempt.from, &self.responder.turn_down(now, attempt, reason));
    }

    /// Forgets the queue pair that was accepted for this attempt and is gone or was reset.
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

/// Logs a refusal with its full reason, which the REJECT may not tell. Any host can cause refusals,
/// so the log is rate-limited.
fn log_refusal(
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
