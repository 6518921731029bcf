//! A flow over a link in virtual time, and worked examples of the parts.

use std::collections::VecDeque;
use std::time::Duration;

use braid_wire::{PathId, Time};

use super::cycle::State;
use super::delivery::Delivery;
use super::full_pipe::FullPipe;
use super::loss_floor::LossFloor;
use super::model::{MaxBandwidth, MinRtt, ShortTerm};
use super::*;
use crate::{AckSample, CcConfig, Loss, RttSample, Spurious};

const PACKET: u64 = 1500;
const MS: Duration = Duration::from_millis(1);
/// 120 Mbit/s: a packet takes 100 us.
const PACKET_TIME: Duration = Duration::from_micros(100);
const BANDWIDTH: f64 = 15e6;
const RTT: Duration = Duration::from_millis(20);
/// Packets that the link holds in a round trip.
const PRODUCT: u64 = 200;

fn at(ms: u64) -> Time {
    Time::from_nanos(1_000_000_000 + ms * 1_000_000)
}

fn ack(now: Time, rtt: Duration, packets: u64, in_flight: u64) -> AckSample {
    let sent_at = Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() as u64));
    AckSample {
        now,
        path: PathId::default(),
        packets: packets as u32,
        bytes: packets * PACKET,
        marks: 0,
        rtt: Some(RttSample { sent_at, rtt }),
        in_flight: in_flight * PACKET,
        app_limited: false,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Passes,
    Marked,
    Lost,
}

/// One flow over one link. Each packet is acknowledged, and a lost one is reported with the next
/// acknowledgement.
struct Link {
    bbr: Bbr,
    now: Time,
    /// Packets that the queue holds.
    queue: u64,
    /// Queue length in packets from which packets are marked.
    marks_from: u64,
    /// One packet of so many is lost at random. 0: none.
    loses_one_of: u64,
    app_limited: bool,
    free_at: Time,
    next_send: Time,
    /// Departure, arrival of the acknowledgement, and fate of the packets in flight.
    flight: VecDeque<(Time, Time, Fate)>,
    random: u64,
    delivered: u64,
    lost: u64,
    states: Vec<(Time, State)>,
}

impl Link {
    fn new(text: &str, queue: u64) -> Self {
        let config = match text.parse::<CcConfig>().map(|config| config.to_string()) {
            Ok(text) if text == "bbr" => BbrConfig::default(),
            _ => BbrConfig { loss_floor: false, ..BbrConfig::default() },
        };
        let now = at(0);
        Link {
            bbr: Bbr::new(config, &Subflow { packet_bytes: PACKET, ..Subflow::default() }),
            now,
            queue,
            marks_from: u64::MAX,
            loses_one_of: 0,
            app_limited: false,
            free_at: now,
            next_send: now,
            flight: VecDeque::new(),
            random: 1,
            delivered: 0,
            lost: 0,
            states: Vec::new(),
        }
    }

    /// The minimal standard generator (Park, Miller, CACM 1988).
    fn is_lost(&mut self) -> bool {
        self.random = self.random * 48_271 % 0x7FFF_FFFF;
        self.loses_one_of > 0 && self.random.is_multiple_of(self.loses_one_of)
    }

    fn send(&mut self) {
        let queued = (self.free_at - self.now).as_nanos() / PACKET_TIME.as_nanos();
        let is_full = queued as u64 >= self.queue;
        if !is_full {
            self.free_at = self.free_at.max(self.now) + PACKET_TIME;
        }
        let fate = match is_full || self.is_lost() {
            true => Fate::Lost,
            false if queued as u64 >= self.marks_from => Fate::Marked,
            false => Fate::Passes,
        };
        self.flight.push_back((self.now, self.free_at + RTT, fate));
        let rate = self.bbr.rate(self.now).expect("it paces");
        let takes = Duration::from_secs_f64((PACKET * 8) as f64 / rate as f64);
        self.next_send = self.next_send.max(self.now) + takes;
    }

