//! CUBIC at work on one subflow.

use std::time::Duration;

use braid_wire::Time;

use super::CubicConfig;
use super::delivered::Delivered;
use super::slow_start::SlowStart;
use crate::parameters::DEFAULT_WINDOW;
use crate::undo::Undo;
use crate::{AckSample, Controller, Loss, Metrics, RttSample, Spurious, Subflow};

/// RFC 6928.
const START_PACKETS: f64 = 10.0;
/// RFC 5681, section 3.1.
const MIN_PACKETS: f64 = 2.0;
/// Packets per cubed second (RFC 9438, section 5.1).
const C: f64 = 0.4;
/// How much larger the window may become in a round trip (RFC 9438, section 4.2).
const MAX_GROWTH: f64 = 1.5;
/// What a loss leaves of a window that has doubled since the lost packet left: what it was then (RFC 5681, section 3.1).
const DOUBLED: f64 = 0.5;
/// What slow start that overshot leaves of what the network carries, for queues to drain.
const DRAINED: f64 = 0.85;
/// Time-outs in a row that leave the smallest window (RFC 9002, section 7.6.1: about two probe time-outs).
const RESET_AFTER: u32 = 2;
/// Where the shortest round trip is at least this long, packets leave spread over it. Where it is shorter, acknowledgements keep
/// them apart better than timers could. This crate's choice, as is the next one.
const PACED_FROM: Duration = Duration::from_millis(1);
/// A window of more than [`DEFAULT_WINDOW`] grows while a round trip takes at most so many of the shortest: more would only wait
/// in queues, and on a fast network in the peer's receive buffer, which loses nothing for long.
const MOST_ROUND_TRIPS: u32 = 4;
/// How much faster than a window in a round trip packets leave. After slow start: RFC 9002, section 7.7. In slow start 2 ln 2 = 1.39 is
/// what a window leaves at that doubles in a round trip. More would only bunch packets together (Linux has 2), and a short
/// queue would lose some of them long before the link is full.
const START_GAIN: f64 = 1.5;
const GAIN: f64 = 1.25;

/// The state of one subflow. Invariant: two packets `<= window <= max`.
#[derive(Clone, Debug)]
pub struct Cubic {
    config: CubicConfig,
    packet: f64,
    /// Bytes.
    window: f64,
    /// Slow start below it. Infinite at first.
    threshold: f64,
    slow_start: SlowStart,
    /// Bytes: what it was at the latest cut, or less to make room for others.
    max_before: f64,
    /// What it was at the latest cut.
    before: f64,
    /// How it grows since that, once it does.
    curve: Option<Curve>,
    /// When it was cut last: what left before is acknowledged or lost without further consequences.
    cut_at: Option<Time>,
    /// Something that left before is still on its way.
    recovering: bool,
    delivered: Delivered,
    /// When a loss ended slow start, for a round trip.
    overshot_at: Option<Time>,
    undo: Undo<Memory>,
    timeouts: u32,
    smoothed: Option<Duration>,
    latest: Duration,
    shortest: Duration,
    acked_at: Time,
}

/// Growth since a cut (RFC 9438, section 4.2). Windows are in packets here, times in seconds.
#[derive(Clone, Copy, Debug)]
struct Curve {
    began: Time,
    /// The window on the plateau, and when it is reached.
    plateau: f64,
    k: f64,
    /// What Reno's window would be (section 4.3).
    reno: f64,
}

/// What there was before a cut for losses.
#[derive(Clone, Copy, Debug)]
struct Memory {
    window: f64,
    threshold: f64,
    max_before: f64,
    before: f64,
    curve: Option<Curve>,
}

impl Curve {
    fn new(now: Time, window: f64, max_before: f64) -> Self {
        let plateau = max_before.max(window);
        Curve { began: now, plateau, k: ((plateau - window) / C).cbrt(), reno: window }
    }

    /// The cubic function, so long after the beginning.
    fn at(&self, seconds: f64) -> f64 {
        let t = seconds - self.k;
        C * t * t * t + self.plateau
    }
}

