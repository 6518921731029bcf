//! Decides whether segments are sent as ECN-capable on each rail (RFC 9000, section 13.4.2, and RFC
//! 9330).
//!
//! Two kinds of network make ECN harmful. One drops ECN-capable packets, so that only packets
//! without ECN get through. The other marks every packet, so that the congestion window stays at
//! its minimum and the marks carry no information. In both cases segments leave without ECN, marks
//! are ignored, and ECN is tried again after a while.
//!
//! Time-outs alone do not prove that ECN is the cause. So a rail that has timed out continues
//! without ECN, and with ECN again as soon as a packet gets through. Only if this happens
//! [`STRIKES`] times in a row, the network is taken to drop ECN-capable packets. A late
//! acknowledgement of a packet that left with ECN proves the opposite: the peer was slow, as on a
//! host with more processes than cores.

use std::time::Duration;

use braid_lb::RailSet;
use braid_wire::{MAX_RAILS, RailId, Time};

use crate::stream::marks::MarkSample;

/// Time-outs in a row, without an acknowledgement in between, after which ECN is switched off or
/// on.
const TIMEOUTS: u8 = 2;
/// Number of times in a row that packets with ECN have to seem dropped.
const STRIKES: u8 = 3;
/// Time after which ECN is tried again. It doubles each time, up to the longest wait.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(640);
/// Time that the driver takes to follow a change: packets sent within it may be with or without
/// ECN.
const MARGIN: Duration = Duration::from_millis(2);
/// Time after which the packets of a trial are judged: earlier ones have left the network by then.
const SETTLED: Duration = Duration::from_millis(100);

/// The reason why segments leave without ECN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnTrouble {
    /// Every packet is marked, however small the congestion window is.
    AlwaysMarked,
    /// ECN-capable packets are dropped.
    Dropped,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// ECN is on.
    Capable,
    /// ECN is off, to see whether packets get through without it.
    Doubted,
    /// ECN is on again, because a packet got through without it.
    Checked,
    /// ECN is off.
    Off(EcnTrouble),
    /// ECN is on, to see whether the trouble is over.
    Trial(EcnTrouble),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RailEcn {
    pub(super) state: State,
    pub(super) since: Time,
    /// Time at which ECN was last switched on.
    pub(super) on_at: Time,
    /// Times between which packets left with ECN before it was last switched off.
    pub(super) left_with_ecn: (Time, Time),
    /// Time-outs in a row in this state.
    pub(super) timeouts: u8,
    pub(super) strikes: u8,
    /// Number of mark samples in a trial.
    pub(super) samples: u8,
    /// Time for which ECN stays off the next time.
    pub(super) wait: Duration,
    pub(super) retry_at: Time,
}

/// The ECN state of all rails.
#[derive(Debug)]
pub(super) struct Ecn {
    /// `None`: nothing has happened on any rail.
    rails: Option<Box<[RailEcn; MAX_RAILS]>>,
    /// Whether some rail needs to know of acknowledgements.
    pub(super) is_watched: bool,
}

impl Default for RailEcn {
    fn default() -> Self {
        RailEcn {
            state: State::Capable,
            since: Time::ZERO,
            on_at: Time::ZERO,
            left_with_ecn: (Time::ZERO, Time::ZERO),
            timeouts: 0,
            strikes: 0,
            samples: 0,
            wait: FIRST_WAIT,
            retry_at: Time::FAR_FUTURE,
        }
    }
}

impl RailEcn {
    pub(super) fn sends_ecn(&self) -> bool {
        matches!(self.state, State::Capable | State::Checked | State::Trial(_))
    }

    pub(super) fn counts_marks(&self) -> bool {
        matches!(self.state, State::Capable | State::Checked | State::Trial(EcnTrouble::Dropped))
    }

    pub(super) fn trouble(&self) -> Option<EcnTrouble> {
        match self.state {
            State::Off(trouble) | State::Trial(trouble) => Some(trouble),
            State::Capable | State::Doubted | State::Checked => None,
        }
    }

    pub(super) fn enter(&mut self, now: Time, state: State) {
        let was_on = self.sends_ecn();
        (self.state, self.since, self.timeouts, self.samples) = (state, now, 0, 0);
        match (was_on, self.sends_ecn()) {
            (true, false) => self.left_with_ecn = (self.on_at + MARGIN, now),
            (false, true) => self.on_at = now,
            _ => {}
        }
    }

    /// Whether packets with ECN seem to be dropped.
    fn suspects_drops(&self) -> bool {
        use EcnTrouble::Dropped;
        matches!(
            self.state,
            State::Doubted | State::Checked | State::Off(Dropped) | State::Trial(Dropped)
        )
    }

    pub(super) fn turn_off(&mut self, now: Time, trouble: EcnTrouble) {
        self.enter(now, State::Off(trouble));
        self.strikes = 0;
        self.retry_at = now + self.wait;
        self.wait = (2 * self.wait).min(LONGEST_WAIT);
    }

