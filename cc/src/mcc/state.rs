//! The state of MCC for one subflow.

use std::time::Duration;

use braid_wire::Time;

use super::MccConfig;
use super::delay::AverageDelay;
use super::oversubscription::Oversubscription;
use crate::bandwidth::Bandwidth;
use crate::base_rtt::BaseRtt;
use crate::cuts::Cuts;
use crate::undo::Undo;
use crate::{AckSample, Chunk, Controller, Loss, Metrics, Spurious, Subflow};

/// Queueing delay: 64 us (table 1) minus the base round trip of figure 1's network at 1 us per
/// link, 8 us.
const QUEUE_DELAY: Duration = Duration::from_micros(56);
/// Minimum queueing delay in base round trips. This crate's choice: half of the maximum delay must
/// exceed the base round trip, or no message would be in time. With two, half a base round trip
/// remains for the queue on average.
const QUEUE_DELAY_IN_BASE_RTTS: u32 = 2;

/// The state of one subflow. Invariant: `message <= window <= max_window`.
#[derive(Clone, Debug)]
pub struct Mcc {
    config: MccConfig,
    /// Length of a message in bytes on the wire: whole packets.
    message: f64,
    /// Window in bytes, not rounded to whole messages.
    window: f64,
    base_rtt: BaseRtt,
    bandwidth: Bandwidth,
    oversubscription: Oversubscription,
    /// The average delay of the messages that were sent since the last reduction.
    delay: AverageDelay,
    cuts: Cuts,
    /// The window before a reduction for losses.
    undo: Undo<f64>,
    app_limited: bool,
}

/// The congestion that messages reveal (section 3).
#[derive(Clone, Copy, PartialEq, Debug)]
enum Congestion {
    None,
    Partial,
    /// The average delay is so many targets.
    Global(f64),
}

impl Mcc {
    /// Creates a controller that starts with the configured bandwidth-delay product, or with one
    /// message.
    pub fn new(config: MccConfig, subflow: &Subflow) -> Self {
        let packet = subflow.packet_bytes.max(1);
        let message = config.message.max(1).div_ceil(packet).saturating_mul(packet);
        let config = MccConfig { max_window: config.max_window.max(message), ..config };
        let mut mcc = Mcc {
            config,
            message: message as f64,
            window: message as f64,
            base_rtt: BaseRtt::new(config.base_rtt),
            bandwidth: Bandwidth::default(),
            oversubscription: Oversubscription::new(
                config.oversubscription.or(subflow.oversubscription),
            ),
            delay: AverageDelay::default(),
            cuts: Cuts::new(config.max_cut_percent),
            undo: Undo::default(),
            app_limited: true,
        };
        mcc.set_window(mcc.bandwidth_delay_product());
        mcc
    }

    fn set_window(&mut self, bytes: f64) {
        self.window = bytes.clamp(self.message, self.config.max_window as f64);
    }

    /// Returns the bandwidth, or 0 if it is unknown.
    fn bytes_per_second(&self) -> f64 {
        let given = self.config.line_bits_per_second.map(|bits| bits as f64 / 8.0);
        given.unwrap_or_else(|| self.bandwidth.bytes_per_second())
    }

    fn bandwidth_delay_product(&self) -> f64 {
        self.bytes_per_second() * self.base_rtt.get().unwrap_or_default().as_secs_f64()
    }

