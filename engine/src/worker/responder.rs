//! The responding side of connection set-up.
//!
//! It keeps nothing of a HELLO, and answers a repeated CONNECT as it answered the first. Until a
//! cookie has proved that the initiator receives where it says, no answer is longer than the packet
//! that it answers, so nobody can use this port to flood somebody else.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use braid_transport::CookieJar;
use braid_wire::{Connect, HELLO_LEN, Hello, Opcode, QpId, Reject, RejectReason, Setup, Time};

use super::outbox::Outbox;
use crate::counters::WorkerCounters;
use crate::link::Via;
use crate::listener::{Backlog, Incoming};
use crate::random;

/// Rejections that are remembered, so that a repeated CONNECT is not a new question.
const REMEMBERED: usize = 256;

/// A connection attempt: where it came from, and its nonce.
pub(crate) type Attempt = (SocketAddr, u64);

pub(crate) struct Responder {
    jar: CookieJar,
    backlog: Option<Arc<Backlog>>,
    /// Attempts that the application has not answered, or whose queue pairs exist.
    known: HashMap<Attempt, Answer>,
    rejected: VecDeque<Attempt>,
}

enum Answer {
    /// Still to come.
    Pending,
    /// The encoded ACCEPT.
    Accepted(QpId, Vec<u8>),
}

impl Responder {
    pub(crate) fn new() -> Self {
        Responder {
            jar: CookieJar::new(random::bytes()),
            backlog: None,
            known: HashMap::new(),
            rejected: VecDeque::new(),
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
        let attempt = (from, connect.nonce);
        let refused = if !self.jar.verify(now, &address_bytes(from), connect.nonce, connect.cookie)
        {
            RejectReason::Cookie
        } else if let Some(answer) = self.known.get(&attempt) {
            if let Answer::Accepted(_, bytes) = answer {
                outbox.reply(from, bytes);
            }
            return;
        } else if self.rejected.contains(&attempt) {
            RejectReason::Refused
        } else {
            match &self.backlog {
                None => RejectReason::NotListening,
                Some(backlog) if backlog.push(Incoming { from, connect: connect.clone() }) => {
                    self.known.insert(attempt, Answer::Pending);
                    return;
                }
                Some(_) => RejectReason::Busy,
            }
        };
        counters.setup_refused.add(1);
        reject(outbox, from, connect.nonce, refused);
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

    /// The application has accepted.
    pub(crate) fn accept(
        &mut self,
        attempt: Attempt,
        qp: QpId,
        accept: Connect,
        outbox: &mut Outbox,
    ) {
        let mut bytes = Vec::new();
        Setup::Accept(accept).encode(&mut bytes);
        outbox.note(attempt.0, Via::Port, &bytes);
        self.known.insert(attempt, Answer::Accepted(qp, bytes));
    }

    /// The application has refused, or has not even looked.
    pub(crate) fn turn_down(
        &mut self,
        attempt: Attempt,
        reason: RejectReason,
        outbox: &mut Outbox,
    ) {
        self.known.remove(&attempt);
        if self.rejected.len() == REMEMBERED {
            self.rejected.pop_front();
        }
        self.rejected.push_back(attempt);
        reject(outbox, attempt.0, attempt.1, reason);
    }

    /// The queue pair that was accepted for this attempt is gone.
    pub(crate) fn forget(&mut self, attempt: Attempt, qp: QpId) {
        if matches!(self.known.get(&attempt), Some(Answer::Accepted(owner, _)) if *owner == qp) {
            self.known.remove(&attempt);
        }
    }
}

fn reject(outbox: &mut Outbox, to: SocketAddr, nonce: u64, reason: RejectReason) {
    reply(outbox, to, &Setup::Reject(Reject { nonce, reason }));
}

fn reply(outbox: &mut Outbox, to: SocketAddr, setup: &Setup) {
    let mut bytes = Vec::with_capacity(HELLO_LEN);
    setup.encode(&mut bytes);
    outbox.reply(to, &bytes);
}

/// What a cookie vouches for.
fn address_bytes(addr: SocketAddr) -> [u8; 18] {
    let ip = match addr.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&addr.port().to_be_bytes());
    bytes
}
