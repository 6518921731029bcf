//! The states, and the schedule of probes for bandwidth in ProbeBW (section 5.3.3).

use std::time::Duration;

use braid_wire::Time;

/// Shortest time between two probes. A random part of a second is added (section 5.3.3.9).
const WAIT: Duration = Duration::from_secs(2);
const RANDOM_WAIT: u64 = 1_000_000_000;
/// Most round trips between two probes. A flow of Reno or CUBIC recovers from a loss in about as
/// many (section 5.3.3.8.3).
const MOST_ROUNDS: f64 = 63.0;

/// The states (section 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// Gain of the pacing rate (section 5.6.1).
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            State::Startup => 2.77,
            State::Drain => 0.5,
            State::Down => 0.9,
            State::Up => 1.25,
            State::Cruise | State::Refill | State::ProbeRtt => 1.0,
        }
    }

    /// Gain of the window (section 5.6.1).
    pub(super) fn window_gain(self) -> f64 {
        match self {
            State::Up => 2.25,
            State::ProbeRtt => 0.5,
            _ => 2.0,
        }
    }

    /// Whether this is one of the states of ProbeBW.
    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// Whether the flow accelerates.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}

/// The meaning of acknowledgements for a probe (section 2.14, `ack_phase`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Acks {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The present ProbeBW cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    pub(super) acks: Acks,
    /// Whether acknowledgements are of packets that probed for bandwidth, and no loss has ended the
    /// probe yet.
    pub(super) is_probe_sample: bool,
    /// Whether the latest probe lost too much.
    pub(super) was_too_high: bool,
    /// Whether the latest probe ended early, because the one before lost too much (section
    /// 5.3.3.6).
    pub(super) was_precautionary: bool,
    began: Time,
    wait: Duration,
    rounds: u32,
    /// State of the pseudo-random numbers.
    random: u64,
    /// Acknowledged bytes that raise the long-term bound by a packet, and the bytes acknowledged
    /// since it was raised.
    bytes_per_raise: f64,
    acked: f64,
    /// Round trips in which the bound was raised.
    raises: u32,
}

impl Cycle {
    pub(super) fn new() -> Self {
        Cycle {
            acks: Acks::Init,
            is_probe_sample: false,
            was_too_high: false,
            was_precautionary: false,
            began: Time::ZERO,
            wait: Duration::ZERO,
            rounds: 0,
            random: 0,
            bytes_per_raise: f64::INFINITY,
            acked: 0.0,
            raises: 0,
        }
    }

    /// Begins the wait for the next probe (`PickProbeWait`). The time is the only source of
    /// randomness here: flows whose acknowledgements arrive at different times wait differently.
    pub(super) fn begin(&mut self, now: Time) {
        self.random = mixed(self.random ^ now.as_nanos());
        (self.acks, self.began) = (Acks::ProbeStopping, now);
        self.rounds = (self.random >> 63) as u32;
        self.wait = WAIT + Duration::from_nanos(self.random % RANDOM_WAIT);
        self.bytes_per_raise = f64::INFINITY;
    }

    pub(super) fn on_round(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
    }

    /// Returns whether it is time for a probe. `target`: packets to have in flight, which is the
    /// number of round trips that Reno takes to recover from a loss.
    pub(super) fn is_over(&self, now: Time, target: f64) -> bool {
        now - self.began > self.wait || f64::from(self.rounds) >= target.min(MOST_ROUNDS)
    }

    pub(super) fn begin_refill(&mut self) {
        (self.acks, self.was_precautionary) = (Acks::Refilling, false);
        (self.raises, self.acked) = (0, 0.0);
    }

    /// Doubles the speed at which the long-term bound rises (section 5.3.3.5).
    pub(super) fn accelerate(&mut self, window: f64, packet: f64) {
        let raises = f64::from(1_u32 << self.raises);
        self.raises = (self.raises + 1).min(30);
        self.bytes_per_raise = (window / raises).max(packet);
    }

    /// Processes acknowledged bytes. Returns the number of packets by which the long-term bound
    /// rises.
    pub(super) fn raise(&mut self, bytes: u64) -> f64 {
        self.acked += bytes as f64;
        let packets = (self.acked / self.bytes_per_raise).floor();
        if packets > 0.0 {
            self.acked -= packets * self.bytes_per_raise;
        }
        packets
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn mixed(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    seed ^ (seed >> 31)
}