impl Cubic {
    /// It starts with the window that is configured.
    pub fn new(config: CubicConfig, subflow: &Subflow) -> Self {
        let packet = subflow.packet_bytes.max(1) as f64;
        let start = config.start_window.map_or(START_PACKETS * packet, |start| start as f64);
        let mut cubic = Cubic {
            config,
            packet,
            window: 0.0,
            threshold: f64::INFINITY,
            slow_start: SlowStart::default(),
            max_before: 0.0,
            before: 0.0,
            curve: None,
            cut_at: None,
            recovering: false,
            delivered: Delivered::default(),
            overshot_at: None,
            undo: Undo::default(),
            timeouts: 0,
            smoothed: None,
            latest: Duration::ZERO,
            shortest: Duration::MAX,
            acked_at: Time::ZERO,
        };
        cubic.set_window(start);
        cubic
    }

    pub(super) fn set_window(&mut self, bytes: f64) {
        let least = MIN_PACKETS * self.packet;
        self.window = bytes.clamp(least, least.max(self.config.max_window as f64));
    }

    fn beta(&self) -> f64 {
        f64::from(self.config.beta_percent.clamp(1, 100)) / 100.0
    }

    fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Whether what left then has no consequences any more.
    fn is_settled(&self, sent_at: Time) -> bool {
        self.cut_at.is_some_and(|cut_at| sent_at <= cut_at)
    }

    fn on_rtt(&mut self, now: Time, sample: RttSample) {
        self.latest = sample.rtt;
        self.shortest = self.shortest.min(sample.rtt);
        self.smoothed = Some(match self.smoothed {
            None => sample.rtt,
            Some(smoothed) => smoothed - smoothed / 8 + sample.rtt / 8,
        });
        self.recovering &= self.is_settled(sample.sent_at);
        if self.is_slow_start() && self.slow_start.on_sample(now, sample) {
            self.threshold = self.window;
            (self.max_before, self.before) = (self.window, self.window);
        }
    }

    /// Slow start has ended by a loss. A window that doubles in a round trip overshoots by anything up to a factor of two, so that
    /// what it was says nothing about the network; how fast packets were delivered does, up to a round trip after the cut. That is the
    /// plateau now (TCP Westwood, Mascolo et al., MobiCom 2001, section 3), and the window not far below.
    fn end_overshoot(&mut self) {
        let carried = self.delivered.within(self.shortest).min(self.before);
        self.overshot_at = None;
        self.set_window(self.window.max(DRAINED * carried));
        self.threshold = self.threshold.min(self.window);
        let plateau = self.window.max(carried);
        (self.max_before, self.before) = (plateau, plateau);
    }

    fn grow(&mut self, now: Time, bytes: u64) {
        let is_long = self.latest > self.shortest.saturating_mul(MOST_ROUND_TRIPS);
        if self.recovering || (is_long && self.window >= DEFAULT_WINDOW as f64) {
            return self.pause(now);
        }
        if self.is_slow_start() {
            self.set_window(self.window + bytes as f64 * self.slow_start.share());
        } else {
            self.follow_curve(now, bytes as f64 / self.packet);
        }
    }

    /// RFC 9438, sections 4.2 to 4.5; `acked`: in packets.
    fn follow_curve(&mut self, now: Time, acked: f64) {
        let window = self.window / self.packet;
        let (max_before, before) = (self.max_before / self.packet, self.before / self.packet);
        let beta = self.beta();
        let curve = self.curve.get_or_insert_with(|| Curve::new(now, window, max_before));
        let elapsed = (now - curve.began).as_secs_f64();
        let round_trip = self.smoothed.unwrap_or_default().as_secs_f64();
        let target = curve.at(elapsed + round_trip).clamp(window, MAX_GROWTH * window);
        let alpha = if curve.reno < before { 3.0 * (1.0 - beta) / (1.0 + beta) } else { 1.0 };
        curve.reno += alpha * acked / window;
        let cubic = window + (target - window) * (acked / window).min(1.0);
        let grown = if curve.at(elapsed) < curve.reno { curve.reno.max(window) } else { cubic };
        self.set_window(grown * self.packet);
    }