    fn acknowledge(&mut self) {
        let before = self.flight.len() as u64;
        let (mut lost, mut latest) = (0, self.now);
        while let Some(&(sent_at, _, Fate::Lost)) = self.flight.front() {
            self.flight.pop_front();
            (lost, latest) = (lost + 1, sent_at);
        }
        let Some((sent_at, _, fate)) = self.flight.pop_front() else { return };
        let sample = ack(self.now, self.now - sent_at, 1, before);
        let marks = u32::from(fate == Fate::Marked);
        self.bbr.on_ack(&AckSample { marks, app_limited: self.app_limited, ..sample });
        self.delivered += 1;
        if lost > 0 {
            let (now, bytes) = (self.now, lost * PACKET);
            self.bbr.on_loss(&Loss { now, packets: lost, bytes, sent_at: latest });
            self.lost += lost;
        }
        if self.states.last().is_none_or(|(_, state)| *state != self.bbr.state) {
            self.states.push((self.now, self.bbr.state));
        }
    }

    /// Time of the next acknowledgement. A loss is known only with the packet behind it.
    fn next_ack(&self) -> Option<Time> {
        let arrived = self.flight.iter().find(|(_, _, fate)| *fate != Fate::Lost);
        arrived.map(|(_, arrival, _)| *arrival)
    }

    /// Runs for some time. Returns the share of the link that was used.
    fn run(&mut self, span: Duration) -> f64 {
        let (until, before) = (self.now + span, self.delivered);
        while self.now < until {
            let in_flight = self.flight.len() as u64 * PACKET;
            let has_room = in_flight + PACKET <= self.bbr.window();
            let send = has_room.then_some(self.next_send.max(self.now));
            let (is_ack, next) = match (send, self.next_ack()) {
                (Some(send), Some(ack)) if ack <= send => (true, ack),
                (Some(send), _) => (false, send),
                (None, Some(ack)) => (true, ack),
                (None, None) => panic!("all packets were lost, and nothing may leave"),
            };
            self.now = next;
            if is_ack { self.acknowledge() } else { self.send() }
        }
        let took = span.as_secs_f64() / PACKET_TIME.as_secs_f64();
        (self.delivered - before) as f64 / took
    }

    fn entered(&self, wanted: State) -> Vec<Time> {
        let entered = self.states.iter().filter(|(_, state)| *state == wanted);
        entered.map(|(now, _)| *now).collect()
    }
}

#[test]
fn startup_ends_at_a_full_pipe_and_drain_empties_the_queue() {
    let mut link = Link::new("bbr", 10 * PRODUCT);
    link.run(400 * MS);
    let order: Vec<State> = link.states.iter().map(|(_, state)| *state).collect();
    // The queue is empty at the end of Drain, so that Down may end at once.
    assert_eq!(order[..2], [State::Startup, State::Drain]);
    assert!(matches!(order[2], State::Down | State::Cruise), "{order:?}");
    let bandwidth = link.bbr.path.max_bandwidth.get();
    assert!((bandwidth / BANDWIDTH - 1.0).abs() < 0.02, "{bandwidth}");
    let product = BANDWIDTH * RTT.as_secs_f64();
    let in_flight = (link.flight.len() as u64 * PACKET) as f64;
    assert!(in_flight <= 1.1 * product, "{in_flight}");
    assert!(link.bbr.path.long_term.is_infinite(), "nothing was lost");
}

#[test]
fn losses_end_startup_even_if_the_application_limits_it() {
    let mut link = Link::new("bbr", PRODUCT / 10);
    link.app_limited = true;
    link.run(1000 * MS);
    assert_ne!(link.bbr.state, State::Startup);
    assert!(link.bbr.path.long_term < 2.0 * PRODUCT as f64 * PACKET as f64);
}

