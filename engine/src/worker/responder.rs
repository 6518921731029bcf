//! The responding side of connection set-up, at the worker that listens.
//!
//! It keeps nothing of a HELLO, and answers a repeated CONNECT as it answered the first. Until a
//! cookie has proved that the initiator receives where it says, no answer is longer than the packet
//! that it answers, so nobody can use this port to flood somebody else.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use braid_transport::CookieJar;
use braid_wire::{Connect, HELLO_LEN, Hello, Opcode, QpId, Reject, RejectReason, Setup, Time};

use super::outbox::Outbox;
use crate::backlog::{Backlog, Incoming};
use crate::counters::WorkerCounters;
use crate::qp::{Asked, QpShared};
use crate::random;

/// Attempts that are over and remembered. Beyond that the oldest is forgotten earlier: its CONNECT, if it still comes,
/// is a new request then, and the ACCEPT that may follow is declined.
const REMEMBERED: usize = 1 << 14;

/// A connection attempt: where it came from, and its nonce.
pub(crate) type Attempt = (SocketAddr, u64);

/// Invariant: `over` has each attempt of `known` that is [`Answer::Over`] once, in the order of time.
pub(crate) struct Responder {
    jar: CookieJar,
    backlog: Option<Arc<Backlog>>,
    known: HashMap<Attempt, Answer>,
    /// Since when they are over. They are forgotten when no cookie of that time is good any more: until then a CONNECT
    /// that comes late is not a new request.
    over: VecDeque<(Time, Attempt)>,
}

enum Answer {
    /// The application has it, or will have it.
    Pending,
    /// By this queue pair, whose worker sends the ACCEPT.
    Accepted(Arc<QpShared>),
    /// No, or not any more.
    Over(RejectReason),
}

impl Responder {
    pub(crate) fn new() -> Self {
        Responder {
            jar: CookieJar::new(random::bytes()),
            backlog: None,
            known: HashMap::new(),
            over: VecDeque::new(),
        }
    }

    /// Begins to listen. False: somebody does already.
    pub(crate) fn listen(&mut self, backlog: Arc<Backlog>) -> bool {
        let free = self.backlog.is_none();
        if free {
            self.backlog = Some(backlog);
        }
        free
    }

    pub(crate) fn stop_listening(&mut self) {
        self.forget_stale();
        self.backlog = None;
    }

    /// The cookie is as long as the HELLO: it proves the way back too.
    pub(crate) fn on_hello(&self, now: Time, from: SocketAddr, hello: Hello, outbox: &mut Outbox) {
        let Hello { nonce, len } = hello;
        if self.backlog.is_none() {
            return reject(outbox, from, nonce, RejectReason::NotListening);
        }
        let cookie = self.jar.bake(now, &address_bytes(from), nonce);
        reply(outbox, from, &Setup::Cookie { nonce, cookie, len });
    }

    pub(crate) fn on_connect(
        &mut self,
        now: Time,
        from: SocketAddr,
        connect: &Connect,
        outbox: &mut Outbox,
        counters: &WorkerCounters,
    ) {
        let proof = (address_bytes(from), connect.nonce, connect.cookie);
        let refused = if self.jar.verify(now, &proof.0, proof.1, proof.2) {
            self.forget_stale();
            self.forget_old(now);
            self.answer(now, from, connect)
        } else {
            Some(RejectReason::Cookie)
        };
        let Some(reason) = refused else { return };
        match reason {
            RejectReason::Busy => counters.setup_busy.add(1),
            _ => counters.setup_refused.add(1),
        }
        reject(outbox, from, connect.nonce, reason);
    }

    /// A CONNECT whose sender receives where it says. Returns why it is turned down, if so.
    fn answer(&mut self, now: Time, from: SocketAddr, connect: &Connect) -> Option<RejectReason> {
        let attempt = (from, connect.nonce);
        match (self.known.get(&attempt), &self.backlog) {
            (Some(Answer::Accepted(qp)), _) => qp.ask(Asked::Repeat),
            (Some(Answer::Over(reason)), _) => return Some(*reason),
            (Some(Answer::Pending), backlog) => {
                backlog.iter().for_each(|backlog| backlog.repeated(now, &attempt));
            }
            (None, None) => return Some(RejectReason::NotListening),
            (None, Some(backlog)) if !backlog.wants(&connect.private_data) => {
                return Some(RejectReason::Refused);
            }
            (None, Some(backlog)) => {
                if !backlog.push(now, Incoming { from, connect: connect.clone() }) {
                    return Some(RejectReason::Busy);
                }
                self.known.insert(attempt, Answer::Pending);
            }
        }
        None
    }

    /// A packet of a version that this build does not speak. If it looks like the start of a
    /// connection and is long enough, its sender is told; the places of opcode and nonce are the
    /// same in all versions.
    pub(crate) fn on_other_version(&self, from: SocketAddr, bytes: &[u8], outbox: &mut Outbox) {
        let starts = [Opcode::Hello as u8, Opcode::Connect as u8].contains(&bytes[0]);
        let nonce = bytes.get(16..24).and_then(|nonce| nonce.try_into().ok());
        if let (true, Some(nonce)) = (starts && bytes.len() >= HELLO_LEN, nonce) {
            reject(outbox, from, u64::from_be_bytes(nonce), RejectReason::Version);
        }
    }

