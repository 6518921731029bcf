//! Tests of paths that are suspected because a packet on another path was lost.

use std::collections::VecDeque;
use std::time::Duration;

use braid_lb::{Batch, LbPolicy, Outcome, PathSet, StreamId};
use braid_wire::{PathId, Time};

const RTT: Duration = Duration::from_micros(50);
const GAP: Duration = Duration::from_micros(8);
const MS: Duration = Duration::from_millis(1);

/// A path set after a loss, and the time.
struct Setting {
    set: PathSet,
    stream: StreamId,
    now: Time,
}

impl Setting {
    fn new(paths: usize) -> Self {
        let mut set = PathSet::new(LbPolicy::ROUND_ROBIN, paths, 1).unwrap();
        let stream = set.admit();
        Setting { set, stream, now: Time::from_nanos(1_000_000_000) }
    }

    /// A set whose route of paths 0, 4, 8, .. fails. All paths have worked before; the first packet
    /// of path 0 is lost, and those of paths 1 to 3 have arrived since.
    fn cut(paths: usize) -> Self {
        let mut it = Setting::new(paths);
        (0..paths as u16).for_each(|path| it.arrive(path));
        let lost_at = it.now;
        (1..4).for_each(|path| it.arrive(path));
        it.lose(0, lost_at);
        it
    }

    fn lose(&mut self, path: u16, sent_at: Time) {
        let outcome = Outcome::Lost { packets: 1, sent_at };
        self.set.on_feedback(self.stream, self.now, PathId::new(path), outcome);
    }

    /// Sends a packet and acknowledges it a round trip later.
    fn arrive(&mut self, path: u16) {
        self.now += RTT;
        let outcome = Outcome::Arrived { packets: 1, rtt: RTT, congested: false };
        self.set.on_feedback(self.stream, self.now, PathId::new(path), outcome);
    }

    fn live(&mut self) -> Vec<u16> {
        let batch = Batch { now: self.now, psn: 0, segments: 1 };
        let picks = (0..self.set.live()).map(|_| self.set.pick(self.stream, batch).get());
        let mut live: Vec<u16> = picks.collect();
        live.sort_unstable();
        live
    }

    /// Returns the path of the first retransmission after a time-out.
    fn proved(&mut self) -> u16 {
        let batch = Batch { now: self.now, psn: 0, segments: 1 };
        self.set.pick_proved(self.stream, batch).get()
    }

    /// Sends all probes until `until`. `answers`: whether the peer answers at once.
    fn probe(&mut self, until: Time, answers: impl Fn(u16) -> bool) -> Vec<u16> {
        let mut asked = Vec::new();
        while let Some(due) = self.set.next_probe().filter(|due| *due <= until) {
            self.now = due;
            let Some(path) = self.set.poll_probe(due) else { continue };
            asked.push(path.get());
            if answers(path.get()) {
                assert!(self.set.on_probe_answer(due, due.stamp()));
            }
        }
        self.now = until;
        asked
    }

    /// Sends all probes until `until`. Adds their paths and stamps to `asked`.
    fn ask(&mut self, until: Time, asked: &mut Vec<(u16, u32)>) {
        while let Some(due) = self.set.next_probe().filter(|due| *due <= until) {
            if let Some(path) = self.set.poll_probe(due) {
                asked.push((path.get(), due.stamp()));
            }
        }
    }

    fn downs(&self) -> Vec<u16> {
        let down = self.set.paths().filter(|report| report.counters.downs > 0);
        down.map(|report| report.path.get()).collect()
    }
}

/// A packet that was sent earlier proves less, however late it arrives.
#[test]
fn time_out_takes_the_live_path_that_was_proved_last() {
    let mut it = Setting::new(8);
    let picked: Vec<u16> = (0..64).map(|_| it.proved()).collect();
    assert!((0..8).all(|path| picked.contains(&path)), "any path if none is proved: {picked:?}");
    [5, 2, 6].into_iter().for_each(|path| it.arrive(path));
    let late = Outcome::Arrived { packets: 1, rtt: 10 * RTT, congested: false };
    it.set.on_feedback(it.stream, it.now, PathId::new(3), late);
    assert_eq!(it.proved(), 6);
    let lost_at = it.now;
    it.arrive(2);
    it.lose(6, lost_at);
    assert_eq!(it.live(), [2; 1], "all others are suspected");
    assert_eq!(it.proved(), 2);
}

#[test]
fn one_loss_takes_all_silent_paths_out_and_pings_them_together() {
    let mut it = Setting::cut(16);
    assert_eq!(it.live(), [1, 2, 3], "only these have arrivals since");
    let until = it.now + 13 * GAP;
    let asked = it.probe(until, |path| path % 4 != 0);
    assert_eq!(asked.len(), 13, "each is asked once");
    assert_eq!(it.live(), [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15]);
    assert!(it.downs().is_empty());
}