    /// Handles a time-out: nothing that was in flight was acknowledged.
    pub(super) fn on_timeout(&mut self, now: Time) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts < TIMEOUTS {
            return;
        }
        match self.state {
            State::Capable => self.enter(now, State::Doubted),
            State::Checked if self.strikes + 1 >= STRIKES => {
                self.turn_off(now, EcnTrouble::Dropped);
            }
            State::Checked => {
                self.strikes += 1;
                self.enter(now, State::Doubted);
            }
            State::Trial(trouble) => self.turn_off(now, trouble),
            // Packets without ECN do not get through, either.
            State::Doubted => {
                self.strikes = 0;
                self.enter(now, State::Capable);
            }
            State::Off(_) => {}
        }
    }

    /// Handles an acknowledgement. `sent_at`: when the packet that it echoes was sent.
    pub(super) fn on_ack(&mut self, now: Time, sent_at: Time) {
        self.timeouts = 0;
        if sent_at < self.since + MARGIN {
            let (from, until) = self.left_with_ecn;
            if sent_at >= from && sent_at < until && self.suspects_drops() {
                self.recover(now);
            }
            return;
        }
        match self.state {
            State::Doubted => self.enter(now, State::Checked),
            State::Checked | State::Trial(EcnTrouble::Dropped) => self.recover(now),
            State::Capable | State::Off(_) | State::Trial(EcnTrouble::AlwaysMarked) => {}
        }
    }

    pub(super) fn on_sample(&mut self, now: Time, sample: MarkSample) {
        match (self.state, sample) {
            (State::Capable | State::Checked, MarkSample::Settled) => {
                self.turn_off(now, EcnTrouble::AlwaysMarked);
            }
            (State::Trial(EcnTrouble::AlwaysMarked), _) if now >= self.since + SETTLED => {
                self.samples = self.samples.saturating_add(1);
                // The first sample began before the trial.
                match sample {
                    _ if self.samples < 2 => {}
                    MarkSample::SomeUnmarked => self.recover(now),
                    MarkSample::AllMarked | MarkSample::Settled => {
                        self.turn_off(now, EcnTrouble::AlwaysMarked);
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn recover(&mut self, now: Time) {
        self.enter(now, State::Capable);
        (self.strikes, self.wait) = (0, FIRST_WAIT);
    }
}

impl Ecn {
    pub(super) fn new() -> Self {
        Ecn { rails: None, is_watched: false }
    }

    /// Returns the state of a rail. `None`: nothing has happened on any rail.
    #[inline]
    pub(super) fn rail(&self, rail: RailId) -> Option<&RailEcn> {
        self.rails.as_ref().map(|rails| &rails[rail.get()])
    }

    /// Returns the states of all rails for a change.
    pub(super) fn rails_mut(&mut self) -> &mut [RailEcn; MAX_RAILS] {
        self.rails.get_or_insert_default()
    }

    /// Rails whose marks are ignored.
    pub(super) fn ignored(&self) -> RailSet {
        let all = (0..MAX_RAILS).map(RailId::new);
        all.filter(|rail| self.rail(*rail).is_some_and(|rail| !rail.counts_marks())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos((1_000 + ms) * 1_000_000)
    }

    #[test]
    fn an_outage_is_not_taken_for_a_network_that_drops_ecn() {
        let mut rail = RailEcn::default();
        for ms in 0..20 {
            rail.on_timeout(at(10 * ms));
        }
        // The outage is over, whether ECN was on or off last.
        for ms in [300, 310, 320] {
            rail.on_ack(at(ms), at(ms - 1));
        }
        assert_eq!((rail.state, rail.trouble()), (State::Capable, None));
    }

    #[test]
    fn a_late_acknowledgement_proves_that_ecn_passes() {
        // The peer answers everything after a second, whether ECN was on or off.
        let mut rail = RailEcn::default();
        for ms in (1_000..20_000).step_by(10) {
            rail.on_ack(at(ms), at(ms - 1_000));
            if ms % 2_100 == 0 {
                (0..2).for_each(|_| rail.on_timeout(at(ms)));
            }
            assert_eq!(rail.trouble(), None, "after {ms} ms");
        }
        assert_eq!(rail.state, State::Capable);
    }

    #[test]
    fn a_late_acknowledgement_ends_a_wrong_verdict() {
        let mut rail = RailEcn::default();
        while rail.trouble().is_none() {
            match rail.sends_ecn() {
                true => rail.on_timeout(at(100)),
                false => rail.on_ack(at(100), rail.since + MARGIN),
            }
        }
        rail.left_with_ecn = (at(50), at(90));
        for sent in [49, 90] {
            rail.on_ack(at(100), at(sent));
            assert_eq!(rail.trouble(), Some(EcnTrouble::Dropped), "it left without ECN");
        }
        rail.on_ack(at(100), at(89));
        assert_eq!((rail.state, rail.strikes), (State::Capable, 0));
    }

    #[test]
    fn a_network_that_drops_ecn_is_found_out_and_tried_again_later() {
        let (mut rail, mut ms) = (RailEcn::default(), 0);
        let mut steps = 0;
        while rail.trouble().is_none() {
            ms += 10;
            match rail.sends_ecn() {
                true => rail.on_timeout(at(ms)),
                false => rail.on_ack(at(ms), at(ms - 1)),
            }
            steps += 1;
            assert!(steps < 50);
        }
        assert_eq!(rail.trouble(), Some(EcnTrouble::Dropped));
        assert_eq!(rail.retry_at, at(ms) + FIRST_WAIT);
        rail.enter(rail.retry_at, State::Trial(EcnTrouble::Dropped));
        (0..2).for_each(|_| rail.on_timeout(rail.since));
        assert_eq!(rail.state, State::Off(EcnTrouble::Dropped));
        assert_eq!(rail.retry_at, rail.since + 2 * FIRST_WAIT);
    }
}