    /// The application accepts with this queue pair, whose worker answers from now on.
    pub(crate) fn accepted(&mut self, attempt: Attempt, qp: Arc<QpShared>) {
        self.known.insert(attempt, Answer::Accepted(qp));
    }

    /// The application has refused, or has not even looked.
    pub(crate) fn turn_down(
        &mut self,
        now: Time,
        attempt: Attempt,
        reason: RejectReason,
        outbox: &mut Outbox,
    ) {
        self.end(now, attempt, reason);
        reject(outbox, attempt.0, attempt.1, reason);
    }

    /// The queue pair that was accepted for this attempt is gone, or something else by now.
    pub(crate) fn forget(&mut self, now: Time, attempt: Attempt, id: QpId) {
        if matches!(self.known.get(&attempt), Some(Answer::Accepted(qp)) if qp.id == id) {
            self.end(now, attempt, RejectReason::Refused);
        }
    }

    fn end(&mut self, now: Time, attempt: Attempt, reason: RejectReason) {
        if self.over.len() == REMEMBERED
            && let Some((_, oldest)) = self.over.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(attempt, Answer::Over(reason));
        self.over.push_back((now, attempt));
    }

    fn forget_old(&mut self, now: Time) {
        let is_old = |since: Time| now.saturating_since(since) > CookieJar::LONGEST;
        while let Some((_, attempt)) = self.over.front().filter(|(since, _)| is_old(*since)) {
            self.known.remove(attempt);
            self.over.pop_front();
        }
    }

    fn forget_stale(&mut self) {
        let stale = self.backlog.iter().flat_map(|backlog| backlog.take_stale());
        stale.for_each(|attempt| {
            self.known.remove(&attempt);
        });
    }
}

/// Turns down what came from `to` with this nonce.
pub(super) fn reject(outbox: &mut Outbox, to: SocketAddr, nonce: u64, reason: RejectReason) {
    reply(outbox, to, &Setup::Reject(Reject { nonce, reason }));
}

fn reply(outbox: &mut Outbox, to: SocketAddr, setup: &Setup) {
    let mut bytes = Vec::with_capacity(HELLO_LEN);
    setup.encode(&mut bytes);
    outbox.send(to, &bytes);
}

/// What a cookie vouches for.
fn address_bytes(addr: SocketAddr) -> [u8; 22] {
    let (ip, scope) = match addr {
        SocketAddr::V4(addr) => (addr.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(addr) => (*addr.ip(), addr.scope_id()),
    };
    let mut bytes = [0; 22];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..18].copy_from_slice(&addr.port().to_be_bytes());
    bytes[18..].copy_from_slice(&scope.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backlog::tests::connect;

    /// A responder that listens, and what it needs.
    struct Listening {
        responder: Responder,
        backlog: Arc<Backlog>,
        outbox: Outbox,
        counters: Arc<WorkerCounters>,
    }

    impl Listening {
        fn new() -> Self {
            let (backlog, counters) =
                (Arc::new(Backlog::new(4, Box::new(|_| true))), Arc::default());
            let mut responder = Responder::new();
            assert!(responder.listen(Arc::clone(&backlog)));
            Listening { responder, backlog, outbox: Outbox::default(), counters }
        }

        /// A CONNECT with a cookie baked at `baked` comes. Whether the application gets a request.
        fn asks_for_more(&mut self, baked: Time, now: Time, nonce: u64) -> bool {
            let from = SocketAddr::from(([10, 0, 0, 1], 4791));
            let cookie = self.responder.jar.bake(baked, &address_bytes(from), nonce);
            let connect = connect(nonce, cookie);
            self.responder.on_connect(now, from, &connect, &mut self.outbox, &self.counters);
            self.backlog.pop(now).is_some()
        }

        fn turn_down(&mut self, now: Time, nonce: u64) {
            let attempt = (SocketAddr::from(([10, 0, 0, 1], 4791)), nonce);
            self.responder.turn_down(now, attempt, RejectReason::Refused, &mut self.outbox);
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn what_is_over_is_remembered_as_long_as_its_cookies_are_good() {
        let mut it = Listening::new();
        assert!(it.asks_for_more(at(7_900), at(7_900), 1));
        it.turn_down(at(8_000), 1);
        for ms in (8_000..40_000).step_by(100) {
            assert!(!it.asks_for_more(at(7_900), at(ms), 1), "at {ms} ms");
        }
        assert!(it.asks_for_more(at(40_000), at(40_000), 2));
        assert_eq!((it.responder.known.len(), it.responder.over.len()), (1, 0), "only the new one");
    }

    #[test]
    fn what_it_remembers_is_bounded() {
        let mut it = Listening::new();
        for nonce in 0..REMEMBERED as u64 + 100 {
            assert!(it.asks_for_more(at(0), at(1), nonce));
            it.turn_down(at(1), nonce);
        }
        assert_eq!((it.responder.known.len(), it.responder.over.len()), (REMEMBERED, REMEMBERED));
    }
}