#[test]
fn a_link_is_used_and_its_queue_stays_short() {
    let mut link = Link::new("bbr", 10 * PRODUCT);
    link.run(1000 * MS);
    let (used, lost) = (link.run(4000 * MS), link.lost);
    assert!(used > 0.95 && lost == 0, "{used}, {lost}");
    let queued = (link.free_at - link.now).as_secs_f64() / RTT.as_secs_f64();
    assert!(queued < 0.5, "{queued}");
}

#[test]
fn each_cycle_refills_probes_and_drains() {
    let mut link = Link::new("bbr", 10 * PRODUCT);
    link.run(10_000 * MS);
    let states: Vec<State> = link.states.iter().map(|(_, state)| *state).collect();
    let of_cycle = |state: &State| state.is_probe_bw();
    let cycles: Vec<_> = states.split(|state| !of_cycle(state)).filter(|c| c.len() > 4).collect();
    let cycle = [State::Down, State::Cruise, State::Refill, State::Up];
    let follows = |pair: &[State]| match pair {
        [before, after] => {
            let index = cycle.iter().position(|state| state == before).expect("of the cycle");
            cycle[(index + 1) % 4] == *after
        }
        _ => false,
    };
    assert!(cycles.iter().all(|states| states.windows(2).all(follows)), "{states:?}");
    let probes = link.entered(State::Up);
    assert!(probes.len() >= 4, "{probes:?}");
    for pair in probes.windows(2) {
        // 63 round trips at most, and the probe itself.
        assert!((Duration::ZERO..4 * Duration::from_secs(1)).contains(&(pair[1] - pair[0])));
    }
}

#[test]
fn probe_rtt_comes_every_five_seconds_and_lasts_a_fifth() {
    let mut link = Link::new("bbr", 10 * PRODUCT);
    link.run(21_000 * MS);
    let entered = link.entered(State::ProbeRtt);
    assert!((3..=4).contains(&entered.len()), "{entered:?}");
    for pair in entered.windows(2) {
        let passed = pair[1] - pair[0];
        assert!((5000 * MS..6500 * MS).contains(&passed), "{passed:?}");
    }
    for (index, (began, state)) in link.states.iter().enumerate() {
        if *state == State::ProbeRtt
            && let Some((ended, _)) = link.states.get(index + 1)
        {
            assert!((200 * MS..320 * MS).contains(&(*ended - *began)));
        }
    }
    let min_rtt = link.bbr.path.min_rtt.get().expect("samples");
    assert!(min_rtt < RTT + MS, "{min_rtt:?}");
}

#[test]
fn losses_above_the_threshold_bound_the_volume_in_flight() {
    let mut link = Link::new("bbr", PRODUCT / 10);
    link.run(1000 * MS);
    let lost = link.lost;
    let used = link.run(8000 * MS);
    let long_term = link.bbr.path.long_term / PACKET as f64;
    assert!(long_term < 1.25 * PRODUCT as f64, "{long_term}");
    let resent = (link.lost - lost) as f64 / (used * 80_000.0);
    assert!(used > 0.88 && resent < 0.01, "{used}, {resent}");
}

#[test]
fn random_losses_cost_little_but_their_share() {
    for (one_of, least) in [(100, 0.93), (20, 0.88)] {
        let mut link = Link::new("bbr", PRODUCT);
        link.loses_one_of = one_of;
        link.run(1000 * MS);
        let used = link.run(8000 * MS);
        assert!(used > least, "one of {one_of}: {used}");
        let floor = link.bbr.path.loss_floor.get() * one_of as f64;
        assert!((0.6..1.4).contains(&floor), "{floor}");
    }
}

#[test]
fn without_the_floor_random_losses_above_the_threshold_slow_down() {
    let mut link = Link::new("bbr:floor=off", PRODUCT);
    link.loses_one_of = 20;
    link.run(1000 * MS);
    let used = link.run(8000 * MS);
    assert!(used < 0.5 && link.bbr.path.loss_floor.get() == 0.0, "{used}");
}