    /// No time passes for a window that is not used, or may not grow (RFC 9438, section 5.8).
    fn pause(&mut self, now: Time) {
        let passed = now - self.acked_at;
        if let Some(curve) = &mut self.curve {
            curve.began += passed;
        }
    }

    /// Keeps `share` of the window.
    fn cut(&mut self, now: Time, share: f64) {
        let shrinks = self.window < self.max_before;
        // Fast convergence (RFC 9438, section 4.7): who has less than before leaves more to others.
        let keeps = if shrinks { (1.0 + share) / 2.0 } else { 1.0 };
        (self.max_before, self.before) = (self.window * keeps, self.window);
        self.set_window(self.window * share);
        self.threshold = self.window;
        (self.curve, self.cut_at, self.recovering) = (None, Some(now), true);
        self.overshot_at = None;
    }

    fn on_marks(&mut self, ack: &AckSample) {
        // About when they left, if that is not known.
        let round_trip = self.smoothed.unwrap_or_default().as_nanos() as u64;
        let usual = Time::from_nanos(ack.now.as_nanos().saturating_sub(round_trip));
        if !self.is_settled(ack.rtt.map_or(usual, |sample| sample.sent_at)) {
            self.cut(ack.now, f64::from(self.config.mark_percent.clamp(1, 100)) / 100.0);
            self.undo.forget();
        }
    }

    /// What a cut takes back if it was for nothing.
    fn memory(&self) -> Memory {
        let Cubic { window, threshold, max_before, before, curve, .. } = *self;
        Memory { window, threshold, max_before, before, curve }
    }

    fn bits_per_second(&self) -> Option<u64> {
        let round_trip = self.smoothed.filter(|_| self.shortest >= PACED_FROM)?;
        let gain = if self.is_slow_start() { START_GAIN } else { GAIN };
        Some((gain * self.window * 8.0 / round_trip.as_secs_f64()) as u64)
    }
}

impl Controller for Cubic {
    fn on_ack(&mut self, ack: &AckSample) {
        if ack.packets > 0 {
            self.timeouts = 0;
        }
        if self.is_slow_start() || self.overshot_at.is_some() {
            self.delivered.on_ack(ack.now, ack.bytes, self.shortest);
        }
        if self.overshot_at.is_some_and(|at| ack.now - at >= self.shortest) {
            self.end_overshoot();
        }
        if let Some(sample) = ack.rtt {
            self.on_rtt(ack.now, sample);
        }
        if ack.marks > 0 {
            self.on_marks(ack);
        }
        if ack.app_limited {
            self.pause(ack.now);
        } else if ack.bytes > 0 {
            self.grow(ack.now, ack.bytes);
        }
        self.acked_at = ack.now;
    }

    fn on_loss(&mut self, loss: &Loss) {
        if self.is_settled(loss.sent_at) {
            return self.undo.on_lost(loss.packets);
        }
        self.undo.on_loss(loss, self.smoothed.unwrap_or_default(), self.memory());
        let ends_slow_start = self.is_slow_start();
        self.cut(loss.now, if ends_slow_start { DOUBLED.min(self.beta()) } else { self.beta() });
        self.overshot_at = ends_slow_start.then_some(loss.now);
    }

    fn on_spurious(&mut self, spurious: &Spurious) {
        if let Some(memory) = self.undo.on_spurious(spurious.packets) {
            let Memory { window, threshold, max_before, before, curve } = memory;
            self.set_window(window.max(self.window));
            (self.threshold, self.max_before, self.before) = (threshold, max_before, before);
            (self.curve, self.recovering) = (curve, false);
            self.overshot_at = None;
        }
    }

    fn on_timeout(&mut self, now: Time) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts == RESET_AFTER {
            self.undo.on_cut(now, self.smoothed.unwrap_or_default(), self.memory(), 0);
            self.cut(now, self.beta());
            self.set_window(0.0);
            // The network may be another one.
            (self.shortest, self.slow_start) = (Duration::MAX, SlowStart::default());
            self.delivered = Delivered::default();
        }
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn rate(&mut self, _now: Time) -> Option<u64> {
        self.bits_per_second()
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window(), bits_per_second: self.bits_per_second() }
    }
}
