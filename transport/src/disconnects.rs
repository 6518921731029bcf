//! DISCONNECTs that are repeated until they are confirmed.
//!
//! The queue pair of a DISCONNECT is in ERR, or gone: its number and memory are free. Its record
//! stays here, so that the peer learns what has arrived even if packets are lost. TCP likewise
//! keeps the last ACK in TIME-WAIT (RFC 9293, section 3.6.1). QUIC keeps the CONNECTION_CLOSE in
//! its closing state (RFC 9000, section 10.2.1).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use braid_wire::{Control, ControlKind, PathId, QpId, RailId, Time, Token};

use crate::Egress;
use crate::patience::unanswered_for;

/// Maximum number of records: as many as there can be queue pairs. When the limit is reached, a new
/// record replaces the one that is due next.
const MOST: usize = 1 << 16;

/// The record of a queue pair that neither receives nor sends any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect {
    /// The packet to send.
    pub(crate) control: Control,
    /// The token of the queue pair that has ended, which the peer's DISCONNECT carries.
    pub(crate) token: Token,
    /// The first wait for a CONFIRM, and the longest: each wait is twice the one before.
    pub(crate) rto: [Duration; 2],
    /// Time for which the packet is repeated.
    pub(crate) limit: Duration,
    /// Number of rails to the peer.
    pub(crate) rails: usize,
}

impl Disconnect {
    /// The number of the local queue pair that has ended.
    pub fn of(&self) -> QpId {
        self.control.from
    }
}

/// The local queue pair and the peer's.
type Key = (QpId, QpId);

/// The unconfirmed DISCONNECTs of one driver. `A` is the address at which a peer receives.
///
/// Invariant: `due` has one entry for each record in `table`, at its `repeat_at`.
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
    /// The CONFIRM was accepted: its DISCONNECT is not repeated any more.
    Taken,
    /// The CONFIRM belongs to no DISCONNECT that was sent.
    Unasked,
    /// The CONFIRM comes from another address than the DISCONNECT was sent to.
    WrongSource,
}

/// The answer to a control packet for a queue pair that does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StrayAnswer<A> {
    /// The packet to send.
    pub control: Control,
    /// The address at which the peer receives. `None`: it is not known, so the answer goes to the
    /// source address of the packet.
    pub to: Option<A>,
}

/// A DISCONNECT to send now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DueDisconnect<A> {
    /// The address at which the peer receives.
    pub to: A,
    /// The packet to send.
    pub control: Control,
    /// The port that the packet leaves from.
    pub egress: Egress,
    /// Whether the packet was sent before and not confirmed. The driver then reads the ICMP errors
    /// of the peer's host, see [`Disconnects::on_unreachable`].
    pub is_repeated: bool,
}

impl<A: Clone> Disconnects<A> {
    /// Creates an empty table, for a driver with `paths` paths on each rail, 1 to 4096.
    pub fn new(paths: usize) -> Self {
        let paths = u16::try_from(paths).unwrap_or(u16::MAX).max(1);
        Disconnects { paths, table: HashMap::new(), due: BTreeSet::new() }
    }

    /// Whether every DISCONNECT was confirmed or given up.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Takes a record from [`crate::Endpoint::poll_disconnect`]. `to`: the address at which the
    /// peer receives. The packet is due at once.
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

    /// Handles a CONFIRM. `is_from`: whether the packet may come from the peer that receives at
    /// this address.
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

    /// Drops the record of a queue pair whose peer has ended as well: the peer has sent a
    /// DISCONNECT, or an UNKNOWN for the local queue pair. Without this, an end would repeat its
    /// DISCONNECT for the whole `limit` if the CONFIRM is lost or the peer has dropped its record.
    ///
    /// Call this for each DISCONNECT and UNKNOWN that [`crate::Endpoint::on_control`] accepts;
    /// [`Disconnects::on_stray`] does so itself. Returns the address at which the peer receives if
    /// there was a record. `is_from`: whether the packet may come from the peer that receives at
    /// this address.
    pub fn on_peer_ended(
        &mut self,
        control: &Control,
        is_from: impl FnOnce(&A) -> bool,
    ) -> Option<A> {
        let key = (control.qp, control.from);
        let Pending { disconnect, to, .. } = self.table.get(&key)?;
        let token = match control.kind {
            ControlKind::Disconnect(_) => disconnect.token,
            // An UNKNOWN returns the token that this end's packet carried.
            ControlKind::Unknown => disconnect.control.token,
            _ => return None,
        };
        if token != control.token || !is_from(to) {
            return None;
        }
        self.remove(key).map(|pending| pending.to)
    }

    /// Answers a control packet for a queue pair that does not exist. The answer is as long as the
    /// packet. `is_from`: whether the packet may come from the peer that receives at this address.
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
            // Both ends have ended before either received the other's DISCONNECT.
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

    /// Makes the DISCONNECT due at once, as the answer to a PING for a queue pair that is gone.
    /// Returns false if there is no record of it.
    fn on_ping(&mut self, now: Time, ping: &Control, is_from: impl FnOnce(&A) -> bool) -> bool {
        let key = (ping.qp, ping.from);
        let pending = self.table.get_mut(&key).filter(|pending| is_from(&pending.to));
        let Some(pending) = pending else { return false };
        let before = std::mem::replace(&mut pending.repeat_at, now);
        self.due.remove(&(before, key));
        self.due.insert((now, key));
        true
    }

    /// Handles an ICMP port unreachable from the peer's host, whose process has probably ended. The
    /// message may be forged, so the DISCONNECT is repeated for as long as
    /// [`crate::Endpoint::on_unreachable`] waits for an answer. `is_to`: whether the message
    /// concerns the peer that receives at this address.
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

    /// Time at which [`Disconnects::poll_transmit`] has the next packet to send.
    pub fn next_timeout(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns the next DISCONNECT that is due.
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
    /// Sends from the port of a path, as data would, and then from the receiving port. The next
    /// pair of tries takes the next path of the next rail. Any of them may be dead.
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
