//! Properties of all policies, and the behaviour of each shared one.

use std::collections::HashSet;
use std::time::Duration;

use braid_lb::{
    Batch, LbPolicy, Outcome, PathPolicy, PathPolicyFactory, PathRng, PathSet, Paths, PathsError,
    Requirements, StreamId,
};
use braid_wire::{PathId, Time};
use proptest::prelude::*;

fn batch(psn: u32) -> Batch {
    Batch { now: Time::ZERO, psn, segments: 1 }
}

fn picks(policy: LbPolicy, paths: usize, seed: u64, n: u32) -> Vec<u16> {
    let mut set = PathSet::new(policy, paths, seed).unwrap();
    let stream = set.admit();
    (0..n).map(|psn| set.pick(stream, batch(psn)).get()).collect()
}

fn arrived(us: u64) -> Outcome {
    Outcome::Arrived { packets: 1, rtt: Duration::from_micros(us), congested: false }
}

/// Returns the picks of a set while one packet in five is lost and some paths lose all, and the
/// final state of the paths.
fn course(mut set: PathSet) -> (Vec<u16>, Vec<braid_lb::PathReport>) {
    let stream = set.admit();
    let mut picks = Vec::new();
    for psn in 0..2000_u32 {
        let now = Time::ZERO + Duration::from_micros(u64::from(psn));
        let path = set.pick(stream, Batch { now, psn, segments: 1 });
        set.on_sent(path, 1, false);
        let lost = psn % 5 == 0 || path.get() % 16 == 3;
        let outcome = if lost { Outcome::Lost { packets: 1, sent_at: now } } else { arrived(20) };
        set.on_feedback(stream, now, path, outcome);
        if psn % 700 == 699 {
            set.on_timeout(stream, now);
        }
        picks.push(path.get());
    }
    (picks, set.paths().collect())
}

#[test]
fn a_set_that_grows_does_what_others_do() {
    for policy in LbPolicy::ALL {
        for paths in [8, 64, 65, 1000] {
            let whole = course(PathSet::new(policy, paths, 7).unwrap());
            let growing = course(PathSet::growing(policy, paths, 7).unwrap());
            assert_eq!(whole, growing, "{policy} over {paths} paths");
        }
    }
}

/// The bound of its queues counts packets per pick. The user's number comes first.
#[test]
fn destination_rotation_wants_a_path_for_each_packet() {
    assert_eq!(LbPolicy::DR.quantum(None), Some(1));
    assert_eq!(LbPolicy::DR.quantum(Some(15)), Some(15));
    for policy in LbPolicy::ALL.into_iter().filter(|policy| *policy != LbPolicy::DR) {
        assert_eq!((policy.quantum(None), policy.quantum(Some(8))), (None, Some(8)), "{policy}");
    }
    static CARELESS: Careless = Careless { path: PathId::new(0) };
    assert_eq!(LbPolicy::custom(&CARELESS).quantum(None), Some(1), "0 packets are not possible");
}

#[test]
fn round_robin_shares_its_turn_between_queue_pairs() {
    assert_eq!(picks(LbPolicy::ROUND_ROBIN, 3, 1, 7), [0, 1, 2, 0, 1, 2, 0]);
    let mut set = PathSet::new(LbPolicy::ROUND_ROBIN, 4, 1).unwrap();
    let (a, b) = (set.admit(), set.admit());
    let taken = [set.pick(a, batch(0)), set.pick(b, batch(0)), set.pick(a, batch(1))];
    assert_eq!(taken.map(PathId::get), [0, 1, 2]);
}

#[test]
fn destination_rotation_steps_by_one_from_a_random_start() {
    let taken = picks(LbPolicy::DR, 8, 1, 20);
    assert!(taken.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 8), "{taken:?}");
    let starts: HashSet<u16> = (0..50).map(|seed| picks(LbPolicy::DR, 8, seed, 1)[0]).collect();
    assert!(starts.len() > 4, "{starts:?}");
}

#[test]
fn psn_visits_the_paths_in_order_from_a_base_of_the_queue_pair() {
    let taken = picks(LbPolicy::PSN, 8, 1, 20);
    assert!(taken.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 8), "{taken:?}");
    let mut set = PathSet::new(LbPolicy::PSN, 8, 1).unwrap();
    let bases: HashSet<PathId> = (0..50)
        .map(|_| {
            let stream = set.admit();
            set.pick(stream, batch(0))
        })
        .collect();
    assert!(bases.len() > 4);
}