    /// Returns the transmission time of `bytes` at the bandwidth, or zero if the bandwidth is
    /// unknown.
    fn transmission(&self, bytes: u64) -> Duration {
        match self.bytes_per_second() {
            rate if rate >= 1.0 => {
                Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX)
            }
            _ => Duration::ZERO,
        }
    }

    fn target_max_delay(&self, base_rtt: Duration) -> Duration {
        self.config.target_max_delay.unwrap_or_else(|| {
            let queue = self.config.queue_delay;
            let usual = QUEUE_DELAY.max(base_rtt.saturating_mul(QUEUE_DELAY_IN_BASE_RTTS));
            base_rtt.saturating_add(queue.unwrap_or(usual))
        })
    }

    /// Adds a chunk to the average and classifies the congestion. Returns `None` before the first
    /// sample of a round trip, and for a chunk that was sent before the last reduction.
    fn judge(&mut self, chunk: &Chunk) -> Option<Congestion> {
        let base_rtt = self.base_rtt.get()?;
        if self.cuts.came_after(chunk.first_sent) {
            return None;
        }
        let transmission = self.transmission(chunk.bytes);
        let target_max = self.target_max_delay(base_rtt);
        let target =
            self.config.target_msg_delay.unwrap_or(transmission.saturating_add(target_max / 2));
        // The paper sends a message as soon as the window has space for all of it. Here its packets
        // leave as the window moves, so the excess over their transmission time is not the
        // network's delay.
        let sending = (chunk.last_sent - chunk.first_sent).min(transmission);
        let waiting = (chunk.last_acked - chunk.last_sent).saturating_sub(chunk.peer_delay);
        let average = self.delay.add(sending.saturating_add(waiting), target);
        Some(match chunk.longest_rtt {
            _ if average > 1.0 => Congestion::Global(average),
            Some(longest) if longest > target_max => Congestion::Partial,
            _ => Congestion::None,
        })
    }

    /// Grows by about one step per window of messages: the bandwidth-delay product divided by the
    /// oversubscription (section 4).
    ///
    /// This crate's choices: the window doubles until the first reduction if the bandwidth is
    /// unknown, and a step is at least that of one message.
    fn grow(&mut self, bytes: u64) {
        let is_start = self.cuts.is_none() && self.config.line_bits_per_second.is_none();
        let product = self.bandwidth_delay_product().max(self.message);
        let step = product / self.oversubscription.ratio();
        let step = if is_start { step.max(self.window) } else { step };
        self.set_window(self.window + step * (bytes as f64 / self.window).min(1.0));
    }

    /// Reduces the window to `share`, at most once per round trip. Returns whether it does.
    fn cut(&mut self, now: Time, share: f64) -> bool {
        let allowed = self.cuts.allow(now);
        if allowed {
            self.set_window(self.window * share);
            self.delay.restart();
        }
        allowed
    }

    /// Processes global congestion: messages take `average` targets.
    fn on_congestion(&mut self, now: Time, average: f64) {
        let beta = f64::from(self.config.beta_percent.min(100)) / 100.0;
        let share = (1.0 - beta * (1.0 - 1.0 / average)).max(self.cuts.least_share());
        if self.cut(now, share) {
            self.undo.change(|before| *before *= share);
            let line = self.config.line_bits_per_second.map(|bits| bits as f64 / 8.0);
            let link = line.unwrap_or(self.bandwidth.peak());
            self.oversubscription.on_congestion(link, line.is_none(), self.bandwidth.latest());
        }
    }
}

impl Controller for Mcc {
    fn on_ack(&mut self, ack: &AckSample) {
        self.app_limited = ack.app_limited;
        if let Some(sample) = ack.rtt {
            self.cuts.on_rtt(sample.rtt);
            self.base_rtt.on_sample(ack.now, sample.sent_at, sample.rtt);
        }
        if let Some(base_rtt) = self.base_rtt.get() {
            self.bandwidth.on_ack(ack.now, ack.bytes, base_rtt, ack.app_limited);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        if !self.config.cut_on_loss {
            return;
        }
        let before = self.window;
        let cut = self.cut(loss.now, self.cuts.least_share());
        self.undo.on_loss_of(loss, cut, self.cuts.rtt(), before);
    }

    fn on_spurious(&mut self, spurious: &Spurious) {
        if let Some(before) = self.undo.on_spurious(spurious.packets) {
            self.set_window(before.max(self.window));
        }
    }

    /// Resets the window to one message, as TCP does (RFC 5681, section 3.1). This crate's choice.
    fn on_timeout(&mut self, now: Time) {
        self.undo.on_cut(now, self.cuts.rtt(), self.window, 0);
        self.cuts.force(now);
        self.delay.restart();
        self.set_window(self.message);
    }

    fn chunk_bytes(&self) -> Option<u64> {
        Some(self.message as u64)
    }

    fn on_chunk(&mut self, chunk: &Chunk) {
        match self.judge(chunk) {
            Some(Congestion::None) if !self.app_limited => self.grow(chunk.bytes),
            Some(Congestion::Global(average)) => self.on_congestion(chunk.last_acked, average),
            Some(Congestion::None | Congestion::Partial) | None => {}
        }
    }

    /// Returns whole messages, at least one: a message is sent once the window has space for it
    /// (section 4).
    fn window(&self) -> u64 {
        let messages =
            if self.base_rtt.is_probing() { 1.0 } else { (self.window / self.message).floor() };
        (messages * self.message) as u64
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window(), bits_per_second: None }
    }
}
