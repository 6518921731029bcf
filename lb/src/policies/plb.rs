//! Protective load balancing (PLB, SIGCOMM 2022), with the constants and rules of Linux's
//! tcp_plb.c.
//!
//! Each queue pair has one path. If the path stays congested, another random path replaces it,
//! preferably while nothing is in flight, to avoid reordering. Assumes that switches mark
//! congestion or that round-trip times show it.

use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::{
    Batch, Order, Outcome, PathPolicy, PathPolicyFactory, PathRng, Paths, PerStream, Requirements,
    StreamId,
};

/// A round is congested if at least this many of 256 packets were (tcp_plb_cong_thresh).
const CONGESTED_OF_256: u64 = 128;
/// Consecutive congested rounds after which an idle queue pair moves (tcp_plb_idle_rehash_rounds).
const IDLE_ROUNDS: u8 = 3;
/// Consecutive congested rounds after which any queue pair moves (tcp_plb_rehash_rounds).
const FORCED_ROUNDS: u8 = 12;
/// Time for which a time-out suspends moves, up to twice this value (tcp_plb_suspend_rto_sec).
const SUSPEND: Duration = Duration::from_secs(60);

pub(crate) struct PlbFactory;

impl PathPolicyFactory for PlbFactory {
    fn name(&self) -> &str {
        "plb"
    }

    fn requirements(&self) -> Requirements {
        Requirements { order: Order::Rtt, ..Requirements::default() }
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(Plb::default())
    }
}

#[derive(Debug, Default)]
struct Plb {
    /// Allocated by a stream's first pick, because most response streams never pick a path.
    flows: PerStream<Option<Box<Flow>>>,
}

impl PathPolicy for Plb {
    fn admit(&mut self, stream: StreamId, _: &mut PathRng) {
        self.flows.admit(stream, None);
    }

    fn dismiss(&mut self, stream: StreamId) {
        self.flows[stream] = None;
    }

    fn pick(&mut self, stream: StreamId, batch: Batch, paths: &Paths, rng: &mut PathRng) -> PathId {
        let flow = self.flows[stream].get_or_insert_with(|| Box::new(Flow::new(paths, rng)));
        flow.pick(batch.now, paths, rng)
    }

    fn on_feedback(
        &mut self,
        stream: StreamId,
        now: Time,
        path: PathId,
        outcome: &Outcome,
        paths: &Paths,
    ) {
        let Some(flow) = &mut self.flows[stream] else { return };
        if let Outcome::Arrived { packets, rtt, congested } = *outcome {
            let congested = congested || paths.is_late(rtt);
            flow.on_arrival(now, path, packets, rtt, congested);
        }
    }

    fn on_timeout(&mut self, stream: StreamId, now: Time, paths: &Paths, rng: &mut PathRng) {
        if let Some(flow) = &mut self.flows[stream] {
            flow.on_timeout(now, paths, rng);
        }
    }
}

/// The state of one stream.
#[derive(Debug)]
struct Flow {
    path: PathId,
    /// Packets acknowledged in this round, and those of them that were congested.
    packets: u64,
    congested: u64,
    /// Start of the round, from the first acknowledgement on this path.
    round_start: Option<Time>,
    congested_rounds: u8,
    picked_at: Time,
    latest_rtt: Option<Duration>,
    suspended_until: Time,
}

impl Flow {
    fn new(paths: &Paths, rng: &mut PathRng) -> Self {
        Flow {
            path: paths.random(rng),
            packets: 0,
            congested: 0,
            round_start: None,
            congested_rounds: 0,
            picked_at: Time::ZERO,
            latest_rtt: None,
            suspended_until: Time::ZERO,
        }
    }

    fn pick(&mut self, now: Time, paths: &Paths, rng: &mut PathRng) -> PathId {
        let wants = self.congested_rounds >= FORCED_ROUNDS
            || (self.congested_rounds >= IDLE_ROUNDS && self.is_idle(now));
        if !paths.is_live(self.path) || (wants && now >= self.suspended_until) {
            self.leave(paths, rng);
        }
        self.picked_at = now;
        self.path
    }

    /// Returns whether nothing is in flight. A path set does not know a queue pair's packets in
    /// flight, but after a round trip without a batch, all have arrived or are lost.
    fn is_idle(&self, now: Time) -> bool {
        self.latest_rtt.is_some_and(|rtt| now - self.picked_at >= rtt)
    }

    /// Moves to another path, if there is one.
    fn leave(&mut self, paths: &Paths, rng: &mut PathRng) {
        self.path = paths.random_beside(&[self.path], rng).unwrap_or(self.path);
        (self.packets, self.congested, self.congested_rounds) = (0, 0, 0);
        (self.round_start, self.latest_rtt) = (None, None);
    }

