//! DISCONNECTs that are repeated until they are confirmed.
//!
//! The queue pair that one speaks of is in ERR, or gone: its number and memory are free. This
//! record stays, so that the peer learns what has arrived whichever packets are lost (as TCP keeps
//! the last ACK in TIME-WAIT, RFC 9293, section 3.6.1, and QUIC the CONNECTION_CLOSE in its closing
//! state, RFC 9000, section 10.2.1).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use braid_wire::{Control, ControlKind, PathId, QpId, RailId, Time, Token};

use crate::Egress;
use crate::patience::unanswered_for;

/// No more are kept: as many as there can be queue pairs. The one that would end first makes room.
const MOST: usize = 1 << 16;

/// The record that a queue pair leaves behind when it takes and sends nothing any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect {
    /// The packet to send.
    pub(crate) control: Control,
    /// The token of the queue pair that has ended, which its peer's DISCONNECT carries.
    pub(crate) token: Token,
    /// The first wait for an answer, and the longest: each is twice the one before.
    pub(crate) rto: [Duration; 2],
    /// Time for which the packet is repeated.
    pub(crate) limit: Duration,
    /// Number of rails to the peer.
    pub(crate) rails: usize,
}

impl Disconnect {
    /// The queue pair that has ended, ours.
    pub fn of(&self) -> QpId {
        self.control.from
    }
}

/// The two queue pairs: ours, the peer's.
type Key = (QpId, QpId);

/// Those of one driver; `A` is where a peer receives.
///
/// Invariant: `due` has one entry for each of `table`, at its `repeat_at`.
#[derive(Debug)]
pub struct Disconnects<A> {
    paths: u16,
    table: HashMap<Key, Pending<A>>,
    due: BTreeSet<(Time, Key)>,
}

#[derive(Debug)]
struct Pending<A> {
    disconnect: Disconnect,
    to: A,
    repeat_at: Time,
    ends_at: Time,
    sent: u16,
}

/// Result of a CONFIRM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirmation {
    /// Its DISCONNECT is repeated no more.
    Taken,
    /// The CONFIRM answers nothing that was sent.
    Unasked,
    /// Somebody else says so than who was told.
    WrongSource,
}

/// The answer to a control packet for a queue pair that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StrayAnswer<A> {
    /// The packet to send.
    pub control: Control,
    /// Where the peer receives. `None`: not known, so the answer goes to where the packet came
    /// from.
    pub to: Option<A>,
}

/// One to send now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DueDisconnect<A> {
    /// Where the peer receives.
    pub to: A,
    /// The packet to send.
    pub control: Control,
    /// The port by which the packet leaves.
    pub egress: Egress,
    /// The packet was sent before, and not confirmed. The driver looks for what the peer's host has
    /// said, see [`Disconnects::on_unreachable`].
    pub is_repeated: bool,
}

impl<A: Clone> Disconnects<A> {
    /// For a driver with so many paths on each rail, 1 to 4096.
    pub fn new(paths: usize) -> Self {
        let paths = u16::try_from(paths).unwrap_or(u16::MAX).max(1);
        Disconnects { paths, table: HashMap::new(), due: BTreeSet::new() }
    }

    /// Whether all are confirmed, or were given up.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Takes the record from [`crate::Endpoint::poll_disconnect`], of a peer that receives at `to`.
    /// The packet is due at once.
    pub fn insert(&mut self, now: Time, to: A, disconnect: Disconnect) {
        let key = (disconnect.control.from, disconnect.control.qp);
        self.remove(key);
        if self.table.len() == MOST
            && let Some((_, first)) = self.due.first().copied()
        {
            self.remove(first);
        }
        let ends_at = now + disconnect.limit;
        self.table.insert(key, Pending { disconnect, to, repeat_at: now, ends_at, sent: 0 });
        self.due.insert((now, key));
    }

    fn remove(&mut self, key: Key) -> Option<Pending<A>> {
        let pending = self.table.remove(&key)?;
        self.due.remove(&(pending.repeat_at, key));
        Some(pending)
    }

    /// A CONFIRM has come; `is_from`: whether it may come from who receives there.
    pub fn confirm(&mut self, confirm: &Control, is_from: impl FnOnce(&A) -> bool) -> Confirmation {
        let key = (confirm.qp, confirm.from);
        let pending = self.table.get(&key);
        let Some(Pending { to, .. }) =
            pending.filter(|pending| pending.disconnect.control.token == confirm.token)
        else {
            return Confirmation::Unasked;
        };
        if !is_from(to) {
            return Confirmation::WrongSource;
        }
        self.remove(key);
        Confirmation::Taken
    }