#[test]
fn single_path_policies_stay_and_spraying_ones_reach_every_path() {
    let reaches = |paths: usize, policies: &[LbPolicy]| {
        for policy in policies {
            let reached: HashSet<u16> = picks(*policy, 8, 3, 400).into_iter().collect();
            assert_eq!(reached.len(), paths, "{policy}");
        }
    };
    // Nothing is sent or acknowledged: under `min-rtt`, the first path stays the emptiest.
    reaches(1, &[LbPolicy::ECMP, LbPolicy::PLB, LbPolicy::MIN_RTT]);
    reaches(4, &[LbPolicy::SUBFLOW]);
    reaches(8, &[LbPolicy::ROUND_ROBIN, LbPolicy::OBLIVIOUS, LbPolicy::PRO, LbPolicy::PSN]);
    reaches(8, &[LbPolicy::DR, LbPolicy::REPS, LbPolicy::TWO_CHOICE, LbPolicy::ADAPTIVE]);
}

#[test]
fn as_many_paths_as_there_are_names_work() {
    for policy in LbPolicy::ALL {
        assert!(picks(policy, 4096, 3, 5000).into_iter().all(|path| path < 4096));
    }
    let round: HashSet<u16> = picks(LbPolicy::PRO, 4096, 3, 4096).into_iter().collect();
    assert_eq!(round.len(), 4096);
}

/// Simulates a network in which each path has a constant round trip. Returns the number of batches
/// per path.
fn steady(policy: LbPolicy, rtts_us: &[u64], batches: u32, in_flight: usize) -> Vec<usize> {
    let mut set = PathSet::new(policy, rtts_us.len(), 5).unwrap();
    let stream = set.admit();
    let mut under_way: Vec<(Time, PathId)> = Vec::new();
    let mut now = Time::ZERO;
    let mut taken = vec![0; rtts_us.len()];
    for psn in 0..batches {
        while under_way.len() >= in_flight {
            let first = (0..under_way.len()).min_by_key(|i| under_way[*i].0).unwrap();
            let (at, path) = under_way.swap_remove(first);
            now = now.max(at);
            set.on_feedback(stream, now, path, arrived(rtts_us[usize::from(path.get())]));
        }
        let path = set.pick(stream, Batch { now, psn, segments: 1 });
        set.on_sent(path, 1, false);
        let at = usize::from(path.get());
        under_way.push((now + Duration::from_micros(rtts_us[at]), path));
        taken[at] += 1;
    }
    taken
}

#[test]
fn min_rtt_takes_the_fastest_once_all_are_measured() {
    let taken = steady(LbPolicy::MIN_RTT, &[400, 100, 300, 200], 2000, 4);
    assert!(taken[1] > 1600 && taken[0] + taken[2] < 20, "{taken:?}");
    assert!(taken.iter().all(|batches| *batches > 0), "{taken:?}");
}

#[test]
fn min_rtt_weighs_round_trips_with_what_is_under_way() {
    let mut set = PathSet::new(LbPolicy::MIN_RTT, 2, 1).unwrap();
    let stream = set.admit();
    let (fast, slow) = (PathId::new(1), PathId::new(0));
    set.on_feedback(stream, Time::ZERO, fast, arrived(100));
    set.on_feedback(stream, Time::ZERO, slow, arrived(150));
    let taken: Vec<PathId> = (0..5)
        .map(|psn| {
            let path = set.pick(stream, batch(psn));
            set.on_sent(path, 1, false);
            path
        })
        .collect();
    // 100 < 150; then 2 x 100 > 150; 2 x 100 < 2 x 150; 3 x 100 = 2 x 150, so the lower number
    // first.
    assert_eq!(taken, [fast, slow, fast, slow, fast]);
}

#[test]
fn a_round_trip_time_that_is_not_renewed_loses_weight() {
    let mut set = PathSet::new(LbPolicy::MIN_RTT, 2, 1).unwrap();
    let stream = set.admit();
    let (fast, slow) = (PathId::new(0), PathId::new(1));
    let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
    set.on_feedback(stream, at(0), slow, arrived(900));
    let mut taken = |ms| {
        set.on_feedback(stream, at(ms), fast, arrived(100));
        let batch = Batch { now: at(ms), psn: 0, segments: 1 };
        (0..3).map(|_| set.pick(stream, batch)).collect::<Vec<_>>()
    };
    // 900 us, halved every 250 ms, is below 100 us after the fourth time.
    for ms in [250, 251, 502, 753] {
        assert_eq!(taken(ms), [fast; 3], "after {ms} ms");
    }
    assert!(taken(1004).contains(&slow), "it may have become fast again");
    set.on_feedback(stream, at(1005), slow, arrived(900));
    let report = set.paths().find(|report| report.path == slow).unwrap();
    assert_eq!(report.counters.rtt, Some(Duration::from_micros(900)), "as if measured afresh");
}