    /// Processes `packets` acknowledged on `path`. A round lasts one round trip.
    fn on_arrival(
        &mut self,
        now: Time,
        path: PathId,
        packets: u32,
        rtt: Duration,
        congested: bool,
    ) {
        if path != self.path {
            return; // sent before the last exchange
        }
        let packets = u64::from(packets.max(1));
        self.packets += packets;
        self.congested += if congested { packets } else { 0 };
        self.latest_rtt = Some(rtt);
        let start = *self.round_start.get_or_insert(now);
        if now - start < rtt {
            return;
        }
        let was_congested = self.congested * 256 >= self.packets * CONGESTED_OF_256;
        self.congested_rounds =
            if was_congested { (self.congested_rounds + 1).min(FORCED_ROUNDS) } else { 0 };
        (self.packets, self.congested, self.round_start) = (0, 0, Some(now));
    }

    /// Moves to another path. Linux takes a new flow label on every time-out and suspends PLB, so
    /// that the two do not both move the connection.
    fn on_timeout(&mut self, now: Time, paths: &Paths, rng: &mut PathRng) {
        self.leave(paths, rng);
        self.suspended_until = now + SUSPEND.mul_f64(rng.within(1.0..2.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_micros(100);

    struct Setting {
        flow: Flow,
        paths: Paths,
        rng: PathRng,
        now: Time,
    }

    impl Setting {
        fn new() -> Self {
            let paths = Paths::all_live(16);
            let mut rng = PathRng::from_seed(7);
            let mut it =
                Setting { flow: Flow::new(&paths, &mut rng), paths, rng, now: Time::from_nanos(1) };
            it.acknowledged(1, 0); // begins the first round
            it.flow.packets = 0;
            it
        }

        fn pick(&mut self) -> PathId {
            self.flow.pick(self.now, &self.paths, &mut self.rng)
        }

        fn acknowledged(&mut self, clean: u32, congested: u32) {
            let path = self.flow.path;
            self.flow.on_arrival(self.now, path, clean, RTT, false);
            if congested > 0 {
                self.flow.on_arrival(self.now, path, congested, RTT, true);
            }
        }

        /// A round in which batches are sent all the time, so that the flow is never idle.
        fn busy_round(&mut self, clean: u32, congested: u32) {
            let path = self.flow.path;
            self.now += RTT / 2;
            self.pick();
            self.flow.on_arrival(self.now, path, congested, RTT, true);
            self.now += RTT / 2;
            self.flow.on_arrival(self.now, path, clean, RTT, false);
            self.pick();
        }
    }

    #[test]
    fn moves_after_three_congested_rounds_when_idle() {
        let mut it = Setting::new();
        let first = it.pick();
        for _ in 0..2 {
            it.busy_round(4, 4); // half is enough, as in Linux
        }
        it.now += RTT;
        assert_eq!(it.pick(), first, "two rounds are not enough");
        it.busy_round(4, 5);
        it.now += RTT;
        assert_ne!(it.pick(), first);
    }

    #[test]
    fn a_busy_one_moves_after_twelve() {
        let mut it = Setting::new();
        let first = it.pick();
        for round in 0..12 {
            assert_eq!(it.flow.path, first, "round {round}");
            it.busy_round(4, 5);
        }
        assert_ne!(it.pick(), first);
    }

    #[test]
    fn a_clean_round_starts_the_count_again() {
        let mut it = Setting::new();
        let first = it.pick();
        for _ in 0..2 {
            it.busy_round(4, 5);
        }
        it.busy_round(5, 4); // 4 of 9 is less than half
        it.busy_round(4, 5);
        it.now += RTT;
        assert_eq!((it.pick(), it.flow.congested_rounds), (first, 1));
    }

    #[test]
    fn a_time_out_moves_it_and_suspends_the_exchange_for_a_minute_or_two() {
        let mut it = Setting::new();
        let first = it.pick();
        it.flow.on_timeout(it.now, &it.paths, &mut it.rng);
        let second = it.pick();
        assert_ne!(second, first);
        let end = it.flow.suspended_until;
        assert!((SUSPEND..2 * SUSPEND).contains(&(end - it.now)));

        it.acknowledged(1, 0);
        for _ in 0..13 {
            it.busy_round(0, 8);
        }
        assert_eq!(it.pick(), second, "suspended");
        it.now = end;
        assert_ne!(it.pick(), second);
    }

    #[test]
    fn what_was_sent_on_an_earlier_path_does_not_count() {
        let mut it = Setting::new();
        let other = PathId::new((it.flow.path.get() + 1) % 16);
        it.flow.on_arrival(it.now, other, 9, RTT, true);
        assert_eq!((it.flow.packets, it.flow.congested), (0, 0));
    }

    #[test]
    fn leaves_a_dead_path_at_once() {
        let mut it = Setting::new();
        let first = it.pick();
        it.paths.without(&[first.get()]);
        assert_ne!(it.pick(), first);
    }
}
