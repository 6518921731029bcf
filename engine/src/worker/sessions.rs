//! The keys of a worker's connections.

use std::collections::VecDeque;
use std::time::Duration;

use braid_keys::Session;
use braid_wire::{QpId, Time, Token};
use rustc_hash::FxHashMap;

use super::rails::PeerAddrs;

/// Keys of connections that have ended, at most: 10 MiB of them. Beyond that the oldest go earlier, and what their peers may
/// still ask is not answered.
const MOST_ENDED: usize = 1 << 12;

/// Our queue pair and its token, which no other connection of it has: what an envelope is addressed to.
pub(crate) type Addressee = (QpId, Token);

/// Whom a DISCONNECT is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    pub(crate) addrs: PeerAddrs,
    /// Our end of a keyed connection.
    pub(crate) keyed: Option<Addressee>,
}

/// By our end. Those of connections that have ended stay for a while: DISCONNECT and CONFIRM are protected too.
///
/// Invariant: each of `ended` is of a connection that is not in use, in the order in which they have ended.
#[derive(Default)]
pub(crate) struct Sessions {
    table: FxHashMap<Addressee, Box<Session>>,
    /// When they go.
    ended: VecDeque<(Time, Addressee)>,
}

impl Sessions {
    /// Whether nothing that comes or leaves can be protected.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, end: Addressee) -> Option<&mut Session> {
        self.table.get_mut(&end).map(|session| &mut **session)
    }

    pub(crate) fn insert(&mut self, end: Addressee, session: Session) {
        self.table.insert(end, Box::new(session));
    }

    /// The connection is over; its keys are kept for so long.
    pub(crate) fn end(&mut self, now: Time, end: Addressee, keep: Duration) {
        if !self.table.contains_key(&end) {
            return;
        }
        let is_over = |(until, _): &&(Time, Addressee)| *until <= now;
        while self.ended.front().filter(is_over).is_some() || self.ended.len() >= MOST_ENDED {
            let Some((_, oldest)) = self.ended.pop_front() else { break };
            self.table.remove(&oldest);
        }
        self.ended.push_back((now + keep, end));
    }
}
