//! The state of NSCC for one subflow.

use std::time::Duration;

use braid_wire::Time;

use super::config::NsccConfig;
use super::increase::Increase;
use super::network::Network;
use super::quick_adapt::{Decision, QuickAdapt, Signal};
use crate::bandwidth::Bandwidth;
use crate::base_rtt::BaseRtt;
use crate::undo::Undo;
use crate::{AckSample, Controller, Loss, Metrics, Spurious, Subflow};

/// `gamma`: the share of the relative excess over the target by which the window shrinks.
const GAMMA: f64 = 0.8;
/// `max_md_jump`: the share of the window that a reduction leaves at least.
const LEAST_SHARE: f64 = 0.5;
/// Initial window if the line or the round trip of the network is unknown (RFC 6928).
const START_PACKETS: f64 = 10.0;
/// Time-outs in a row that leave one packet. The first one only sends a probe.
const RESET_AFTER: u32 = 2;

/// The state of one subflow. Invariant: `packet <= window`.
#[derive(Clone, Debug)]
pub struct Nscc {
    config: NsccConfig,
    packet: f64,
    window: f64,
    base_rtt: BaseRtt,
    bandwidth: Bandwidth,
    /// The averaged queueing delay in seconds.
    delay: f64,
    increase: Increase,
    quick_adapt: QuickAdapt,
    cut: Cut,
    /// The window before a reduction for losses, and `is_starting`.
    undo: Undo<(f64, bool)>,
    /// Whether the window doubles in each round trip without late packets, because its size was a
    /// guess. Losses, marks and QuickAdapt end that. This crate's choice.
    is_starting: bool,
    /// Time-outs since the last acknowledgement.
    timeouts: u32,
}

/// The pace of reductions.
#[derive(Clone, Copy, Default, Debug)]
struct Cut {
    /// The latest round trip.
    rtt: Duration,
    /// The time of the last multiplicative decrease.
    last: Option<Time>,
}

impl Nscc {
    /// Creates a controller that starts with the maximum window if the network is given, and with
    /// ten packets otherwise.
    pub fn new(config: NsccConfig, subflow: &Subflow) -> Self {
        let packet = subflow.packet_bytes.max(1);
        let config = NsccConfig { max_window: config.max_window.max(packet), ..config };
        let is_given = config.line_bits_per_second.is_some() && config.network_rtt.is_some();
        let mut nscc = Nscc {
            config,
            packet: packet as f64,
            window: 0.0,
            base_rtt: BaseRtt::default(),
            bandwidth: Bandwidth::default(),
            delay: 0.0,
            increase: Increase::default(),
            quick_adapt: QuickAdapt::default(),
            cut: Cut::default(),
            undo: Undo::default(),
            is_starting: !is_given,
            timeouts: 0,
        };
        let start = if is_given { f64::INFINITY } else { START_PACKETS * nscc.packet };
        nscc.set_window(start);
        nscc
    }

    fn network(&self) -> Option<Network> {
        let rate = self.bandwidth.bytes_per_second();
        Network::new(&self.config, self.base_rtt.get(), rate)
    }

    fn set_window(&mut self, bytes: f64) {
        let most = self.network().map_or(self.config.max_window as f64, |net| net.max_window);
        self.window = bytes.clamp(self.packet, most.max(self.packet));
    }

    /// Takes the round trip of an acknowledgement into the average, and returns its queueing delay.
    /// If it has none, that is the average.
    ///
    /// Without the line's rate, the maximum does not bound the damage of a wrong decision, so it is
    /// the average, too: a single late packet is no congestion. This crate's choice.
    fn sample(&mut self, ack: &AckSample, network: &Network) -> f64 {
        let Some(sample) = ack.rtt else { return self.delay };
        let delay = (sample.rtt.as_secs_f64() - network.base_rtt).max(0.0);
        self.average(delay, ack.bytes as f64);
        if self.config.line_bits_per_second.is_none() { self.delay } else { delay }
    }

    /// Averages the delay over about one window. This crate's choice: htsim gives each
    /// acknowledgement a weight of 1/80.
    fn average(&mut self, delay: f64, bytes: f64) {
        let weight = (bytes / self.window).min(1.0);
        self.delay += weight * (delay - self.delay);
    }

    /// Lets QuickAdapt decide. Returns whether the other rules apply.
    fn passes(&mut self, signal: &Signal, network: &Network) -> bool {
        match self.quick_adapt.judge(signal, network, self.config.trimming) {
            Decision::Pass => return true,
            Decision::Ignore => {}
            Decision::Set(bytes) => {
                self.is_starting = false;
                self.undo.forget();
                self.set_window(bytes);
            }
        }
        self.increase.restart();
        false
    }

