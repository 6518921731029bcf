//! The responder, where a driver listens.
//!
//! It keeps nothing of a HELLO, and answers a repeated CONNECT as it answered the first. Until a
//! cookie has proved that the initiator receives where it says, no answer is longer than the packet
//! that it answers, so nobody can use it to flood somebody else.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use braid_wire::{Connect, HELLO_LEN, Hello, Opcode, Reject, RejectReason, Setup, Time};

use super::{AttemptId, Backlog, CookieJar, Request};

/// Attempts that are over and remembered. Beyond that the oldest is forgotten earlier: its CONNECT, if it still comes,
/// is a new request then, and the ACCEPT that may follow is declined.
const REMEMBERED: usize = 1 << 14;

/// What it knows of attempts. `Q` is how the driver names a queue pair.
///
/// Invariant: `over` has each attempt of `known` that is `Answer::Over` once, in the order of time.
#[derive(Debug)]
pub struct Responder<Q> {
    jar: CookieJar,
    known: HashMap<AttemptId, Answer<Q>>,
    /// Since when they are over. They are forgotten when no cookie of that time is good any more: until then a CONNECT
    /// that comes late is not a new request.
    over: VecDeque<(Time, AttemptId)>,
}

#[derive(Debug)]
enum Answer<Q> {
    /// The application has it, or will have it.
    Pending,
    /// By this queue pair, whose driver sends the ACCEPT.
    Accepted(Q),
    /// No, or not any more.
    Over(RejectReason),
}

/// What is to be done about a CONNECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<Q> {
    /// A new request is in the backlog.
    Requested,
    /// Nothing: the application has it, or will have it.
    Pending,
    /// This queue pair was accepted for it, and says so again: [`super::Accepted::answer`].
    Repeat(Q),
    /// It is turned down.
    Rejected(Reject),
}

impl<Q: Clone> Responder<Q> {
    /// Cookies are made with this key, which has to be unpredictable.
    pub fn new(key: [u8; 16]) -> Self {
        Responder { jar: CookieJar::new(key), known: HashMap::new(), over: VecDeque::new() }
    }

    /// How many attempts it remembers: those that the application has or will have, those that were accepted and are
    /// connected, and those that are over, as long as cookies of theirs may be good.
    pub fn remembers(&mut self, now: Time) -> usize {
        self.forget_old(now);
        self.known.len()
    }

    /// The answer to a HELLO. The cookie is as long as that: it proves the way back too. A driver that has a static key adds which.
    pub fn on_hello(&self, now: Time, from: SocketAddr, hello: Hello, listens: bool) -> Setup {
        let Hello { nonce, len } = hello;
        if !listens {
            return Setup::Reject(Reject { nonce, reason: RejectReason::NotListening });
        }
        let cookie = self.jar.bake(now, &address_bytes(from), nonce);
        Setup::Cookie { nonce, cookie, key_id: 0, len }
    }