#[test]
fn a_queue_pair_that_ends_with_packets_in_flight_does_not_bar_its_path() {
    let mut set = PathSet::new(LbPolicy::MIN_RTT, 2, 1).unwrap();
    let stream = set.admit();
    set.on_feedback(stream, Time::ZERO, PathId::new(0), arrived(100));
    set.on_feedback(stream, Time::ZERO, PathId::new(1), arrived(900));
    (0..50).for_each(|_| set.on_sent(PathId::new(0), 1, false));
    assert_eq!(set.pick(stream, batch(0)).get(), 1);
    set.on_feedback(stream, Time::ZERO, PathId::new(0), Outcome::Forgotten { packets: 50 });
    assert_eq!(set.pick(stream, batch(0)).get(), 0);
}

#[test]
fn two_choice_prefers_fast_paths_but_not_only_the_fastest() {
    let taken = steady(LbPolicy::TWO_CHOICE, &[100, 110, 400, 400], 4000, 8);
    assert!(taken[0] + taken[1] > 3000, "{taken:?}");
    assert!(taken[1] > 500 && taken[2] > 100, "{taken:?}");
}

#[test]
fn reps_settles_on_paths_that_come_back_clean() {
    // Path 3 exceeds twice the lowest round trip plus 200 us, so it is never clean.
    let taken = steady(LbPolicy::REPS, &[100, 100, 100, 900], 2000, 4);
    assert!(taken[3] < 100 && taken[..3].iter().all(|batches| *batches > 200), "{taken:?}");
}

#[test]
fn a_dismissed_queue_pair_no_longer_counts_in_the_span_of_pro() {
    let mut set = PathSet::new(LbPolicy::PRO, 8, 1).unwrap();
    let (a, b) = (set.admit(), set.admit());
    let first = [set.pick(a, batch(0)), set.pick(b, batch(0))];
    set.dismiss(b);
    let idle = set.admit();
    set.dismiss(idle); // never invited
    let then = [set.pick(a, batch(1)), set.pick(a, batch(2))];
    let start = first[0].get();
    let after = |steps: u16| (start + steps) % 8;
    assert_eq!(first.map(PathId::get), [after(0), after(1)]);
    assert_eq!(then.map(PathId::get), [after(1), after(2)]); // P = 1: span 1
}

/// Otherwise the senders of a collective would all use the same path at once.
#[test]
fn rotations_of_path_sets_start_at_different_paths() {
    for policy in [LbPolicy::PRO, LbPolicy::ADAPTIVE, LbPolicy::DR] {
        let first: HashSet<u16> = (1..=64).map(|seed| picks(policy, 8, seed, 1)[0]).collect();
        assert_eq!(first.len(), 8, "{policy}");
    }
}

/// A batch takes one path, whatever its length, so the next queue pair starts at the next path.
#[test]
fn queue_pairs_with_long_batches_start_at_different_paths() {
    for policy in [LbPolicy::PRO, LbPolicy::ADAPTIVE] {
        let mut set = PathSet::new(policy, 8, 1).unwrap();
        let long = Batch { segments: 64, ..batch(0) };
        let first: HashSet<u16> = (0..8)
            .map(|_| {
                let stream = set.admit();
                set.pick(stream, long).get()
            })
            .collect();
        assert_eq!(first.len(), 8, "{policy}");
    }
}

#[test]
fn reps_does_not_recycle_marked_paths_and_freezes_on_a_time_out() {
    let mut set = PathSet::new(LbPolicy::REPS, 4, 1).unwrap();
    let stream = set.admit();
    let pick = |set: &mut PathSet, stream: StreamId| set.pick(stream, batch(0)).get();
    let explored = [(); 8].map(|()| pick(&mut set, stream)); // 2 n
    assert_ne!(explored, [explored[0]; 8]);
    let rtt = Duration::from_micros(100);
    let marked = Outcome::Arrived { packets: 1, rtt, congested: true };
    let after_marks: HashSet<u16> = (0..40)
        .map(|_| {
            set.on_feedback(stream, Time::ZERO, PathId::new(1), marked);
            pick(&mut set, stream)
        })
        .collect();
    assert_eq!(after_marks.len(), 4, "random as long as nothing is clean");

    set.on_feedback(stream, Time::ZERO, PathId::new(2), arrived(100));
    set.on_timeout(stream, Time::ZERO);
    assert_eq!([(); 20].map(|()| pick(&mut set, stream)), [2; 20]);
    let later = Time::from_nanos(10_000_000);
    set.on_feedback(stream, later, PathId::new(2), Outcome::Lost { packets: 1, sent_at: later });
    assert_ne!([(); 20].map(|()| pick(&mut set, stream)), [2; 20]);
}

