//! Tests of paths that go down, are probed and come up, through the public interface.

use std::time::Duration;

use braid_lb::{Batch, LbPolicy, Outcome, PathReport, PathSet, StreamId};
use braid_wire::{PathId, Time};

const RTT: Duration = Duration::from_micros(50);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One queue pair over a path set, and the time.
struct Setting {
    set: PathSet,
    stream: StreamId,
    now: Time,
}

impl Setting {
    fn new(policy: LbPolicy, paths: usize) -> Self {
        let mut set = PathSet::new(policy, paths, 1).unwrap();
        let stream = set.admit();
        Setting { set, stream, now: Time::from_nanos(1_000_000_000) }
    }

    fn lose(&mut self, path: u16, packets: u32) {
        self.lose_sent(path, packets, self.now);
    }

    fn lose_sent(&mut self, path: u16, packets: u32, sent_at: Time) {
        let outcome = Outcome::Lost { packets, sent_at };
        self.set.on_feedback(self.stream, self.now, PathId::new(path), outcome);
    }

    /// Acknowledges a packet and advances the time by a round trip.
    fn arrive(&mut self, path: u16) {
        let outcome = Outcome::Arrived { packets: 1, rtt: RTT, congested: false };
        self.set.on_feedback(self.stream, self.now, PathId::new(path), outcome);
        self.now += RTT;
    }

    fn round(&mut self, segments: u32) -> Vec<u16> {
        let batch = Batch { now: self.now, psn: 0, segments };
        (0..self.set.live()).map(|_| self.set.pick(self.stream, batch).get()).collect()
    }

    fn report(&self, path: u16) -> PathReport {
        self.set.paths().find(|report| report.path.get() == path).expect("the path is listed")
    }

    /// Sends the next probe and returns the time until then.
    fn probe(&mut self, path: u16) -> Duration {
        let due = self.set.next_probe().expect("something is down");
        let wait = due - self.now;
        assert_eq!(self.set.poll_probe(due_less_one(due)), None);
        self.now = due;
        assert_eq!(self.set.poll_probe(due), Some(PathId::new(path)));
        wait
    }

    fn answer(&mut self) {
        assert!(self.set.on_probe_answer(self.now, self.now.stamp()));
    }
}

fn due_less_one(due: Time) -> Time {
    Time::from_nanos(due.as_nanos() - 1)
}

#[test]
fn a_path_that_loses_three_in_a_row_is_left_alone_probed_and_put_back_in_its_place() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 4);
    assert_eq!((it.set.next_probe(), it.set.poll_probe(it.now)), (None, None));
    it.lose(1, 2);
    it.arrive(1);
    it.lose(1, 2);
    assert_eq!(it.round(1), [0, 1, 2, 3], "an arrival between starts the count again");
    it.lose(1, 1);
    assert_eq!((it.set.live(), it.set.count()), (3, 4));
    assert!(!it.round(1).contains(&1));
    assert!(!it.report(1).live);

    // 2 ms plus two round trips of the fastest known path. Only the dead path was measured here,
    // while it was alive.
    assert_eq!(it.probe(1), ms(2) + 2 * RTT);
    it.now += ms(1);
    assert!(!it.set.on_probe_answer(it.now, it.now.stamp()), "not the stamp of a probe");
    it.now = Time::from_nanos(it.now.as_nanos() - 1_000_000);
    it.answer();
    assert_eq!(it.set.live(), 4);
    let mut round = it.round(1);
    let start = round.iter().position(|path| *path == 0).unwrap();
    round.rotate_left(start);
    assert_eq!(round, [0, 1, 2, 3]);
    let counters = it.report(1).counters;
    assert_eq!((counters.downs, counters.probes, counters.sent, counters.lost), (1, 1, 1, 5));
    assert_eq!(it.set.next_probe(), None);
}

#[test]
fn unanswered_probes_come_less_and_less_often() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 2);
    it.lose(0, 3);
    let waits: Vec<Duration> = (0..10).map(|_| it.probe(0)).collect();
    assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 250, 250, 250].map(ms));
    let late = it.now.stamp().wrapping_sub(1000);
    assert!(!it.set.on_probe_answer(it.now, late), "only the latest probe counts");
    it.answer();
    assert_eq!(it.set.live(), 2);
}

#[test]
fn a_packet_that_arrives_after_all_brings_its_path_back_at_once() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 2);
    it.lose(0, 3);
    assert_eq!(it.set.live(), 1);
    it.arrive(0);
    assert_eq!((it.set.live(), it.set.next_probe()), (2, None));
}

#[test]
fn where_a_train_is_two_segments_one_lost_train_is_enough() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 4);
    it.round(2);
    it.lose(3, 2);
    assert!(!it.report(3).live);
}