    /// The peer's queue pair has ended as well: it has sent a DISCONNECT, or says that it does not
    /// know ours. The record of ours is dropped, because nobody is left to be told. Without this,
    /// the end whose CONFIRM is lost, or whose peer has gone with its own record, would wait for
    /// all of its limit. Call it for each DISCONNECT and UNKNOWN that
    /// [`crate::Endpoint::on_control`] has taken; [`Disconnects::on_stray`] does so itself. Returns
    /// where the peer receives if there was a record. `is_from`: whether the packet may come from
    /// who receives there.
    pub fn on_peer_ended(
        &mut self,
        control: &Control,
        is_from: impl FnOnce(&A) -> bool,
    ) -> Option<A> {
        let key = (control.qp, control.from);
        let Pending { disconnect, to, .. } = self.table.get(&key)?;
        let token = match control.kind {
            ControlKind::Disconnect(_) => disconnect.token,
            // It returns the token that our own packet carried.
            ControlKind::Unknown => disconnect.control.token,
            _ => return None,
        };
        if token != control.token || !is_from(to) {
            return None;
        }
        self.remove(key).map(|pending| pending.to)
    }

    /// Answers a control packet for a queue pair that is not there, in as many bytes as the packet
    /// has. `is_from`: whether the packet may come from the peer that receives there.
    pub fn on_stray(
        &mut self,
        now: Time,
        control: &Control,
        is_from: impl FnOnce(&A) -> bool,
    ) -> Option<StrayAnswer<A>> {
        let answer = |kind, to| Some(StrayAnswer { control: control.answer(kind), to });
        match control.kind {
            ControlKind::Ping => {
                let is_told = self.on_ping(now, control, is_from);
                if is_told { None } else { answer(ControlKind::Unknown, None) }
            }
            // Both ends have ended, each before it heard of the other.
            ControlKind::Disconnect(_) => {
                answer(ControlKind::Confirm, self.on_peer_ended(control, is_from))
            }
            ControlKind::Unknown => {
                self.on_peer_ended(control, is_from);
                None
            }
            _ => None,
        }
    }

    /// Answers a PING for a queue pair that is gone. Returns false if there is no record of it.
    fn on_ping(&mut self, now: Time, ping: &Control, is_from: impl FnOnce(&A) -> bool) -> bool {
        let key = (ping.qp, ping.from);
        let pending = self.table.get_mut(&key).filter(|pending| is_from(&pending.to));
        let Some(pending) = pending else { return false };
        let before = std::mem::replace(&mut pending.repeat_at, now);
        self.due.remove(&(before, key));
        self.due.insert((now, key));
        true
    }

    /// The peer's host says that nobody receives at its port, so its process has probably ended.
    /// Whoever said so may lie: the DISCONNECT is repeated for as long as
    /// [`crate::Endpoint::on_unreachable`] waits for an answer. `is_to`: whether that is where the
    /// peer receives.
    pub fn on_unreachable(&mut self, now: Time, is_to: impl Fn(&A) -> bool) {
        for (key, pending) in &mut self.table {
            if pending.sent == 0 || !is_to(&pending.to) {
                continue;
            }
            let wait = unanswered_for(pending.disconnect.rto[0]);
            pending.ends_at = pending.ends_at.min(now + wait);
            if pending.repeat_at > pending.ends_at {
                self.due.remove(&(pending.repeat_at, *key));
                pending.repeat_at = pending.ends_at;
                self.due.insert((pending.repeat_at, *key));
            }
        }
    }

    /// When [`Disconnects::poll_transmit`] has something to send next.
    pub fn next_timeout(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next that is due.
    pub fn poll_transmit(&mut self, now: Time) -> Option<DueDisconnect<A>> {
        loop {
            let (at, key) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
            let pending = self.table.get_mut(&key)?;
            if now >= pending.ends_at && pending.sent > 0 {
                self.remove(key);
                continue;
            }
            self.due.remove(&(at, key));
            let due = pending.send(now, key, self.paths);
            self.due.insert((pending.repeat_at, key));
            return Some(due);
        }
    }
}

impl<A: Clone> Pending<A> {
    /// Sends by a path first, as data would, then from the receiving port, then by the next path,
    /// of the next rail: any of them may be dead.
    fn send(&mut self, now: Time, key: Key, paths: u16) -> DueDisconnect<A> {
        let (turn, rail) =
            (key.0.get() as u16, RailId::new(usize::from(self.sent / 2) % self.disconnect.rails));
        let path = PathId::new(turn.wrapping_add(self.sent / 2) % paths).on(rail);
        let by_path = self.sent.is_multiple_of(2);
        let egress = if by_path { Egress::Path(path) } else { Egress::Port(rail) };
        let [first, most] = self.disconnect.rto;
        let wait = first.saturating_mul(1 << self.sent.min(16)).min(most);
        self.repeat_at = (now + wait).min(self.ends_at.max(now + first));
        self.sent = self.sent.saturating_add(1);
        let (to, control) = (self.to.clone(), self.disconnect.control);
        DueDisconnect { to, control, egress, is_repeated: self.sent > 1 }
    }
}