#[test]
fn a_full_queue_is_not_taken_for_random_losses() {
    let mut link = Link::new("bbr", PRODUCT / 2);
    link.run(10_000 * MS);
    assert!(link.lost > 0, "probes lose packets");
    assert!(link.bbr.path.loss_floor.get() < 0.005, "{}", link.bbr.path.loss_floor.get());
}

#[test]
fn marks_keep_the_queue_short_without_losses() {
    let mut link = Link::new("bbr", 10 * PRODUCT);
    link.marks_from = PRODUCT / 10;
    link.run(1000 * MS);
    let lost = link.lost;
    let used = link.run(8000 * MS);
    assert!(used > 0.8 && link.lost == lost, "{used}");
    let long_term = link.bbr.path.long_term / PACKET as f64;
    assert!(long_term < 1.5 * PRODUCT as f64, "{long_term}");
}

/// Runs until the flow enters a state.
fn until(link: &mut Link, wanted: State) {
    for _ in 0..100_000 {
        link.run(MS);
        if link.bbr.state == wanted {
            return;
        }
    }
    panic!("it never enters {wanted:?}");
}

#[test]
fn spurious_losses_restore_the_bounds_and_the_probe() {
    let mut link = Link::new("bbr", 10 * PRODUCT);
    until(&mut link, State::Up);
    link.run(30 * MS);
    assert_eq!(link.bbr.state, State::Up);
    let before = (link.bbr.path.long_term, link.bbr.path.short_term);
    let (packets, now) = (PRODUCT / 4, link.now);
    let sent_at = Time::from_nanos(now.as_nanos() - RTT.as_nanos() as u64);
    link.bbr.on_loss(&Loss { now, packets, bytes: packets * PACKET, sent_at });
    assert_eq!(link.bbr.state, State::Down, "the probe has lost too much");
    assert!(link.bbr.path.long_term < before.0);
    link.bbr.on_spurious(&Spurious { now, packets: packets - 1 });
    assert!(link.bbr.path.long_term < before.0, "one may be real");
    link.bbr.on_spurious(&Spurious { now, packets: 1 });
    assert_eq!((link.bbr.path.long_term, link.bbr.path.short_term), before);
    assert_eq!(link.bbr.state, State::Refill);
}

#[test]
fn two_time_outs_leave_the_minimum_and_acknowledgements_restore_the_window() {
    let mut link = Link::new("bbr", 10 * PRODUCT);
    link.run(1000 * MS);
    let before = link.bbr.window();
    link.bbr.on_timeout(link.now);
    assert_eq!(link.bbr.window(), before, "the first one sends a probe");
    link.bbr.on_timeout(link.now);
    assert_eq!(link.bbr.window(), 4 * PACKET);
    link.run(200 * MS);
    assert!(link.bbr.window() >= before / 2, "{} of {before}", link.bbr.window());
}

#[test]
fn an_application_that_sends_little_does_not_lower_the_bandwidth() {
    let mut link = Link::new("bbr", 10 * PRODUCT);
    link.run(1000 * MS);
    let before = link.bbr.path.max_bandwidth.get();
    // A packet per round trip for ten seconds, after all that was in flight has arrived.
    while !link.flight.is_empty() {
        link.now = link.next_ack().expect("nothing is lost");
        link.acknowledge();
    }
    for _ in 0..500 {
        link.now += RTT;
        let sample = ack(link.now, RTT, 1, 1);
        link.bbr.on_ack(&AckSample { app_limited: true, ..sample });
        assert_ne!(link.bbr.state, State::ProbeRtt, "idle times show the shortest round trip");
    }
    assert!(link.bbr.path.max_bandwidth.get() >= 0.99 * before);
}