#[test]
fn plb_leaves_a_path_that_is_late_and_one_that_timed_out() {
    let mut set = PathSet::new(LbPolicy::PLB, 16, 1).unwrap();
    let (stream, other) = (set.admit(), set.admit());
    let path = set.pick(stream, batch(0));
    let elsewhere = PathId::new((path.get() + 1) % 16);
    set.on_feedback(other, Time::ZERO, elsewhere, arrived(50)); // the lowest round-trip time
    let mut now = Time::ZERO;
    for round in 0..=3 {
        assert_eq!(set.pick(stream, Batch { now, psn: 0, segments: 1 }), path, "round {round}");
        now += Duration::from_millis(1);
        set.on_feedback(stream, now, path, arrived(1000)); // beyond 2 x 50 us + 200 us, unmarked
    }
    now += Duration::from_millis(1);
    let second = set.pick(stream, Batch { now, psn: 0, segments: 1 });
    assert_ne!(second, path);
    set.on_timeout(stream, now);
    assert_ne!(set.pick(stream, Batch { now, psn: 0, segments: 1 }), second);
}

#[test]
fn says_which_paths_cannot_be_used() {
    for count in [0, 5000] {
        assert_eq!(PathSet::new(LbPolicy::ECMP, count, 1).unwrap_err(), PathsError::Count(count));
    }
    let mut set = PathSet::new(LbPolicy::ECMP, 4, 1).unwrap();
    let mut refused = |paths: &[u16]| {
        let paths: Vec<PathId> = paths.iter().map(|path| PathId::new(*path)).collect();
        set.use_paths(&paths).unwrap_err().to_string()
    };
    assert_eq!(refused(&[]), "invalid number of paths 0; use 1 to 4096");
    assert_eq!(refused(&[1, 4]), "path 4 is unknown; the path set has paths 0 to 3");
    assert_eq!(refused(&[1, 2, 1]), "path 1 is listed twice; list it once");
    assert_eq!(set.live(), 4, "a refused list changes nothing");
}

/// An external policy that violates the contract.
#[derive(Clone, Copy, Debug)]
struct Careless {
    path: PathId,
}

impl PathPolicy for Careless {
    fn pick(&mut self, _: StreamId, _: Batch, _: &Paths, _: &mut PathRng) -> PathId {
        self.path
    }
}

impl PathPolicyFactory for Careless {
    fn name(&self) -> &str {
        "careless"
    }

    fn requirements(&self) -> Requirements {
        Requirements { quanta: 0, quantum: Some(0), ..Requirements::default() }
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(*self)
    }
}

#[test]
fn a_policy_that_picks_what_is_not_live_harms_nobody() {
    for path in [0, 3, 4, 4095, u16::MAX].map(PathId::new) {
        let policy = LbPolicy::custom(Box::leak(Box::new(Careless { path })));
        let mut set = PathSet::new(policy, 4, 1).unwrap();
        assert_eq!(set.requirements().quanta, 1);
        let stream = set.admit();
        for _ in 0..3 {
            set.on_feedback(
                stream,
                Time::ZERO,
                PathId::new(3),
                Outcome::Lost { packets: 3, sent_at: Time::ZERO },
            );
            let picked = set.pick(stream, batch(0));
            set.on_sent(picked, 1, false);
            assert!(set.paths().any(|report| report.path == picked && report.live), "{picked:?}");
        }
    }
}

