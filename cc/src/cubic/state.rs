//! The state of CUBIC for one subflow.

use std::time::Duration;

use braid_wire::Time;

use super::CubicConfig;
use super::delivered::Delivered;
use super::slow_start::SlowStart;
use crate::quantity::DEFAULT_WINDOW;
use crate::undo::Undo;
use crate::{AckSample, Controller, Loss, Metrics, RttSample, Spurious, Subflow};

/// Initial window (RFC 6928).
const START_PACKETS: f64 = 10.0;
/// Minimum window (RFC 5681, section 3.1).
const MIN_PACKETS: f64 = 2.0;
/// Packets per cubed second (RFC 9438, section 5.1).
const C: f64 = 0.4;
/// Maximum growth of the window in a round trip (RFC 9438, section 4.2).
const MAX_GROWTH: f64 = 1.5;
/// Share of the window that remains after a loss in slow start. The window has doubled since the
/// lost packet was sent (RFC 5681, section 3.1).
const DOUBLED: f64 = 0.5;
/// Share of the network's capacity that remains after slow start overshot, so that queues drain.
const DRAINED: f64 = 0.85;
/// Consecutive time-outs that reset the window (RFC 9002, section 7.6.1: about two probe
/// time-outs).
const RESET_AFTER: u32 = 2;
/// Shortest round trip that is paced. On shorter ones, acknowledgements space packets better than
/// timers. This crate's choice, like the next constant.
const PACED_FROM: Duration = Duration::from_millis(1);
/// Maximum round trip, in shortest round trips, at which a window above [`DEFAULT_WINDOW`] grows. A
/// larger window would only fill queues and, on a fast network, the peer's receive buffer.
const MOST_ROUND_TRIPS: u32 = 4;
/// Pacing rates in windows per round trip.
///
/// After slow start: RFC 9002, section 7.7. In slow start: a window that doubles per round trip
/// sends at 2 ln 2 = 1.39. A higher rate, such as Linux's 2, would only create bursts, and a short
/// queue would drop packets before the link is full.
const START_GAIN: f64 = 1.5;
const GAIN: f64 = 1.25;

/// The state of one subflow. Invariant: two packets `<= window <= max`.
#[derive(Clone, Debug)]
pub struct Cubic {
    config: CubicConfig,
    packet: f64,
    growth: Growth,
    slow_start: SlowStart,
    /// Time of the latest reduction. Packets sent before it have no further effect.
    cut_at: Option<Time>,
    /// Whether a packet sent before the latest reduction is still outstanding.
    recovering: bool,
    delivered: Delivered,
    /// Time of the loss that ended slow start, for one round trip.
    overshot_at: Option<Time>,
    undo: Undo<Growth>,
    timeouts: u32,
    smoothed: Option<Duration>,
    latest: Duration,
    shortest: Duration,
    acked_at: Time,
}

/// The part of the state that a spurious loss restores.
#[derive(Clone, Copy, Debug)]
struct Growth {
    /// Window in bytes.
    window: f64,
    /// Slow-start threshold in bytes, initially infinite.
    threshold: f64,
    /// Window before the latest reduction in bytes, or less to yield bandwidth to other flows.
    /// After slow start: the estimate of the network's capacity.
    max_before: f64,
    /// Like `max_before`, but without yielding bandwidth.
    before: f64,
    /// Growth since the latest reduction, once it has started.
    curve: Option<Curve>,
}

/// Growth since a reduction (RFC 9438, section 4.2). Windows are in packets, times in seconds.
#[derive(Clone, Copy, Debug)]
struct Curve {
    began: Time,
    /// Window of the plateau, and the time at which the curve reaches it.
    plateau: f64,
    k: f64,
    /// Window of Reno (section 4.3).
    reno: f64,
}

impl Curve {
    fn new(now: Time, window: f64, max_before: f64) -> Self {
        let plateau = max_before.max(window);
        Curve { began: now, plateau, k: ((plateau - window) / C).cbrt(), reno: window }
    }

    /// Returns the cubic function `seconds` after its start.
    fn at(&self, seconds: f64) -> f64 {
        let t = seconds - self.k;
        C * t * t * t + self.plateau
    }
}