#[test]
fn the_only_path_stays_and_when_all_die_all_come_back() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 1);
    it.lose(0, 100);
    assert_eq!(it.round(1), [0]);

    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 3);
    it.lose(0, 3);
    it.lose(2, 3);
    assert_eq!(it.round(1), [1]);
    it.lose(1, 3);
    assert_eq!((it.set.live(), it.set.next_probe()), (3, None));
    // All paths were down together, so none of them is flapping.
    it.lose(0, 3);
    assert_eq!(it.probe(0), ms(2));
}

#[test]
fn a_flapping_path_waits_longer_each_time_and_recovers_when_it_holds() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 2);
    let flap = |it: &mut Setting, up: Duration| {
        it.now += up;
        it.lose(0, 3);
        let wait = it.probe(0);
        it.answer();
        wait
    };
    let waits: Vec<Duration> = (0..9).map(|_| flap(&mut it, ms(100))).collect();
    assert_eq!(waits, [2, 10, 20, 40, 80, 160, 320, 500, 500].map(ms));
    assert_eq!(flap(&mut it, ms(2000)), ms(250), "two steady seconds halve it");
    assert_eq!(flap(&mut it, ms(9000)), ms(15) + ms(5) / 8, "four times two seconds, a sixteenth");
    assert_eq!(flap(&mut it, ms(5000)), ms(2), "below 10 ms it is gone");
}

#[test]
fn losses_from_before_do_not_take_a_path_down_again() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 2);
    (0..9).for_each(|_| it.set.on_sent(PathId::new(0), 1, false));
    let before = due_less_one(it.now);
    it.lose(0, 3);
    it.probe(0);
    it.answer();
    it.lose_sent(0, 6, before);
    assert_eq!(it.set.live(), 2, "the six that were in flight when it went down");
    it.lose(0, 3);
    assert_eq!(it.set.live(), 1);
}

#[test]
fn probes_that_are_due_together_have_stamps_of_their_own() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 4096);
    (0..4095).for_each(|path| it.lose(path, 3));
    assert_eq!(it.set.live(), 1);
    assert_eq!(it.round(1), [4095]);
    let mut stamps = Vec::new();
    while stamps.len() < 4095 {
        it.now = it.set.next_probe().unwrap();
        let path = it.set.poll_probe(it.now).expect("next_probe said so");
        stamps.push((it.now.stamp(), path));
    }
    let mut distinct: Vec<u32> = stamps.iter().map(|(stamp, _)| *stamp).collect();
    distinct.dedup();
    assert_eq!(distinct.len(), 4095);
    for (stamp, path) in stamps {
        assert!(it.set.on_probe_answer(it.now, stamp));
        assert!(it.report(path.get()).live);
    }
    assert_eq!(it.set.live(), 4096);
}

#[test]
fn a_path_that_has_just_been_heard_of_is_not_dead() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 4);
    it.arrive(1);
    it.now = due_less_one(it.now);
    it.lose(1, 100);
    assert_eq!(it.set.live(), 4, "a burst was dropped, and something else of the path arrived");
    it.now += Duration::from_nanos(1);
    it.lose(1, 3);
    assert_eq!(it.set.live(), 3);
}

#[test]
fn a_time_out_takes_no_path_out() {
    let mut it = Setting::new(LbPolicy::REPS, 4);
    it.round(1);
    (0..10).for_each(|_| it.set.on_timeout(it.stream, it.now));
    assert_eq!(it.set.live(), 4);
}

#[test]
fn a_path_that_leaves_the_list_is_not_probed() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 4);
    it.lose(1, 3);
    it.set.use_paths(&[3, 1, 0].map(PathId::new)).unwrap();
    assert_eq!(it.round(1), [3, 0], "in the new order; 1 is still down");
    it.set.use_paths(&[2, 3].map(PathId::new)).unwrap();
    assert_eq!((it.set.next_probe(), it.set.live()), (None, 2));
    it.set.use_paths(&[1, 2].map(PathId::new)).unwrap();
    assert_eq!(it.set.live(), 2, "1 is new to the list, and so as good as any");
}

#[test]
fn a_path_that_comes_back_begins_anew() {
    let mut it = Setting::new(LbPolicy::MIN_RTT, 2);
    it.round(1);
    it.arrive(0);
    it.arrive(1);
    (0..9).for_each(|_| it.set.on_sent(PathId::new(0), 1, false));
    assert_eq!(it.report(0).counters.rtt, Some(RTT));
    it.lose(0, 3);
    it.probe(0);
    it.answer();
    assert_eq!(it.report(0).counters.rtt, None);
    assert_eq!(it.round(1), [0, 0], "nothing in flight, and to be measured first");
}

#[test]
fn without_health_a_path_that_loses_everything_keeps_its_turn() {
    let mut it = Setting::new(LbPolicy::ROUND_ROBIN, 4);
    it.set = it.set.without_health();
    for _ in 0..100 {
        it.lose(1, 3);
    }
    assert_eq!(it.round(1), [0, 1, 2, 3]);
    assert_eq!((it.report(1).live, it.set.next_probe()), (true, None));
}
