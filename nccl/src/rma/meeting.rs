//! Connects the queue pairs of a group. Ranks come in any order, and one that is faster asks for
//! the queue pairs of its next call already.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use braid::{Connecting, ConnectionRequest, QueuePair};

use super::call::Call;
use super::error::RmaError;
use super::listener::Listening;
use crate::connect::on_our_link;
use crate::greeting::RmaGreeting;
use crate::handle::Address;

/// Attempts of a rank at the same time. Each has a descriptor.
const MAX_ATTEMPTS: usize = 64;
/// Requests that wait for the call of this rank that needs them. A peer that is refused fails.
const MAX_EARLY: usize = 65_536;

/// A queue pair to connect.
pub(super) struct Guest {
    pub(super) rank: usize,
    /// The queue pair's number, the same at both ends.
    pub(super) channel: u32,
    /// Whether this end asks; otherwise it is asked.
    pub(super) asks: bool,
    pub(super) qp: Arc<QueuePair>,
}

/// The ranks of a group, where they are, and those of them that have come early.
pub(super) struct Meeting {
    listening: Arc<Listening>,
    rank: usize,
    addresses: Vec<Address>,
    early: HashMap<(usize, u32), ConnectionRequest>,
}

impl Meeting {
    pub(super) fn new(listening: Arc<Listening>, rank: usize, addresses: Vec<Address>) -> Self {
        Meeting { listening, rank, addresses, early: HashMap::new() }
    }

    pub(super) fn address(&self, rank: usize) -> Address {
        self.addresses[rank]
    }

    /// Connects all of these queue pairs, for this call.
    ///
    /// # Errors
    /// If a rank is not reached, or does not come in time.
    pub(super) fn connect(
        &mut self,
        call: Call,
        guests: &[Guest],
        timeout: Duration,
    ) -> Result<(), RmaError> {
        let deadline = Instant::now() + timeout;
        let (asking, mut asked): (Vec<&Guest>, Vec<&Guest>) =
            guests.iter().partition(|guest| guest.asks);
        let mut asking = asking.into_iter().peekable();
        let mut attempts: Vec<(&Guest, Connecting)> = Vec::new();
        loop {
            self.listening.context().polled();
            while attempts.len() < MAX_ATTEMPTS
                && let Some(guest) = asking.next()
            {
                attempts.push((guest, self.ask(guest, timeout)?));
            }
            let mut under_way = Vec::with_capacity(attempts.len());
            for (guest, attempt) in attempts {
                match attempt.result() {
                    Some(answer) => self.check(guest, answer)?,
                    None => under_way.push((guest, attempt)),
                }
            }
            attempts = under_way;
            self.sort_requests();
            let mut waiting = Vec::with_capacity(asked.len());
            for guest in asked {
                match self.early.remove(&(guest.rank, guest.channel)) {
                    Some(request) => self.accept(guest, request)?,
                    None => waiting.push(guest),
                }
            }
            asked = waiting;
            let missing = attempts.first().map(|(guest, _)| *guest).or(asked.first().copied());
            match missing {
                None if asking.peek().is_none() => return Ok(()),
                Some(guest) if Instant::now() > deadline => {
                    let seconds = timeout.as_secs_f64();
                    return Err(RmaError::Absent { rank: guest.rank, call, seconds });
                }
                _ => thread::yield_now(),
            }
        }
    }

    fn ask(&self, guest: &Guest, timeout: Duration) -> Result<Connecting, RmaError> {
        let Address { engine, listener } = self.addresses[guest.rank];
        let peer = on_our_link(engine, self.listening.address().engine);
        let greeting = self.greeting(guest, listener);
        let attempt = guest.qp.begin_connect(peer, &greeting.to_bytes(), timeout);
        attempt.map_err(|source| RmaError::Unreached { rank: guest.rank, source })
    }

    fn check(
        &self,
        guest: &Guest,
        answer: Result<Vec<u8>, braid::ConnectError>,
    ) -> Result<(), RmaError> {
        let rank = guest.rank;
        let answer = answer.map_err(|source| RmaError::Unreached { rank, source })?;
        let listener = self.addresses[rank].listener;
        let expected = RmaGreeting { listener, rank: rank as u32, channel: guest.channel };
        match RmaGreeting::from_bytes(&answer) == Some(expected) {
            true => Ok(()),
            false => Err(RmaError::OtherRank { rank }),
        }
    }

    fn accept(&self, guest: &Guest, request: ConnectionRequest) -> Result<(), RmaError> {
        let ours = self.greeting(guest, self.listening.address().listener);
        let accepted = request.accept(&guest.qp, &ours.to_bytes());
        accepted.map_err(|source| RmaError::Unreached { rank: guest.rank, source })
    }

    fn greeting(&self, guest: &Guest, listener: u64) -> RmaGreeting {
        RmaGreeting { listener, rank: self.rank as u32, channel: guest.channel }
    }

    /// Keeps new requests by rank and queue pair.
    fn sort_requests(&mut self) {
        while let Some(request) = self.listening.next_request() {
            let greeting = RmaGreeting::from_bytes(request.private_data());
            let known = greeting.filter(|it| (it.rank as usize) < self.addresses.len());
            match known.filter(|_| self.early.len() < MAX_EARLY) {
                Some(it) => drop(self.early.insert((it.rank as usize, it.channel), request)),
                None => request.reject(),
            }
        }
    }
}
