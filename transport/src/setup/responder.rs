//! The responder, for a driver that listens.
//!
//! The responder keeps no state for a HELLO, and answers a repeated CONNECT like the first. Until a
//! cookie has proved the initiator's address, no answer is longer than the packet that it answers.
//! So the responder cannot be used for amplification attacks.

use std::net::SocketAddr;

use braid_wire::{Connect, HELLO_LEN, Hello, Opcode, Reject, RejectReason, Setup, Time};

use super::addresses::{AddrPair, AttemptId};
use super::attempts::{AttemptState, Attempts};
use super::backlog::{Backlog, Request};
use super::cookie::CookieJar;

/// A responder with its attempts. `Q` identifies a queue pair for the driver.
#[derive(Debug)]
pub struct Responder<Q> {
    jar: CookieJar,
    attempts: Attempts<Q>,
}

/// Reply to a CONNECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<Q> {
    /// No reply: a new request is in the backlog.
    Requested,
    /// No reply: the request is in the backlog, or the application has taken it.
    Pending,
    /// This queue pair has accepted the attempt and answers again: [`super::Accepted::answer`].
    Repeat(Q),
    /// The attempt is rejected.
    Rejected(Reject),
}

impl<Q: Clone> Responder<Q> {
    /// Creates a responder. `key`: the key of its cookies, which has to be unpredictable.
    pub fn new(key: [u8; 16]) -> Self {
        Responder { jar: CookieJar::new(key), attempts: Attempts::default() }
    }

    /// Number of attempts that are remembered: pending ones, accepted ones that are connected, and
    /// those that are over or withdrawn, for as long as their cookies may be valid.
    pub fn remembers(&mut self, now: Time) -> usize {
        self.attempts.forget_old(now);
        self.attempts.len()
    }

    /// Answers a HELLO. The COOKIE is as long as the HELLO, so that it proves the path in the other
    /// direction, too. A driver with a static key adds the key's id.
    pub fn on_hello(
        &self,
        now: Time,
        from: impl Into<AddrPair>,
        hello: Hello,
        listens: bool,
    ) -> Setup {
        let Hello { nonce, len } = hello;
        if !listens {
            return Setup::Reject(Reject { nonce, reason: RejectReason::NotListening });
        }
        let attempt = AttemptId { from: from.into(), nonce };
        let cookie = self.jar.bake(now, &self.vouched_for(attempt), nonce);
        Setup::Cookie { nonce, cookie, key_id: 0, len }
    }

    /// Handles a CONNECT. `backlog`: `None` if nobody listens. `wanted` decides by the private data
    /// whether a new request is of interest.
    pub fn on_connect(
        &mut self,
        now: Time,
        from: impl Into<AddrPair>,
        connect: &Connect,
        mut backlog: Option<&mut Backlog>,
        wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Reply<Q> {
        let from = from.into();
        let attempt = AttemptId { from, nonce: connect.nonce };
        match self.on_repeated(now, attempt, connect.cookie, backlog.as_deref_mut()) {
            Some(reply) => reply,
            None => self.on_new(now, Request::new(from, connect.clone()), backlog, wanted),
        }
    }

    /// Handles a CONNECT, or a sealed one, with this cookie. `None`: the cookie is valid and the
    /// CONNECT begins an attempt, see [`Responder::on_new`]. Otherwise the reply does not depend on
    /// the offer.
    pub fn on_repeated(
        &mut self,
        now: Time,
        attempt: AttemptId,
        cookie: u64,
        mut backlog: Option<&mut Backlog>,
    ) -> Option<Reply<Q>> {
        let nonce = attempt.nonce;
        let rejected = |reason| Some(Reply::Rejected(Reject { nonce, reason }));
        if let Some(backlog) = backlog.as_deref_mut() {
            self.forget_stale(now, backlog);
        }
        self.attempts.forget_old(now);
        if !self.jar.verify(now, &self.vouched_for(attempt), nonce, cookie) {
            return rejected(RejectReason::Cookie);
        }
        match (self.attempts.get(attempt), backlog) {
            (Some(AttemptState::Accepted(qp)), _) => Some(Reply::Repeat(qp.clone())),
            (Some(AttemptState::Over(reason, _)), _) => rejected(*reason),
            (Some(AttemptState::Pending), backlog) => {
                if backlog.is_none_or(|backlog| backlog.repeated(now, attempt)) {
                    return Some(Reply::Pending);
                }
                self.attempts.withdraw(now, attempt);
                rejected(RejectReason::Cookie)
            }
            (Some(AttemptState::Withdrawn(_)) | None, None) => rejected(RejectReason::NotListening),
            (Some(AttemptState::Withdrawn(_)) | None, Some(_)) => None,
        }
    }

    /// Handles a CONNECT for which [`Responder::on_repeated`] has returned `None`.
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
        self.attempts.wait(attempt);
        Reply::Requested
    }

