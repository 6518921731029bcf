//! The state machine of BBR for one subflow (sections 5.2 to 5.6).

use std::time::Duration;

use braid_wire::Time;

use super::config::BbrConfig;
use super::control::Control;
use super::cycle::{Acks, Cycle, State};
use super::delivery::{Delivery, FlightSample, RateSample};
use super::full_pipe::{FullPipe, GROWTH};
use super::loss_floor::LossFloor;
use super::model::{Path, ShortTerm};
use super::rounds::{Losses, NO_DELIVERY, ProbeRtt, Rounds};
use crate::undo::Undo;
use crate::{AckSample, Controller, Loss, Metrics, Spurious, Subflow};

/// Minimum duration of ProbeRTT (section 2.16.2).
const PROBE_RTT: Duration = Duration::from_millis(200);
/// Round trips after which Drain ends in any case (section 5.3.2).
const DRAIN_ROUNDS: u32 = 3;
/// Minimum number of lost packets in the round trip that ends Startup. The draft counts ranges of
/// lost packets (section 5.3.1.3), which controllers do not see.
const START_LOSSES: u64 = 6;
/// A flow is limited by its window if at least this share of it is in flight. The sender waits for
/// room for a batch, a quarter of what is in flight.
const LIMITED: f64 = 0.8;
/// Consecutive time-outs that reduce the window to its minimum, as in this crate's CUBIC (RFC 9002,
/// section 7.6.1). The draft reduces it at the first one (section 5.6.4.4), but here that is a
/// probe.
const RESET_AFTER: u32 = 2;

/// The state of one subflow.
#[derive(Clone, Debug)]
pub struct Bbr {
    config: BbrConfig,
    pub(super) state: State,
    delivery: Delivery,
    pub(super) path: Path,
    rounds: Rounds,
    losses: Losses,
    full_pipe: FullPipe,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    control: Control,
    undo: Undo<Saved>,
    timeouts: u32,
}

/// The part of the state that spurious losses restore (section 5.5.11).
#[derive(Clone, Copy, Debug)]
struct Saved {
    window: f64,
    short_term: ShortTerm,
    long_term: f64,
    /// The state that the losses have ended: Startup or ProbeBW_UP.
    ended: Option<State>,
}

impl Bbr {
    /// Creates a controller with the initial window.
    pub fn new(config: BbrConfig, subflow: &Subflow) -> Self {
        let (packet, state) = (subflow.packet_bytes.max(1) as f64, State::Startup);
        Bbr {
            config,
            state,
            delivery: Delivery::new(),
            path: Path::new(LossFloor::new(config.loss_floor, packet)),
            rounds: Rounds::default(),
            losses: Losses::default(),
            full_pipe: FullPipe::default(),
            cycle: Cycle::new(),
            probe_rtt: ProbeRtt::default(),
            control: Control::new(&config, packet, state.pacing_gain()),
            undo: Undo::default(),
            timeouts: 0,
        }
    }

    fn loss_threshold(&self) -> f64 {
        f64::from(self.config.loss_percent.clamp(1, 100)) / 100.0
    }

    fn beta(&self) -> f64 {
        f64::from(self.config.beta_percent.clamp(1, 100)) / 100.0
    }

    fn in_flight(&self) -> f64 {
        self.delivery.in_flight() as f64
    }

    /// Returns the bandwidth-delay product, or the initial window if it is unknown.
    fn product(&self) -> f64 {
        self.path.product().unwrap_or(self.control.start())
    }

    /// Returns the volume in flight that the model allows (section 5.6.4.2).
    fn most_in_flight(&self, gain: f64, extra: f64) -> f64 {
        let volume = (gain * self.product() + extra).max(self.control.offload_budget());
        match self.state {
            State::Up => volume + 2.0 * self.control.packet,
            _ => volume,
        }
    }

    fn with_headroom(&self) -> f64 {
        self.path.with_headroom(self.control.packet).max(self.control.least())
    }

    /// Returns the volume that should be in flight (`TargetInflight`).
    fn target(&self) -> f64 {
        self.product().min(self.control.window())
    }

    fn probe_rtt_window(&self) -> f64 {
        (State::ProbeRtt.window_gain() * self.product()).max(self.control.least())
    }

    // ----- Model (section 5.2.3) -----