#[test]
fn a_sample_is_the_slower_of_the_rates_of_departure_and_arrival() {
    let mut delivery = Delivery::new();
    let sample = |delivery: &mut Delivery, now: u64, sent: u64, packets: u64| {
        let rtt = RttSample { sent_at: at(sent), rtt: at(now) - at(sent) };
        delivery.on_ack(&AckSample { rtt: Some(rtt), ..ack(at(now), rtt.rtt, packets, 100) });
        delivery.sample(rtt, None).expect("it is recorded")
    };
    // The first flight: its rate is that since its first sample's departure.
    let first = sample(&mut delivery, 10, 0, 10);
    assert_eq!(first.rate, Some((10 * PACKET) as f64 / 0.01));
    sample(&mut delivery, 20, 10, 10);
    // 20 ms later, acknowledgements arrive at once: the packets left during 10 ms.
    let aggregated = sample(&mut delivery, 40, 20, 40);
    assert_eq!(aggregated.prior_delivered, 20 * PACKET);
    assert_eq!(aggregated.rate, Some((40 * PACKET) as f64 / 0.02));
    // An acknowledgement says that the application sends less.
    delivery.limit_by_app();
    delivery.on_ack(&ack(at(50), 10 * MS, 1, 60));
    assert!(sample(&mut delivery, 60, 50, 1).flight.is_app_limited);
}

#[test]
fn a_packet_older_than_the_history_yields_no_sample() {
    let mut delivery = Delivery::new();
    for now in 1..=1000 {
        let acked = ack(at(now), MS, 1, 10);
        delivery.on_ack(&acked);
        delivery.sample(acked.rtt.expect("a sample"), None);
    }
    assert!(delivery.sample(RttSample { sent_at: at(0), rtt: 1000 * MS }, None).is_none());
}

#[test]
fn the_filters_forget() {
    let mut bandwidth = MaxBandwidth::default();
    bandwidth.on_sample(10.0, false);
    bandwidth.advance();
    bandwidth.on_sample(4.0, true);
    assert_eq!(bandwidth.get(), 10.0);
    bandwidth.on_sample(5.0, false);
    bandwidth.advance();
    assert_eq!(bandwidth.get(), 5.0, "4.0 was limited by the application");
    let mut min_rtt = MinRtt::default();
    assert!(!min_rtt.on_sample(at(0), 10 * MS));
    assert!(!min_rtt.on_sample(at(5_000), 12 * MS));
    assert!(min_rtt.on_sample(at(5_001), 12 * MS), "it is time for ProbeRTT");
    min_rtt.on_probed(at(5_300));
    assert_eq!(min_rtt.get(), Some(10 * MS));
    assert!(!min_rtt.on_sample(at(10_001), 12 * MS));
    assert_eq!(min_rtt.get(), Some(12 * MS), "ten seconds are over");
}

#[test]
fn three_round_trips_without_growth_fill_the_pipe() {
    let mut pipe = FullPipe::default();
    for rate in [1.0, 2.0, 3.0, 3.2, 3.6] {
        pipe.on_round(rate);
        assert!(!pipe.is_full());
    }
    pipe.on_round(3.7);
    assert!(pipe.is_full() && pipe.was_full);
    pipe.reset(3.7);
    assert!(!pipe.is_full() && pipe.was_full);
}

#[test]
fn bounds_fall_to_what_was_delivered_and_no_deeper_than_beta() {
    let initial = ShortTerm { bandwidth: 100.0, in_flight: 50.0 };
    let mut bounds = ShortTerm::NONE;
    bounds.lower(ShortTerm { bandwidth: 90.0, in_flight: 20.0 }, initial, 0.5);
    assert_eq!(bounds, ShortTerm { bandwidth: 90.0, in_flight: 25.0 });
    bounds.lower(ShortTerm { bandwidth: 10.0, in_flight: 24.0 }, initial, 0.5);
    assert_eq!(bounds, ShortTerm { bandwidth: 45.0, in_flight: 24.0 });
}