    /// A CONNECT has come. Without a `backlog` nobody listens; `wanted` says by the private data whether a new request is
    /// of interest.
    pub fn on_connect(
        &mut self,
        now: Time,
        from: SocketAddr,
        connect: &Connect,
        mut backlog: Option<&mut Backlog>,
        wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Reply<Q> {
        let attempt = AttemptId { from, nonce: connect.nonce };
        match self.on_repeated(now, attempt, connect.cookie, backlog.as_deref_mut()) {
            Some(reply) => reply,
            None => self.on_new(now, Request::new(from, connect.clone()), backlog, wanted),
        }
    }

    /// A CONNECT, or a sealed one, has come with this cookie. `None`: it has proved its address, and begins an attempt, see
    /// [`Responder::on_new`]. Otherwise what it asks for needs no look at what it offers.
    pub fn on_repeated(
        &mut self,
        now: Time,
        attempt: AttemptId,
        cookie: u64,
        mut backlog: Option<&mut Backlog>,
    ) -> Option<Reply<Q>> {
        let AttemptId { from, nonce } = attempt;
        let rejected = |reason| Some(Reply::Rejected(Reject { nonce, reason }));
        if !self.jar.verify(now, &address_bytes(from), nonce, cookie) {
            return rejected(RejectReason::Cookie);
        }
        if let Some(backlog) = backlog.as_deref_mut() {
            self.forget_stale(backlog);
        }
        self.forget_old(now);
        match (self.known.get(&attempt), backlog) {
            (Some(Answer::Accepted(qp)), _) => Some(Reply::Repeat(qp.clone())),
            (Some(Answer::Over(reason)), _) => rejected(*reason),
            (Some(Answer::Pending), backlog) => {
                backlog.into_iter().for_each(|backlog| backlog.repeated(now, attempt));
                Some(Reply::Pending)
            }
            (None, None) => rejected(RejectReason::NotListening),
            (None, Some(_)) => None,
        }
    }

    /// What [`Responder::on_repeated`] does not know.
    pub fn on_new(
        &mut self,
        now: Time,
        request: Request,
        backlog: Option<&mut Backlog>,
        wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Reply<Q> {
        let attempt = request.attempt();
        let rejected = |reason| Reply::Rejected(Reject { nonce: attempt.nonce, reason });
        let Some(backlog) = backlog else { return rejected(RejectReason::NotListening) };
        if !wanted(&request.connect.private_data) {
            return rejected(RejectReason::Refused);
        }
        if !backlog.push(now, request) {
            return rejected(RejectReason::Busy);
        }
        self.known.insert(attempt, Answer::Pending);
        Reply::Requested
    }

    /// A packet of a version that this build does not speak. If it looks like the start of a
    /// connection and is long enough, its sender is told; the places of opcode and nonce are the
    /// same in all versions.
    pub fn on_other_version(&self, bytes: &[u8]) -> Option<Setup> {
        let starts = [Opcode::Hello as u8, Opcode::Connect as u8];
        let nonce = bytes.get(16..24)?.try_into().ok()?;
        let reject = Reject { nonce: u64::from_be_bytes(nonce), reason: RejectReason::Version };
        (starts.contains(&bytes[0]) && bytes.len() >= HELLO_LEN).then_some(Setup::Reject(reject))
    }

    /// The application accepts with this queue pair, which answers from now on.
    pub fn accepted(&mut self, attempt: AttemptId, qp: Q) {
        self.known.insert(attempt, Answer::Accepted(qp));
    }

    /// The application has refused, or has not even looked. Returns what the initiator is to be told.
    pub fn turn_down(&mut self, now: Time, attempt: AttemptId, reason: RejectReason) -> Setup {
        self.end(now, attempt, reason);
        Setup::Reject(Reject { nonce: attempt.nonce, reason })
    }

    /// The queue pair that was accepted for this attempt is gone, or something else by now.
    pub fn forget(&mut self, now: Time, attempt: AttemptId, is_it: impl FnOnce(&Q) -> bool) {
        if matches!(self.known.get(&attempt), Some(Answer::Accepted(qp)) if is_it(qp)) {
            self.end(now, attempt, RejectReason::Refused);
        }
    }

    /// Forgets the requests that have gone stale in the backlog: nobody will answer them.
    pub fn forget_stale(&mut self, backlog: &mut Backlog) {
        for attempt in backlog.take_stale() {
            self.known.remove(&attempt);
        }
    }

    fn end(&mut self, now: Time, attempt: AttemptId, reason: RejectReason) {
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

    use super::super::backlog::tests::connect;
    use super::*;

    /// A responder that listens.
    struct Listening {
        responder: Responder<()>,
        backlog: Backlog,
    }

    impl Listening {
        fn new() -> Self {
            Listening { responder: Responder::new([7; 16]), backlog: Backlog::new(4) }
        }

        /// A CONNECT with a cookie baked at `baked` comes. Whether the application gets a request.
        fn asks_for_more(&mut self, baked: Time, now: Time, nonce: u64) -> bool {
            let from = SocketAddr::from(([10, 0, 0, 1], 4791));
            let cookie = self.responder.jar.bake(baked, &address_bytes(from), nonce);
            let (connect, backlog) = (connect(nonce, cookie), Some(&mut self.backlog));
            self.responder.on_connect(now, from, &connect, backlog, |_| true);
            self.backlog.pop(now).is_some()
        }

        fn turn_down(&mut self, now: Time, nonce: u64) {
            let attempt = AttemptId { from: SocketAddr::from(([10, 0, 0, 1], 4791)), nonce };
            self.responder.turn_down(now, attempt, RejectReason::Refused);
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
        assert_eq!(
            (it.responder.remembers(at(1)), it.responder.over.len()),
            (REMEMBERED, REMEMBERED)
        );
    }
}