impl Cubic {
    /// Creates a controller with the initial window.
    pub fn new(config: CubicConfig, subflow: &Subflow) -> Self {
        let packet = subflow.packet_bytes.max(1) as f64;
        let start = config.start_window.map_or(START_PACKETS * packet, |start| start as f64);
        let mut cubic = Cubic {
            config,
            packet,
            growth: Growth {
                window: 0.0,
                threshold: f64::INFINITY,
                max_before: 0.0,
                before: 0.0,
                curve: None,
            },
            slow_start: SlowStart::default(),
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
        self.growth.window = bytes.clamp(least, least.max(self.config.max_window as f64));
    }

    fn beta(&self) -> f64 {
        f64::from(self.config.beta_percent.clamp(1, 100)) / 100.0
    }

    fn is_slow_start(&self) -> bool {
        self.growth.window < self.growth.threshold
    }

    /// Returns whether a packet sent at `sent_at` has no further effect.
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
            self.growth.threshold = self.growth.window;
            (self.growth.max_before, self.growth.before) = (self.growth.window, self.growth.window);
        }
    }

    /// Sets the plateau one round trip after a loss ended slow start.
    ///
    /// A window that doubles per round trip overshoots by a factor of up to two, so it does not
    /// show the network's capacity. The delivery rate shows it, up to one round trip after the
    /// reduction. The plateau is that capacity (TCP Westwood, Mascolo et al., MobiCom 2001, section
    /// 3), and the window starts just below it.
    fn end_overshoot(&mut self) {
        let carried = self.delivered.within(self.shortest).min(self.growth.before);
        self.overshot_at = None;
        self.set_window(self.growth.window.max(DRAINED * carried));
        self.growth.threshold = self.growth.threshold.min(self.growth.window);
        let plateau = self.growth.window.max(carried);
        (self.growth.max_before, self.growth.before) = (plateau, plateau);
    }

    fn grow(&mut self, now: Time, bytes: u64) {
        let is_long = self.latest > self.shortest.saturating_mul(MOST_ROUND_TRIPS);
        if self.recovering || (is_long && self.growth.window >= DEFAULT_WINDOW as f64) {
            return self.pause(now);
        }
        if self.is_slow_start() {
            self.set_window(self.growth.window + bytes as f64 * self.slow_start.share());
        } else {
            self.follow_curve(now, bytes as f64 / self.packet);
        }
    }

    /// Grows along the curve (RFC 9438, sections 4.2 to 4.5). `acked` is in packets.
    fn follow_curve(&mut self, now: Time, acked: f64) {
        let window = self.growth.window / self.packet;
        let (max_before, before) =
            (self.growth.max_before / self.packet, self.growth.before / self.packet);
        let beta = self.beta();
        let curve = self.growth.curve.get_or_insert_with(|| Curve::new(now, window, max_before));
        let elapsed = (now - curve.began).as_secs_f64();
        let round_trip = self.smoothed.unwrap_or_default().as_secs_f64();
        let target = curve.at(elapsed + round_trip).clamp(window, MAX_GROWTH * window);
        let alpha = if curve.reno < before { 3.0 * (1.0 - beta) / (1.0 + beta) } else { 1.0 };
        curve.reno += alpha * acked / window;
        let cubic = window + (target - window) * (acked / window).min(1.0);
        let grown = if curve.at(elapsed) < curve.reno { curve.reno.max(window) } else { cubic };
        self.set_window(grown * self.packet);
    }

    /// Stops the curve's clock while the window is unused or may not grow (RFC 9438, section 5.8).
    fn pause(&mut self, now: Time) {
        let passed = now - self.acked_at;
        if let Some(curve) = &mut self.growth.curve {
            curve.began += passed;
        }
    }

    /// Reduces the window to `share`.
    fn cut(&mut self, now: Time, share: f64) {
        let shrinks = self.growth.window < self.growth.max_before;
        // Fast convergence (RFC 9438, section 4.7): a flow whose window shrinks yields bandwidth.
        let keeps = if shrinks { (1.0 + share) / 2.0 } else { 1.0 };
        (self.growth.max_before, self.growth.before) =
            (self.growth.window * keeps, self.growth.window);
        self.set_window(self.growth.window * share);
        self.growth.threshold = self.growth.window;
        (self.growth.curve, self.cut_at, self.recovering) = (None, Some(now), true);
        self.overshot_at = None;
    }

    fn on_marks(&mut self, ack: &AckSample) {
        // Without a sample, the packets left about one round trip ago.
        let round_trip = self.smoothed.unwrap_or_default().as_nanos() as u64;
        let usual = Time::from_nanos(ack.now.as_nanos().saturating_sub(round_trip));
        if !self.is_settled(ack.rtt.map_or(usual, |sample| sample.sent_at)) {
            self.cut(ack.now, f64::from(self.config.mark_percent.clamp(1, 100)) / 100.0);
            self.undo.forget();
        }
    }

    fn bits_per_second(&self) -> Option<u64> {
        let round_trip = self.smoothed.filter(|_| self.shortest >= PACED_FROM)?;
        let gain = if self.is_slow_start() { START_GAIN } else { GAIN };
        Some((gain * self.growth.window * 8.0 / round_trip.as_secs_f64()) as u64)
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
        self.undo.on_loss(loss, self.smoothed.unwrap_or_default(), self.growth);
        let ends_slow_start = self.is_slow_start();
        self.cut(loss.now, if ends_slow_start { DOUBLED.min(self.beta()) } else { self.beta() });
        self.overshot_at = ends_slow_start.then_some(loss.now);
    }

    fn on_spurious(&mut self, spurious: &Spurious) {
        if let Some(before) = self.undo.on_spurious(spurious.packets) {
            let window = self.growth.window;
            self.growth = before;
            self.set_window(before.window.max(window));
            self.recovering = false;
            self.overshot_at = None;
        }
    }

    fn on_timeout(&mut self, now: Time) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts == RESET_AFTER {
            self.undo.on_cut(now, self.smoothed.unwrap_or_default(), self.growth, 0);
            self.cut(now, self.beta());
            self.set_window(0.0);
            // The route may have changed.
            (self.shortest, self.slow_start) = (Duration::MAX, SlowStart::default());
            self.delivered = Delivered::default();
        }
    }

    fn window(&self) -> u64 {
        self.growth.window as u64
    }

    fn rate(&mut self, _now: Time) -> Option<u64> {
        self.bits_per_second()
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window(), bits_per_second: self.bits_per_second() }
    }
}