    fn grow(&mut self, bytes: f64, delay: f64, network: &Network) {
        let more = if self.is_starting && delay < network.target {
            bytes
        } else {
            self.increase.collect(network, (bytes, self.packet), delay, self.window)
        };
        self.set_window(self.window + more);
    }

    /// Reduces the window by the excess of the average delay over the target, at most once per base
    /// round trip.
    fn decrease(&mut self, now: Time, network: &Network) {
        self.increase.slow_down();
        self.is_starting = false;
        let base_rtt = Duration::from_secs_f64(network.base_rtt);
        let is_allowed = self.cut.last.is_none_or(|last| now - last > base_rtt);
        if self.delay > network.target && is_allowed {
            let excess = (self.delay - network.target) / self.delay;
            let share = (1.0 - GAMMA * excess).max(LEAST_SHARE);
            self.undo.change(|(before, _)| *before *= share);
            self.set_window(self.window * share);
            self.cut.last = Some(now);
        }
    }
}

impl Controller for Nscc {
    fn on_ack(&mut self, ack: &AckSample) {
        if ack.packets > 0 {
            self.timeouts = 0;
        }
        if let Some(sample) = ack.rtt {
            self.cut.rtt = sample.rtt;
            self.base_rtt.on_sample(ack.now, sample.sent_at, sample.rtt);
        }
        let Some(network) = self.network() else { return };
        let rtt = Duration::from_secs_f64(network.rtt);
        self.bandwidth.on_ack(ack.now, ack.bytes, rtt, ack.app_limited);
        let delay = self.sample(ack, &network);
        let is_idle = ack.app_limited || self.base_rtt.is_probing();
        let (bytes, is_marked) = (ack.bytes as f64, ack.marks > 0);
        let in_flight = ack.in_flight.saturating_sub(ack.bytes) as f64;
        self.quick_adapt.on_acked(bytes, in_flight, is_idle);
        self.increase.on_acked(bytes);
        let signal = Signal { now: ack.now, is_trimmed: false, is_marked, delay };
        if !self.passes(&signal, &network) {
            return;
        }
        let unmarked = ack.packets.saturating_sub(ack.marks);
        if unmarked > 0 && !is_idle {
            let share = f64::from(unmarked) / f64::from(ack.packets);
            self.grow(bytes * share, delay, &network);
        }
        if is_marked && delay >= network.target {
            self.decrease(ack.now, &network);
        }
        let more = self.increase.apply(ack.now, &network, (self.window, self.packet), !is_idle);
        self.set_window(self.window + more);
    }

    fn on_loss(&mut self, loss: &Loss) {
        let bytes = loss.bytes as f64;
        self.quick_adapt.on_lost(bytes);
        self.undo.on_loss(loss, self.cut.rtt, (self.window, self.is_starting));
        self.is_starting = false;
        self.set_window(self.window - bytes);
    }

    /// Takes the packets from the window, unless QuickAdapt sets it. A trimmed packet has met a
    /// full queue, so that the round trip of the network stands for its delay.
    fn on_trimmed(&mut self, loss: &Loss) {
        let Some(network) = self.network() else { return self.on_loss(loss) };
        let bytes = loss.bytes as f64;
        self.is_starting = false;
        self.average(network.rtt, bytes);
        self.quick_adapt.on_lost(bytes);
        let signal = Signal { now: loss.now, is_trimmed: true, is_marked: true, delay: 0.0 };
        if self.passes(&signal, &network) {
            self.undo.change(|(before, _)| *before -= bytes);
            self.set_window(self.window - bytes);
        }
    }

    fn on_spurious(&mut self, spurious: &Spurious) {
        if let Some((before, was_starting)) = self.undo.on_spurious(spurious.packets) {
            self.set_window(before.max(self.window));
            self.is_starting |= was_starting;
        }
    }

    /// Leaves one packet after two time-outs in a row, as TCP does (RFC 5681, section 3.1). This
    /// crate's choice: htsim takes away the bytes that timed out, which are reported as losses here
    /// once they are known to be lost.
    fn on_timeout(&mut self, now: Time) {
        self.timeouts = self.timeouts.saturating_add(1);
        self.increase.slow_down();
        if self.timeouts >= RESET_AFTER {
            self.undo.on_cut(now, self.cut.rtt, (self.window, self.is_starting), 0);
            self.is_starting = false;
            self.set_window(0.0);
        }
    }

    fn window(&self) -> u64 {
        (if self.base_rtt.is_probing() { self.packet } else { self.window }) as u64
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window(), bits_per_second: None }
    }
}