    /// Updates the model and the state after an acknowledgement.
    fn update(&mut self, ack: &AckSample, sample: &RateSample) {
        self.control.on_rtt(sample.rtt, self.state.pacing_gain());
        let round_ends = sample.prior_delivered >= self.losses.ends_at;
        self.note_delivery(sample);
        self.begin_round_with(sample, ack.now);
        if round_ends {
            self.end_loss_round();
        }
        if self.rounds.is_start && !sample.flight.is_app_limited {
            self.full_pipe.on_round(sample.rate.unwrap_or_default());
        }
        if self.rounds.is_start && self.state == State::Startup {
            self.path.loss_floor.on_start_round(!self.full_pipe.is_flat());
        }
        if self.state == State::Startup && self.full_pipe.was_full {
            self.enter_drain(ack.now);
        }
        if self.state == State::Drain && self.is_drained() {
            self.start_down(ack.now);
        }
        if self.full_pipe.was_full {
            self.advance_cycle(ack, sample);
        }
        let is_due = self.path.min_rtt.on_sample(ack.now, sample.rtt);
        self.follow_probe_rtt(ack.now, is_due);
        if sample.flight.delivered > 0 {
            self.probe_rtt.after_idle = false;
        }
        if round_ends {
            self.losses.latest = self.delivery_of(sample);
        }
    }

    /// Records the delivery rate of a sample. Called again for each further path of the same
    /// acknowledgement, because its bytes belong to the sample.
    fn note_delivery(&mut self, sample: &RateSample) {
        self.losses.latest.raise_to(self.delivery_of(sample));
        self.losses.is_limited |= sample.flight.is_app_limited;
        if let Some(rate) = sample.rate {
            self.path.max_bandwidth.on_sample(rate, sample.flight.is_app_limited);
        }
    }

    /// Returns the delivery rate of a sample, and the volume that was in flight for what it
    /// delivered.
    fn delivery_of(&self, sample: &RateSample) -> ShortTerm {
        let in_flight = sample.flight.delivered as f64 / (1.0 - self.path.loss_floor.get());
        ShortTerm { bandwidth: sample.rate.unwrap_or_default(), in_flight }
    }

    fn start_round(&mut self) {
        self.rounds.start(self.delivery.delivered());
    }

    fn begin_round_with(&mut self, sample: &RateSample, now: Time) {
        if !self.rounds.on_sample(sample, &self.path) {
            return;
        }
        self.start_round();
        self.cycle.on_round();
        self.path.aggregation.on_round(self.full_pipe.was_full);
        if self.state != State::Startup {
            let slow = matches!(self.state, State::Down | State::Cruise | State::ProbeRtt);
            let counts = slow && self.cycle.acks == Acks::Init && self.rounds.found_no_queue;
            self.path.loss_floor.on_round(now, counts);
        }
    }

    /// Ends a round trip of losses: adapts the bounds to them (section 5.5.10.3).
    fn end_loss_round(&mut self) {
        let has_floor = self.path.loss_floor.get() > 0.0;
        let Losses { packets, latest, is_limited, .. } = self.losses;
        let (bytes, carried) = self.losses.end(self.delivery.delivered(), has_floor);
        let loss_floor = &self.path.loss_floor;
        // Each loss counts on a path without a floor, as in the draft.
        let margin = if has_floor { self.loss_threshold() } else { 0.0 };
        if self.state == State::Startup {
            // Samples of an application that sends too little count, too.
            let bandwidth = self.path.max_bandwidth.get();
            let before = std::mem::replace(&mut self.losses.bandwidth_before, bandwidth);
            let is_flat = bandwidth < GROWTH * before;
            let most = loss_floor.allowance(carried, self.loss_threshold());
            // Unlike in section 5.3.1.3, the delivery rate must have stopped growing as well. As
            // long as it grows, the pipe is not full, and losses have another cause.
            if bytes as f64 > most && packets >= START_LOSSES && is_flat {
                self.end_startup(latest.in_flight);
            }
        } else if bytes as f64 > loss_floor.allowance(carried, margin)
            && !self.state.is_probing()
            && !(has_floor && is_limited)
        {
            let initial = ShortTerm {
                bandwidth: self.path.max_bandwidth.get(),
                in_flight: self.control.window(),
            };
            let beta = self.beta();
            self.path.short_term.lower(latest, initial, beta);
        }
    }