#[test]
fn the_floor_is_the_median_of_blocks_that_count() {
    let mut floor = LossFloor::new(true, PACKET as f64);
    let mut now = at(0);
    let mut round = |floor: &mut LossFloor, lost: u64, counts: bool| {
        now += 30 * MS;
        floor.on_delivered((200 - lost) * PACKET);
        floor.on_lost(lost * PACKET);
        floor.on_round(now, counts);
    };
    (0..100).for_each(|_| round(&mut floor, 40, false));
    assert_eq!(floor.get(), 0.0);
    (0..20).for_each(|_| round(&mut floor, 10, true));
    assert!((floor.get() - 0.05).abs() < 1e-9, "{}", floor.get());
    assert!(floor.allowance(200.0 * PACKET as f64, 0.02) > 14.0 * PACKET as f64);
    // One burst in a while changes nothing.
    (0..100).for_each(|index| round(&mut floor, if index % 20 == 0 { 100 } else { 0 }, true));
    assert_eq!(floor.get(), 0.0);
    // Losses above the maximum of the floor count as congestion.
    (0..100).for_each(|_| round(&mut floor, 60, true));
    assert_eq!(floor.get(), 0.1);
}

#[test]
fn one_loss_among_few_packets_does_not_exceed_the_threshold() {
    let floor = LossFloor::new(true, PACKET as f64);
    let allowed = |packets: f64| floor.allowance(packets * PACKET as f64, 0.02) / PACKET as f64;
    assert!(allowed(6.0) < 1.0 && allowed(12.0) > 1.0 && allowed(12.0) < 2.0, "{}", allowed(12.0));
    assert!(allowed(10_000.0) < 230.0, "{}", allowed(10_000.0));
    let draft = LossFloor::new(false, PACKET as f64);
    assert_eq!(draft.allowance(12.0 * PACKET as f64, 0.25), 3.0 * PACKET as f64);
}

#[test]
fn the_text_parses_back_and_bad_parameters_are_named() {
    for text in ["bbr", "bbr:start=1M,max=8M,loss=5%,beta=85%,floor=off"] {
        assert_eq!(text.parse::<CcConfig>().unwrap().to_string(), text);
    }
    for (text, part) in [
        ("line=1G", "bbr has no parameter `line`; valid parameters: start=BYTES, max=BYTES"),
        ("loss=0%", "invalid percentage `0%`"),
        ("beta=101%", "invalid percentage `101%`"),
        ("floor=yes", "invalid switch `yes`"),
        ("start=2M,max=1M", "`start=2M` exceeds `max=1M`"),
        ("max=0", "invalid number of bytes `0`"),
    ] {
        let error = format!("bbr:{text}").parse::<CcConfig>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

proptest::proptest! {
    /// Whatever happens, a packet may leave and the rate is a number.
    #[test]
    fn the_window_keeps_its_limits(events in proptest::collection::vec((0_u8..6, 0_u64..200), 1..300)) {
        let config = BbrConfig { max_window: 100 * PACKET, ..BbrConfig::default() };
        let mut bbr = Bbr::new(config, &Subflow { packet_bytes: PACKET, ..Subflow::default() });
        let mut now = at(0);
        for (event, value) in events {
            now += Duration::from_micros(value * 100);
            let rtt = Duration::from_micros(value * 50);
            match event {
                0 | 1 => bbr.on_ack(&ack(now, rtt, value, value + 1)),
                2 => bbr.on_ack(&AckSample { app_limited: true, rtt: None, ..ack(now, rtt, value, 0) }),
                3 => bbr.on_ack(&AckSample { marks: value as u32, ..ack(now, rtt, 1, value) }),
                4 => {
                    let sent_at = Time::from_nanos(now.as_nanos() - rtt.as_nanos() as u64);
                    bbr.on_loss(&Loss { now, packets: value, bytes: value * PACKET, sent_at });
                }
                _ if value % 2 == 0 => bbr.on_timeout(now),
                _ => bbr.on_spurious(&Spurious { now, packets: value }),
            }
            proptest::prop_assert!((4 * PACKET..=100 * PACKET).contains(&bbr.window()));
            let rate = bbr.rate(now).expect("it paces");
            proptest::prop_assert!(rate > 0 && rate < u64::MAX / 2, "{}", rate);
            proptest::prop_assert_eq!(bbr.metrics().bits_per_second, Some(rate));
        }
    }
}
