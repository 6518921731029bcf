//! The initiator's state machine of one attempt.

use std::time::Duration;

use braid_wire::{
    BASE_DATAGRAM, Connect, HELLO_LEN, Hello, Offer, Reject, RejectReason, Routing, Setup, Time,
};

use super::error::ConnectError;

const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_millis(320);
/// Number of unanswered full-length HELLOs after which short ones accompany them, ...
const HELLOS_ALONE: u32 = 2;
/// ... and after which a path that has carried a short one counts as too narrow. They are sent over
/// one second.
const MAX_HELLOS: u32 = 6;

/// Minimum time between two requests for a cookie. Each cookie is answered with a CONNECT, which
/// shows for whose key it was made: an impostor in the listener's place can request only a few.
const COOKIE_HOLDS: Duration = Duration::from_secs(1);

/// The side that connects: HELLO until there is a cookie, then CONNECT until there is an answer.
#[derive(Clone, Debug)]
pub struct Initiator {
    nonce: u64,
    offer: Offer,
    private_data: Vec<u8>,
    routing: Routing,
    cookie: Option<u64>,
    /// Time at which the cookie arrived.
    cookie_at: Time,
    /// Number of full-length HELLOs sent since the last cookie.
    hellos: u32,
    /// Whether a short HELLO is to follow.
    short_is_due: bool,
    /// Whether a short HELLO was answered.
    carries_short: bool,
    /// Number of CONNECTs sent since the responder answered that it is busy; `None`: it has not.
    sent_since_busy: Option<u32>,
    deadline: Time,
    retry_at: Time,
    retry_after: Duration,
    outcome: Option<Result<Connect, ConnectError>>,
}

impl Initiator {
    /// Creates an attempt that begins now and fails after `timeout`. `nonce` has to be
    /// unpredictable; `private_data` has at most [`braid_wire::MAX_PRIVATE_DATA`] bytes.
    pub fn new(
        now: Time,
        nonce: u64,
        offer: Offer,
        private_data: Vec<u8>,
        timeout: Duration,
    ) -> Self {
        Initiator {
            nonce,
            offer,
            private_data,
            routing: Routing::default(),
            cookie: None,
            cookie_at: now,
            hellos: 0,
            short_is_due: false,
            carries_short: false,
            sent_since_busy: None,
            deadline: now + timeout,
            retry_at: now,
            retry_after: FIRST_RETRY,
            outcome: None,
        }
    }

    /// Sets how this end is reached besides its address, in at most [`braid_wire::MAX_ROUTING_LEN`]
    /// bytes.
    pub fn with_routing(self, routing: Routing) -> Self {
        Initiator { routing, ..self }
    }

    /// Restarts the attempt with another responder, for the same deadline. The nonce is a new one
    /// that the first responder has not seen.
    pub fn restart(&mut self, now: Time, nonce: u64, offer: Offer) {
        (self.nonce, self.cookie, self.sent_since_busy) = (nonce, None, None);
        self.offer = offer;
        (self.hellos, self.short_is_due, self.carries_short) = (0, false, false);
        (self.retry_at, self.retry_after) = (now, FIRST_RETRY);
        self.outcome = None;
    }

    /// The nonce, which answers repeat.
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Handles a set-up packet. Packets with another nonce are ignored.
    pub fn on_setup(&mut self, now: Time, packet: &Setup) {
        if self.outcome(now).is_some() {
            return;
        }
        match packet {
            Setup::Cookie { nonce, cookie, len, .. } if *nonce == self.nonce => {
                self.on_cookie(now, *cookie, *len);
            }
            Setup::Accept(accept) if accept.nonce == self.nonce && self.cookie.is_some() => {
                self.outcome = Some(Ok(accept.clone()));
            }
            Setup::Reject(reject) if reject.nonce == self.nonce => self.on_reject(now, reject),
            _ => {}
        }
    }

    /// Handles a cookie, which proves that the path carries datagrams of its length.
    fn on_cookie(&mut self, now: Time, cookie: u64, len: u16) {
        if usize::from(len) < BASE_DATAGRAM {
            self.carries_short = true;
        } else if self.cookie.is_none() {
            (self.cookie, self.cookie_at) = (Some(cookie), now);
            (self.hellos, self.short_is_due) = (0, false);
            self.retry_at = now;
            self.retry_after = FIRST_RETRY;
        }
    }

    fn on_reject(&mut self, now: Time, reject: &Reject) {
        match reject.reason {
            // A later try may succeed.
            RejectReason::Busy => self.sent_since_busy = Some(0),
            RejectReason::Cookie if now < self.cookie_at + COOKIE_HOLDS => {}
            RejectReason::Cookie => self.cookie = None,
            reason => self.outcome = Some(Err(ConnectError::Rejected(reason))),
        }
    }

    /// Returns the packet to send now, if any.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Setup> {
        if self.outcome(now).is_some() {
            return None;
        }
        let nonce = self.nonce;
        if std::mem::take(&mut self.short_is_due) {
            return Some(Setup::Hello(Hello { nonce, len: HELLO_LEN as u16 }));
        }
        if now < self.retry_at {
            return None;
        }
        self.retry_at = now + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(LAST_RETRY);
        let Some(cookie) = self.cookie else { return self.hello() };
        self.sent_since_busy.iter_mut().for_each(|sent| *sent += 1);
        Some(Setup::Connect(Connect {
            nonce,
            cookie,
            offer: self.offer,
            private_data: self.private_data.clone(),
            routing: self.routing.clone(),
        }))
    }

    fn hello(&mut self) -> Option<Setup> {
        if self.carries_short && self.hellos >= MAX_HELLOS {
            self.outcome = Some(Err(ConnectError::PathMtu));
            return None;
        }
        self.hellos += 1;
        self.short_is_due = self.hellos > HELLOS_ALONE;
        Some(Setup::Hello(Hello { nonce: self.nonce, len: BASE_DATAGRAM as u16 }))
    }

    /// Time at which to call [`Initiator::poll_transmit`] and [`Initiator::outcome`] next; `None`:
    /// the attempt is over.
    pub fn next_timeout(&self) -> Option<Time> {
        self.outcome.is_none().then(|| self.retry_at.min(self.deadline))
    }

    /// The outcome: the peer's ACCEPT, or an error. `None`: the attempt continues.
    pub fn outcome(&self, now: Time) -> Option<Result<&Connect, ConnectError>> {
        match &self.outcome {
            Some(Ok(accept)) => Some(Ok(accept)),
            Some(Err(error)) => Some(Err(*error)),
            None if now < self.deadline => None,
            None if self.carries_short && self.cookie.is_none() => Some(Err(ConnectError::PathMtu)),
            None if self.is_busy() => Some(Err(ConnectError::Rejected(RejectReason::Busy))),
            None => Some(Err(ConnectError::TimedOut)),
        }
    }

    /// Whether the responder's last answer was that it is busy. At most one CONNECT is unanswered
    /// then, and its answer may be under way. With more of them unanswered, the request waits in
    /// the backlog.
    fn is_busy(&self) -> bool {
        self.sent_since_busy.is_some_and(|sent| sent <= 1)
    }
}