#[test]
fn three_unanswered_pings_that_later_packets_pass_take_a_suspected_path_down() {
    let mut it = Setting::cut(16);
    for _ in 0..40 {
        let until = it.now + MS;
        it.probe(until, |path| path % 4 != 0);
        it.arrive(1);
    }
    assert_eq!(it.downs(), [0, 4, 8, 12]);
    assert_eq!(it.set.live(), 12);
    let until = it.now + 500 * MS;
    it.probe(until, |_| true);
    assert_eq!(it.set.live(), 16, "the route is back");
}

/// The peer answers all PINGs when it resumes, but another path brings its acknowledgement first.
/// Some answers come after the next PING has left.
#[test]
fn a_pause_of_the_peer_takes_no_suspected_path_down() {
    for pause in (1..100).map(|ms| ms * MS) {
        let mut it = Setting::cut(16);
        let resumed = it.now + pause;
        let mut asked = Vec::new();
        it.ask(resumed, &mut asked);
        it.now = resumed;
        it.arrive(1);
        it.ask(it.now, &mut asked);
        for (_, stamp) in asked {
            it.set.on_probe_answer(it.now, stamp);
        }
        assert!(it.downs().is_empty(), "{pause:?}");
        assert_eq!(it.set.live(), 16, "{pause:?}");
    }
}

/// A path may become slower than all others by several of the first intervals between PINGs, which
/// are 2.1 ms. Packets of the others pass each of its PINGs.
#[test]
fn a_path_with_slow_answers_is_not_taken_down() {
    const SLOW: u16 = 4;
    for round_trip in (1..=120).map(|tenths| tenths * MS / 10) {
        let mut it = Setting::cut(16);
        let (mut asked, mut answers) = (Vec::new(), VecDeque::new());
        let end = it.now + 100 * MS;
        while it.now < end {
            let until = it.now + MS / 10;
            it.ask(until, &mut asked);
            let of_slow = asked.drain(..).filter(|(path, _)| *path == SLOW);
            answers.extend(of_slow.map(|(_, stamp)| (until + round_trip, stamp)));
            while answers.front().is_some_and(|(at, _)| *at <= until) {
                let (_, stamp) = answers.pop_front().unwrap();
                it.set.on_probe_answer(until, stamp);
            }
            it.now = until;
            it.arrive(1);
        }
        assert!(!it.downs().contains(&SLOW) && it.downs().contains(&0), "{round_trip:?}");
        assert!(it.live().contains(&SLOW), "{round_trip:?}");
    }
}

#[test]
fn only_a_packet_sent_since_the_loss_clears_a_path() {
    let mut it = Setting::cut(16);
    let outcome = |rtt| Outcome::Arrived { packets: 1, rtt, congested: false };
    let old = outcome(Duration::from_millis(500));
    it.set.on_feedback(it.stream, it.now, PathId::new(4), old);
    assert_eq!(it.live(), [1, 2, 3]);
    it.set.on_feedback(it.stream, it.now, PathId::new(4), outcome(RTT));
    assert_eq!(it.live(), [1, 2, 3, 4]);
}

#[test]
fn a_loss_on_a_path_that_works_suspects_nothing() {
    let mut it = Setting::new(16);
    (0..16).for_each(|path| it.arrive(path));
    let lost_at = it.now;
    it.arrive(1);
    it.lose(1, lost_at);
    assert_eq!((it.set.live(), it.set.next_probe()), (16, None));
}

#[test]
fn if_nothing_has_arrived_since_nothing_is_suspected() {
    let mut it = Setting::new(16);
    (0..16).for_each(|path| it.arrive(path));
    it.lose(5, it.now);
    assert_eq!((it.set.live(), it.set.next_probe()), (16, None));
}

/// One packet in 20 is lost and found so late that nothing of its path has arrived since. PINGs and
/// their answers are lost as often.
#[test]
fn random_losses_cost_few_pings_and_few_paths() {
    const PACKETS: u64 = 40_000;
    const PATHS: u64 = 64;
    let mut it = Setting::new(PATHS as usize);
    let (mut live, mut random) = (0, 1_u64);
    let mut is_lost = move |one_in: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33).is_multiple_of(one_in)
    };
    for psn in 0..PACKETS as u32 {
        live += it.set.live() as u64;
        let path = it.set.pick(it.stream, Batch { now: it.now, psn, segments: 1 });
        it.set.on_sent(path, 1, false);
        if is_lost(20) {
            let sent_at = it.now;
            let other = it.set.pick(it.stream, Batch { now: it.now, psn, segments: 1 });
            it.arrive(other.get());
            it.lose(path.get(), sent_at);
        } else {
            it.arrive(path.get());
        }
        while let Some(asked) = it.set.poll_probe(it.now) {
            let stamp = it.now.stamp();
            it.now += Duration::from_nanos(16);
            if !is_lost(10) {
                assert!(it.set.on_probe_answer(it.now, stamp), "{asked:?}");
            }
        }
    }
    let probes: u64 = it.set.paths().map(|report| report.counters.probes).sum();
    let mean = live as f64 / PACKETS as f64;
    println!("{probes} probes for {PACKETS} packets, {mean:.1} of {PATHS} paths live");
    assert!(probes < PACKETS / 3, "{probes} probes");
    assert!(mean > 0.9 * PATHS as f64, "{mean} paths live");
}
