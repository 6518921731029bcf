//! The keys of a worker's connections.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use braid_keys::Session;
use braid_wire::{QpId, RailId, Time, Token};
use rustc_hash::FxHashMap;

use super::rails::PeerAddrs;

/// The largest number of ended connections whose keys are kept, 10 MiB. Beyond it the oldest keys
/// are wiped, and late questions of their peers are not answered.
const MOST_ENDED: usize = 1 << 12;

/// The queue pair and its token, which no other connection of the queue pair has. Encrypted packets
/// carry both.
pub(crate) type Addressee = (QpId, Token);

/// The addressee of a DISCONNECT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DisconnectAddress {
    pub(crate) addrs: PeerAddrs,
    /// This end of a keyed connection.
    pub(crate) keyed: Option<Addressee>,
}

impl DisconnectAddress {
    /// Whether the peer may have sent a packet that arrived by `rail` from `from`, in this
    /// envelope.
    pub(crate) fn may_say(
        &self,
        from: Option<SocketAddr>,
        rail: RailId,
        envelope: Option<Addressee>,
    ) -> bool {
        self.addrs.may_send(from, rail) && self.keyed == envelope
    }
}

/// The sessions by this end. The keys of an ended connection stay for a while, because DISCONNECT
/// and CONFIRM are protected too.
///
/// Invariant: `ended` lists connections that are not in use, in the order of their ends.
#[derive(Default)]
pub(crate) struct Sessions {
    table: FxHashMap<Addressee, Box<Session>>,
    /// The times at which the keys are wiped.
    ended: VecDeque<(Time, Addressee)>,
}

impl Sessions {
    /// Whether no packet can be protected.
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

    /// Ends a connection and keeps its keys for `keep`.
    pub(crate) fn end(&mut self, now: Time, end: Addressee, keep: Duration) {
        if !self.table.contains_key(&end) {
            return;
        }
        if self.ended.len() >= MOST_ENDED {
            self.forget_oldest();
        }
        self.ended.push_back((now + keep, end));
    }

    /// Wipes the keys whose time has expired.
    #[inline]
    pub(crate) fn forget_due(&mut self, now: Time) {
        while self.next_timeout().is_some_and(|until| until <= now) {
            self.forget_oldest();
        }
    }

    /// The time at which the next keys are wiped.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.ended.front().map(|(until, _)| *until)
    }

    fn forget_oldest(&mut self) {
        if let Some((_, oldest)) = self.ended.pop_front() {
            self.table.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use braid_keys::{Binding, Credentials, Date, Key, KeyId, Listener, Terms};

    use super::*;

    fn session() -> Session {
        let (key, binding) =
            (Credentials::from(Key::new([1; 32])), Binding { nonce: 1, cookie: 1 });
        let listener = Listener { binding, key: KeyId::NONE, today: Date::FIRST };
        let (asking, _) = key.initiate(listener, [2; 32], Terms::default(), b"");
        let asked = key.read(binding, Date::FIRST, [3; 32], asking.message()).unwrap();
        let agreed = asked.settle(&Terms::default()).unwrap();
        let (_, secrets) = asked.answer(agreed, b"");
        Session::new(secrets, agreed, (QpId::new(9), Token(9)))
    }

    #[test]
    fn keys_go_when_their_time_is_over_and_the_oldest_when_there_are_too_many() {
        let end = |number| (QpId::new(number), Token(number));
        let at = Time::from_nanos;
        let mut sessions = Sessions::default();
        for number in 0..=MOST_ENDED as u32 {
            sessions.insert(end(number), session());
            sessions.end(at(number.into()), end(number), Duration::from_nanos(1 << 20));
        }
        assert!(sessions.get_mut(end(0)).is_none(), "one more than there may be");
        assert_eq!(sessions.next_timeout(), Some(at((1 << 20) + 1)));
        sessions.forget_due(at((1 << 20) + 2));
        assert!(sessions.get_mut(end(2)).is_none() && sessions.get_mut(end(3)).is_some());
        sessions.forget_due(at(1 << 30));
        assert!(sessions.is_empty() && sessions.next_timeout().is_none());
    }
}