    /// Ends Startup because of losses (section 5.3.1.3).
    fn end_startup(&mut self, delivered: f64) {
        self.undo.change(|saved| saved.ended = Some(State::Startup));
        self.full_pipe.was_full = true;
        self.path.long_term = self.product().max(delivered);
    }

    fn enter_drain(&mut self, now: Time) {
        self.losses.settled_at = now;
        (self.state, self.rounds.drain) = (State::Drain, self.rounds.count);
        self.path.loss_floor.on_started();
    }

    fn is_drained(&self) -> bool {
        let rounds = self.rounds.count.wrapping_sub(self.rounds.drain);
        rounds > DRAIN_ROUNDS || self.in_flight() <= self.most_in_flight(1.0, 0.0)
    }

    // ----- ProbeBW (section 5.3.3) -----

    fn start_down(&mut self, now: Time) {
        self.losses.clear();
        self.losses.latest = NO_DELIVERY;
        if self.state == State::Up {
            self.losses.settled_at = now;
        }
        self.cycle.begin(now);
        self.start_round();
        self.state = State::Down;
    }

    fn start_refill(&mut self) {
        self.path.short_term = ShortTerm::NONE;
        self.cycle.begin_refill();
        self.start_round();
        self.state = State::Refill;
    }

    fn start_up(&mut self, sample: &RateSample) {
        (self.cycle.acks, self.cycle.is_probe_sample) = (Acks::ProbeStarting, true);
        self.start_round();
        self.full_pipe.reset(sample.rate.unwrap_or_default());
        self.state = State::Up;
        self.cycle.accelerate(self.control.window(), self.control.packet);
    }