    /// Answers a packet of a version that this build does not speak. If it looks like the start of
    /// a connection and is long enough, the answer is a REJECT. Opcode and nonce have the same
    /// places in all versions.
    pub fn on_other_version(&self, bytes: &[u8]) -> Option<Setup> {
        let starts = [Opcode::Hello as u8, Opcode::Connect as u8];
        let nonce = bytes.get(16..24)?.try_into().ok()?;
        let reject = Reject { nonce: u64::from_be_bytes(nonce), reason: RejectReason::Version };
        (starts.contains(&bytes[0]) && bytes.len() >= HELLO_LEN).then_some(Setup::Reject(reject))
    }

    /// Records that the application has accepted with this queue pair, which answers from now on.
    pub fn accepted(&mut self, attempt: AttemptId, qp: Q) {
        self.attempts.accept(attempt, qp);
    }

    /// Rejects an attempt for the application. Returns the packet for the initiator.
    pub fn turn_down(&mut self, now: Time, attempt: AttemptId, reason: RejectReason) -> Setup {
        self.attempts.end(now, attempt, reason);
        Setup::Reject(Reject { nonce: attempt.nonce, reason })
    }

    /// Ends an accepted attempt whose queue pair is gone, or reused. `is_it`: whether this is the
    /// queue pair of the attempt.
    pub fn forget(&mut self, now: Time, attempt: AttemptId, is_it: impl FnOnce(&Q) -> bool) {
        if matches!(self.attempts.get(attempt), Some(AttemptState::Accepted(qp)) if is_it(qp)) {
            self.attempts.end(now, attempt, RejectReason::Refused);
        }
    }

    /// Withdraws the requests that have become stale in the backlog. They will not be answered, and
    /// a repeated CONNECT needs a new cookie to begin an attempt.
    pub fn forget_stale(&mut self, now: Time, backlog: &mut Backlog) {
        for attempt in backlog.take_stale() {
            self.attempts.withdraw(now, attempt);
        }
    }