/// A call of a driver.
#[derive(Clone, Debug)]
enum Call {
    Pick { stream: usize, psn: u32, segments: u32, retransmission: bool },
    Arrived { stream: usize, path: u16, packets: u32, rtt_us: u64, congested: bool },
    Lost { stream: usize, path: u16, packets: u32 },
    TimedOut { stream: usize },
    Replace { stream: usize },
    UsePaths(Vec<u16>),
    Probe,
    Answer,
    Wait(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let (stream, path) = (0_usize..4, 0_u16..14);
    let call = prop_oneof![
        8 => (stream.clone(), 0_u32..1 << 24, 0_u32..20, any::<bool>()).prop_map(
            |(stream, psn, segments, retransmission)| Call::Pick { stream, psn, segments, retransmission }
        ),
        4 => (stream.clone(), path.clone(), 0_u32..20, 0_u64..2000, any::<bool>()).prop_map(
            |(stream, path, packets, rtt_us, congested)| Call::Arrived { stream, path, packets, rtt_us, congested }
        ),
        6 => (stream.clone(), path.clone(), 0_u32..5)
            .prop_map(|(stream, path, packets)| Call::Lost { stream, path, packets }),
        1 => stream.clone().prop_map(|stream| Call::TimedOut { stream }),
        1 => stream.prop_map(|stream| Call::Replace { stream }),
        1 => prop::collection::vec(path, 0..6).prop_map(Call::UsePaths),
        3 => Just(Call::Probe),
        2 => Just(Call::Answer),
        3 => (0_u64..20_000_000).prop_map(Call::Wait),
    ];
    prop::collection::vec(call, 1..300)
}

/// Makes the calls and returns all results of the path set. Panics if the set breaks a guarantee.
fn drive(policy: LbPolicy, count: usize, calls: &[Call]) -> Vec<Option<PathId>> {
    let mut set = PathSet::new(policy, count, 11).unwrap();
    let mut streams: Vec<StreamId> = (0..4).map(|_| set.admit()).collect();
    let mut now = Time::ZERO;
    let mut in_use: HashSet<PathId> = (0..count as u16).map(PathId::new).collect();
    let mut stamps = Vec::new();
    let mut said = Vec::new();
    for call in calls.iter().cloned() {
        match call {
            Call::Pick { stream, psn, segments, retransmission } => {
                let path = set.pick(streams[stream], Batch { now, psn, segments });
                let live = set.paths().any(|report| report.path == path && report.live);
                assert!(live && in_use.contains(&path), "{policy} picked {path:?}");
                (0..segments).for_each(|_| set.on_sent(path, 1, retransmission));
                said.push(Some(path));
            }
            Call::Arrived { stream, path, packets, rtt_us, congested } => {
                let rtt = Duration::from_micros(rtt_us);
                let outcome = Outcome::Arrived { packets, rtt, congested };
                set.on_feedback(streams[stream], now, PathId::new(path), outcome);
            }
            Call::Lost { stream, path, packets } => {
                set.on_feedback(
                    streams[stream],
                    now,
                    PathId::new(path),
                    Outcome::Lost { packets, sent_at: now },
                );
            }
            Call::TimedOut { stream } => set.on_timeout(streams[stream], now),
            Call::Replace { stream } => {
                set.dismiss(streams[stream]);
                streams[stream] = set.admit();
            }
            Call::UsePaths(paths) => {
                let paths: Vec<PathId> = paths.into_iter().map(PathId::new).collect();
                if set.use_paths(&paths).is_ok() {
                    in_use = paths.into_iter().collect();
                }
            }
            Call::Probe => {
                let due = set.next_probe();
                let probed = set.poll_probe(now);
                assert_eq!(probed.is_some(), due.is_some_and(|due| due <= now));
                if let Some(path) = probed {
                    assert!(in_use.contains(&path));
                    assert!(set.paths().any(|report| report.path == path && !report.live));
                    stamps.push(now.stamp());
                }
                said.push(probed);
            }
            Call::Answer => {
                let answered = stamps.pop().is_some_and(|stamp| set.on_probe_answer(now, stamp));
                said.push(answered.then(PathId::default));
            }
            Call::Wait(ns) => now += Duration::from_nanos(ns),
        }
        let live = set.paths().filter(|report| report.live).count();
        assert!(live == set.live() && live >= 1 && live <= in_use.len());
        assert_eq!(set.next_probe().is_some(), live < in_use.len());
    }
    said
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// After any calls, a pick is a live path in use, only paths that are down are probed, and the
    /// same calls return the same results.
    #[test]
    fn every_policy_picks_live_paths_whatever_happens(count in 1_usize..13, calls in calls()) {
        for policy in LbPolicy::ALL {
            prop_assert_eq!(drive(policy, count, &calls), drive(policy, count, &calls));
        }
    }

    #[test]
    fn the_seed_decides_the_random_policies(seed in any::<u64>()) {
        for policy in LbPolicy::ALL {
            prop_assert_eq!(picks(policy, 16, seed, 100), picks(policy, 16, seed, 100));
        }
        prop_assert_ne!(
            picks(LbPolicy::OBLIVIOUS, 16, seed, 100),
            picks(LbPolicy::OBLIVIOUS, 16, !seed, 100)
        );
    }
}