    /// Advances the cycle of ProbeBW (`UpdateProbeBWCyclePhase`).
    fn advance_cycle(&mut self, ack: &AckSample, sample: &RateSample) {
        if self.adapt_long_term(ack, sample) {
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(ack.now) => self.start_refill(),
            State::Down if self.is_time_to_cruise() => self.state = State::Cruise,
            State::Refill if self.rounds.is_start => self.start_up(sample),
            State::Up => self.advance_up(ack, sample),
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Time) -> bool {
        self.cycle.is_over(now, self.target() / self.control.packet)
    }

    fn is_time_to_cruise(&self) -> bool {
        self.in_flight() <= self.with_headroom().min(self.most_in_flight(1.0, 0.0))
    }

    fn is_window_limited(&self, ack: &AckSample) -> bool {
        !ack.app_limited && ack.in_flight as f64 >= LIMITED * self.control.window()
    }

    /// Ends ProbeBW_UP if the pipe is full, or if the volume is in flight at which the latest probe
    /// lost too much (section 5.3.3.7).
    fn advance_up(&mut self, ack: &AckSample, sample: &RateSample) {
        let is_risky = ack.in_flight as f64 >= LIMITED * self.path.long_term;
        if self.cycle.was_too_high && is_risky {
            self.cycle.was_precautionary = true;
        } else if self.is_window_limited(ack) && self.control.window() >= self.path.long_term {
            return self.full_pipe.reset(sample.rate.unwrap_or_default());
        } else if !self.full_pipe.is_full() {
            return;
        }
        self.cycle.was_too_high = false;
        self.start_down(ack.now);
    }

    /// Adapts the long-term bound to a probe (`AdaptLongTermModel`). Returns whether the state has
    /// changed.
    fn adapt_long_term(&mut self, ack: &AckSample, sample: &RateSample) -> bool {
        let is_start = self.rounds.is_start;
        if self.cycle.acks == Acks::ProbeStarting && is_start {
            self.cycle.acks = Acks::ProbeFeedback;
        }
        if self.cycle.acks == Acks::ProbeStopping && is_start {
            (self.cycle.acks, self.cycle.is_probe_sample) = (Acks::Init, false);
            if self.state.is_probe_bw() && !sample.flight.is_app_limited {
                self.path.max_bandwidth.advance();
            }
            let goes_on = self.cycle.was_precautionary && !self.cycle.was_too_high;
            if self.state.is_probe_bw() && goes_on {
                self.start_refill();
                return true;
            }
        }
        if self.is_too_high(&sample.flight) || self.path.long_term.is_infinite() {
            return false;
        }
        self.path.long_term = self.path.long_term.max(sample.flight.in_flight as f64);
        let is_used = self.control.window() >= self.path.long_term && self.is_window_limited(ack);
        if self.state == State::Up && is_used {
            self.path.long_term += self.cycle.raise(ack.bytes) * self.control.packet;
            if is_start {
                self.cycle.accelerate(self.control.window(), self.control.packet);
            }
        }
        false
    }

    /// Returns whether the losses of a round trip show that too much was in flight (section
    /// 5.5.10.2).
    fn is_too_high(&self, flight: &FlightSample) -> bool {
        // Detection takes more than a round trip, so the losses are compared with what was
        // delivered in the same time, not with the volume in flight at the departure.
        let carried = (flight.delivered + flight.lost) as f64;
        flight.lost as f64 > self.path.loss_floor.allowance(carried, self.loss_threshold())
    }

    /// Lowers the long-term bound if a probe has lost too much. `bytes`: the latest losses.
    fn judge_probe(&mut self, now: Time, flight: &FlightSample, bytes: u64) {
        if !self.cycle.is_probe_sample || !self.is_too_high(flight) {
            return;
        }
        (self.cycle.was_too_high, self.cycle.is_probe_sample) = (true, false);
        if !flight.is_app_limited {
            // The volume at which the losses crossed the threshold (`InflightAtLoss`).
            let threshold = self.loss_threshold() + self.path.loss_floor.get();
            let (in_flight, lost) = (flight.in_flight as f64, flight.lost as f64);
            let (before, lost_before) = (in_flight - bytes as f64, lost - bytes as f64);
            let prefix = (threshold * before - lost_before) / (1.0 - threshold).max(0.01);
            self.path.long_term = (before + prefix).max(self.beta() * self.target());
        }
        if self.state == State::Up {
            self.undo.change(|saved| saved.ended = Some(State::Up));
            self.start_down(now);
        }
    }

    // ----- ProbeRTT (section 5.3.4) -----

    fn follow_probe_rtt(&mut self, now: Time, is_due: bool) {
        if self.state != State::ProbeRtt && is_due && !self.probe_rtt.after_idle {
            self.state = State::ProbeRtt;
            self.probe_rtt = ProbeRtt { window: self.control.window(), ..ProbeRtt::default() };
            self.cycle.acks = Acks::ProbeStopping;
            self.start_round();
        }
        if self.state != State::ProbeRtt {
            return;
        }
        self.delivery.limit_by_app(); // low rates are the controller's own choice
        match self.probe_rtt.ends_at {
            None if self.in_flight() <= self.probe_rtt_window() => {
                self.probe_rtt.ends_at = Some(now + PROBE_RTT);
                self.start_round();
            }
            None => {}
            Some(ends_at) => {
                self.probe_rtt.is_round_over |= self.rounds.is_start;
                if self.probe_rtt.is_round_over && now > ends_at {
                    self.end_probe_rtt(now);
                }
            }
        }
    }

    fn end_probe_rtt(&mut self, now: Time) {
        self.path.min_rtt.on_probed(now);
        self.control.set_window(self.control.window().max(self.probe_rtt.window));
        self.path.short_term = ShortTerm::NONE;
        if self.full_pipe.was_full {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    // ----- Control (section 5.6) -----

    fn set_pacing_rate(&mut self, gain: f64) {
        // The rate includes the packets that the path will lose, so that the bandwidth is
        // delivered. If that fills a queue, the path loses less than is assumed.
        let lost = if self.rounds.found_no_queue { self.path.loss_floor.get() } else { 0.0 };
        self.control.pace(self.path.bandwidth() / (1.0 - lost), gain, self.full_pipe.was_full);
    }

    /// Sets the window after `acked` bytes (section 5.6.4.6).
    fn set_window(&mut self, acked: f64) {
        let extra = self.path.aggregation.extra();
        let most = self.most_in_flight(self.state.window_gain(), extra);
        let mut window = self.control.window();
        if self.full_pipe.was_full {
            window = (window + acked).min(most);
        } else if window < most || (self.delivery.delivered() as f64) < self.control.start() {
            window += acked;
        }
        self.control.set_window(window.min(self.bound()));
    }

    /// Returns the bound that congestion and ProbeRTT set (sections 5.6.4.5 and 5.6.4.7).
    fn bound(&self) -> f64 {
        let long_term = match self.state {
            State::Startup => return f64::INFINITY,
            State::Cruise => self.with_headroom(),
            State::ProbeRtt => self.with_headroom().min(self.probe_rtt_window()),
            State::Drain | State::Down | State::Refill | State::Up => self.path.long_term,
        };
        long_term.min(self.path.short_term.in_flight).max(self.control.least())
    }

    fn saved(&self) -> Saved {
        let Path { short_term, long_term, .. } = self.path;
        Saved { window: self.control.window(), short_term, long_term, ended: None }
    }

    /// Processes marks. The draft leaves the response open, but demands that marks are treated as
    /// congestion (section 3.7). Here a marked packet counts as a lost one, except that the loss
    /// floor does not include it and that a spurious loss does not revoke it.
    fn on_marks(&mut self, ack: &AckSample) {
        let bytes = (f64::from(ack.marks) * self.control.packet) as u64;
        self.undo.forget();
        self.losses.count(ack.marks.into(), bytes, self.delivery.delivered());
        let sent_at = ack.rtt.map(|sample| sample.sent_at);
        if let Some(flight) = sent_at.and_then(|sent_at| self.delivery.since(sent_at)) {
            // Marks are not recorded with packets, so those of this round trip count.
            let flight = FlightSample { lost: flight.lost.max(self.losses.bytes), ..flight };
            self.judge_probe(ack.now, &flight, bytes);
        }
    }
}

impl Controller for Bbr {
    fn on_ack(&mut self, ack: &AckSample) {
        if ack.packets > 0 {
            self.timeouts = 0;
        }
        let was_idle = self.delivery.on_ack(ack);
        if was_idle && ack.bytes > 0 {
            self.probe_rtt.after_idle = true;
            self.path.aggregation.restart(ack.rtt.map_or(ack.now, |sample| sample.sent_at));
        }
        self.path.loss_floor.on_delivered(ack.bytes);
        let (bandwidth, most) = (self.path.bandwidth(), self.control.window());
        self.path.aggregation.on_ack(ack.now, ack.bytes, bandwidth, most);
        if ack.marks > 0 {
            self.on_marks(ack);
        }
        let min_rtt = self.path.min_rtt.get();
        if let Some(packet) = ack.rtt {
            self.losses.sample = Some((ack.now, packet));
            if let Some(sample) = self.delivery.sample(packet, min_rtt) {
                self.update(ack, &sample);
            }
        } else if let Some((now, packet)) = self.losses.sample
            && now == ack.now
            && let Some(sample) = self.delivery.sample(packet, min_rtt)
        {
            self.note_delivery(&sample);
        }
        // A connection that restarts after being idle finds an empty queue (section 5.4.1).
        let restarts = self.delivery.is_idle() && self.state.is_probe_bw();
        self.set_pacing_rate(if restarts { 1.0 } else { self.state.pacing_gain() });
        self.set_window(ack.bytes as f64);
    }

    fn on_loss(&mut self, loss: &Loss) {
        let rtt = self.path.min_rtt.get().unwrap_or_default();
        self.undo.on_loss(loss, rtt, self.saved());
        self.delivery.on_loss(loss);
        if loss.sent_at > self.losses.settled_at || self.state.is_probing() {
            self.path.loss_floor.on_lost(loss.bytes);
            self.losses.count(loss.packets, loss.bytes, self.delivery.delivered());
        }
        if let Some(flight) = self.delivery.since(loss.sent_at) {
            self.judge_probe(loss.now, &flight, loss.bytes);
        }
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_window(0.0);
    }

    fn on_spurious(&mut self, spurious: &Spurious) {
        self.path.loss_floor.on_spurious(spurious.packets);
        let Some(saved) = self.undo.on_spurious(spurious.packets) else { return };
        self.losses.clear();
        self.full_pipe.reset(0.0);
        self.path.short_term.raise_to(saved.short_term);
        self.path.long_term = self.path.long_term.max(saved.long_term);
        match saved.ended {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.was_full = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
        self.control.set_window(self.control.window().max(saved.window));
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_window(0.0);
    }

    fn on_timeout(&mut self, now: Time) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts == RESET_AFTER {
            let rtt = self.path.min_rtt.get().unwrap_or_default();
            self.undo.on_cut(now, rtt, self.saved(), 0);
            self.control.set_window(0.0);
        }
    }

    fn window(&self) -> u64 {
        self.control.window() as u64
    }

    fn rate(&mut self, _now: Time) -> Option<u64> {
        Some(self.control.bits_per_second())
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window(), bits_per_second: Some(self.control.bits_per_second()) }
    }
}