    /// Returns the bytes that a cookie covers: the address, and the number of spent cookies of the
    /// attempt.
    fn vouched_for(&self, attempt: AttemptId) -> [u8; 26] {
        let mut bytes = [0; 26];
        bytes[..22].copy_from_slice(&address_bytes(attempt.from.remote));
        bytes[22..].copy_from_slice(&self.attempts.spent(attempt).to_be_bytes());
        bytes
    }
}

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
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use super::super::attempts::REMEMBERED;
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

        /// Handles a CONNECT with a cookie baked at `baked`. Returns whether the application gets a
        /// request.
        fn asks_for_more(&mut self, baked: Time, now: Time, nonce: u64) -> bool {
            let from = SocketAddr::from(([10, 0, 0, 1], 4791));
            let attempt = AttemptId { from: from.into(), nonce };
            let cookie =
                self.responder.jar.bake(baked, &self.responder.vouched_for(attempt), nonce);
            let (connect, backlog) = (connect(nonce, cookie), Some(&mut self.backlog));
            self.responder.on_connect(now, from, &connect, backlog, |_| true);
            self.backlog.pop(now).is_some()
        }

        fn turn_down(&mut self, now: Time, nonce: u64) {
            let attempt = AttemptId { from: FROM.into(), nonce };
            self.responder.turn_down(now, attempt, RejectReason::Refused);
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn ended_attempts_are_remembered_while_their_cookies_are_valid() {
        let mut it = Listening::new();
        assert!(it.asks_for_more(at(7_900), at(7_900), 1));
        it.turn_down(at(8_000), 1);
        for ms in (8_000..40_000).step_by(100) {
            assert!(!it.asks_for_more(at(7_900), at(ms), 1), "at {ms} ms");
        }
        assert!(it.asks_for_more(at(40_000), at(40_000), 2));
        assert_eq!(it.responder.remembers(at(40_000)), 1, "only the new one");
    }

    #[test]
    fn remembered_attempts_are_bounded() {
        let mut it = Listening::new();
        for nonce in 0..REMEMBERED as u64 + 100 {
            assert!(it.asks_for_more(at(0), at(1), nonce));
            it.turn_down(at(1), nonce);
        }
        assert_eq!(it.responder.remembers(at(1)), REMEMBERED);
    }

    const FROM: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 4791);

    impl Listening {
        fn cookie(&self, now: Time, nonce: u64) -> u64 {
            match self.responder.on_hello(now, FROM, Hello { nonce, len: 1200 }, true) {
                Setup::Cookie { cookie, .. } => cookie,
                other => panic!("{other:?}"),
            }
        }

        fn connect(&mut self, now: Time, nonce: u64, cookie: u64) -> Reply<()> {
            let (connect, backlog) = (connect(nonce, cookie), Some(&mut self.backlog));
            self.responder.on_connect(now, FROM, &connect, backlog, |_| true)
        }
    }

    #[test]
    fn a_withdrawn_connect_that_is_repeated_begins_nothing() {
        // Once with and once without a look by the application.
        for looks in [true, false] {
            let mut it = Listening::new();
            let start = 8_000;
            let spent = it.cookie(at(start), 1);
            assert_eq!(it.connect(at(start), 1, spent), Reply::Requested);
            if looks {
                assert!(it.backlog.pop(at(start + 3000)).is_none(), "nobody wants it any more");
            }
            for ms in (start + 3000..start + 40_000).step_by(100) {
                let reject = Reject { nonce: 1, reason: RejectReason::Cookie };
                assert_eq!(it.connect(at(ms), 1, spent), Reply::Rejected(reject), "at {ms} ms");
                assert!(it.backlog.pop(at(ms)).is_none(), "at {ms} ms");
            }
        }
    }

    #[test]
    fn interrupted_initiator_makes_a_new_request() {
        let mut it = Listening::new();
        let first = it.cookie(at(8_000), 1);
        for cut in 1..4 {
            let now = at(8_000 + cut * 2_500); // all cookies but the last are of one epoch
            assert_eq!(it.connect(now, 1, it.cookie(now, 1)), Reply::Requested, "{cut}");
            assert_eq!(it.connect(now, 1, it.cookie(now, 1)), Reply::Pending, "{cut}");
            if cut > 1 {
                let spent = it.connect(now, 1, first);
                assert!(matches!(spent, Reply::Rejected(_)), "{cut}: {spent:?}");
            }
            let stale = now + Duration::from_millis(2_100);
            assert!(it.backlog.pop(stale).is_none());
            it.responder.forget_stale(stale, &mut it.backlog);
        }
        let now = at(19_000);
        assert_eq!(it.connect(now, 1, it.cookie(now, 1)), Reply::Requested);
        let request = it.backlog.pop(now).expect("it waits");
        it.responder.accepted(request.attempt(), ());
        assert_eq!(it.connect(now, 1, it.cookie(now, 1)), Reply::Repeat(()));
        // An accepted attempt is not forgotten when its earlier withdrawal expires.
        assert_eq!(it.responder.remembers(at(60_000)), 1);
        assert_eq!(it.connect(at(60_000), 1, it.cookie(at(60_000), 1)), Reply::Repeat(()));
    }

    #[test]
    fn withdrawn_attempts_are_bounded_and_expire() {
        let mut it = Listening::new();
        for nonce in 0..REMEMBERED as u64 + 100 {
            let cookie = it.cookie(at(1), nonce);
            assert_eq!(it.connect(at(1), nonce, cookie), Reply::Requested);
            assert!(it.backlog.pop(at(2_100)).is_none());
            it.responder.forget_stale(at(2_100), &mut it.backlog);
        }
        assert_eq!(it.responder.remembers(at(2_100)), REMEMBERED);
        assert_eq!(it.responder.remembers(at(30_000)), 0);
    }
}
