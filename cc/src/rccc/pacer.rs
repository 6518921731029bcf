//! The pacer of credit, one for each link of a receiver.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use braid_wire::Time;

const PS_PER_NS: u128 = 1_000;
const PS_PER_SECOND: u128 = 1_000_000_000_000;
/// Share of the rate that grants use, in percent. The rest is for other packets, such as
/// acknowledgements, and drains queues.
const SHARE: u128 = 99;
/// Time without arrivals, in grants, after which nothing is under way.
const SILENT_GRANTS: u128 = 16;
/// Grants in a second, if their size is free.
const GRANTS_PER_SECOND: u64 = 10_000;
/// The longest time that grants wait for bytes under way, in picoseconds. A sender that claims more
/// cannot stop the others for longer.
const MAX_DEBT: u128 = PS_PER_SECOND / 4;

/// A sender that waits for credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditTurn<K> {
    /// The sender.
    pub key: K,
    /// Rate of the receiver's link in bits per second, as the sender has stated it.
    bits_per_second: u64,
}

/// A change of a sender's need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditDemand {
    /// Bytes that it sends without credit; negative: bytes that are known to be lost.
    pub bytes: i64,
    /// Rate of the receiver's link in bits per second, as the sender has stated it.
    pub bits_per_second: u64,
    /// Whether it had no backlog before and has one now.
    pub begins: bool,
}

/// A grant to a sender whose turn it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreditGrant {
    /// Granted bytes.
    pub bytes: u64,
    /// Whether the sender has a backlog left.
    pub is_waiting: bool,
}

/// Grants credit to the senders with a backlog, in turn, at the rate of the link.
///
/// The bytes that senders send without credit are charged as well. So the next grant waits until
/// the link has carried them, and a queue that they have built up drains. The charge is cancelled
/// if senders report them lost, or if nothing arrives.
#[derive(Clone, Debug)]
pub struct CreditPacer<K> {
    turns: VecDeque<CreditTurn<K>>,
    /// Time at which all charged bytes have left the link, in picoseconds of [`Time`].
    due: u128,
    /// Time of the last arrival of data.
    arrived: Time,
    /// The least and the most bytes of a grant.
    grants: RangeInclusive<u64>,
}

impl<K: Copy> CreditPacer<K> {
    /// Creates a pacer without senders. `grants`: bytes of a grant. Within this range a grant is
    /// what the link carries in 100 us.
    pub fn new(grants: RangeInclusive<u64>) -> Self {
        CreditPacer { turns: VecDeque::new(), due: 0, arrived: Time::ZERO, grants }
    }

    /// Records that data has arrived by the link.
    #[inline]
    pub fn on_arrival(&mut self, now: Time) {
        self.arrived = now;
    }

    /// Handles a change of a sender's need.
    pub fn on_demand(&mut self, now: Time, key: K, demand: &CreditDemand) {
        let CreditDemand { bytes, bits_per_second, begins } = *demand;
        match bytes {
            0 => {}
            1.. => self.charge(now, bytes.unsigned_abs(), bits_per_second),
            _ => self.cancel(now, bytes.unsigned_abs(), bits_per_second),
        }
        if begins {
            self.turns.push_back(CreditTurn { key, bits_per_second });
        }
    }

    /// Returns the next sender and the number of bytes to grant it at most, if a grant is due. The
    /// caller then reports the grant by [`CreditPacer::on_grant`]. A sender that is gone gets none.
    pub fn poll(&mut self, now: Time) -> Option<(CreditTurn<K>, u64)> {
        let first = self.turns.front()?;
        let (rate, ps) = (first.bits_per_second, picoseconds(now));
        if self.due > ps {
            if self.silent_at(rate) <= ps {
                (self.due, self.arrived) = (self.due.min(ps + self.grant_time(rate)), now);
            }
            return None;
        }
        self.turns.pop_front().map(|turn| (turn, self.grant_of(rate)))
    }

    /// Records the grant to a sender that [`CreditPacer::poll`] has returned.
    pub fn on_grant(&mut self, now: Time, turn: CreditTurn<K>, grant: &CreditGrant) {
        if grant.bytes > 0 {
            self.charge(now, grant.bytes, turn.bits_per_second);
        }
        if grant.is_waiting {
            self.turns.push_back(turn);
        }
    }

    /// Time of the next call of [`CreditPacer::poll`], if a sender waits.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        let rate = self.turns.front()?.bits_per_second;
        let due = self.due.min(self.silent_at(rate));
        Some(Time::from_nanos(u64::try_from(due.div_ceil(PS_PER_NS)).unwrap_or(u64::MAX)))
    }

    /// Charges bytes that a sender may send. A driver that polls late makes up for one grant.
    fn charge(&mut self, now: Time, bytes: u64, bits_per_second: u64) {
        let now = picoseconds(now);
        let (time, grant) = (time_of(bytes, bits_per_second), self.grant_time(bits_per_second));
        let from = self.due.max(now.saturating_sub(time.min(grant)));
        self.due = (from + time).min(now + MAX_DEBT);
    }

    /// Cancels the charge of bytes that will not arrive. The next grant is at most one grant later
    /// than now anyway if nothing else is charged, and that stays.
    fn cancel(&mut self, now: Time, bytes: u64, bits_per_second: u64) {
        let least = self.due.min(picoseconds(now) + self.grant_time(bits_per_second));
        self.due = self.due.saturating_sub(time_of(bytes, bits_per_second)).max(least);
    }

    fn grant_of(&self, bits_per_second: u64) -> u64 {
        let bytes = bits_per_second / (8 * GRANTS_PER_SECOND);
        bytes.min(*self.grants.end()).max(*self.grants.start()).max(1)
    }

    fn grant_time(&self, bits_per_second: u64) -> u128 {
        time_of(self.grant_of(bits_per_second), bits_per_second)
    }

    /// Time at which the link counts as silent if nothing arrives.
    fn silent_at(&self, bits_per_second: u64) -> u128 {
        picoseconds(self.arrived) + SILENT_GRANTS * self.grant_time(bits_per_second)
    }
}

/// The time that grants of this many bytes take, in picoseconds.
fn time_of(bytes: u64, bits_per_second: u64) -> u128 {
    let rate = u128::from(bits_per_second) * SHARE / 100;
    u128::from(bytes) * 8 * PS_PER_SECOND / rate.max(1)
}

fn picoseconds(time: Time) -> u128 {
    u128::from(time.as_nanos()) * PS_PER_NS
}
