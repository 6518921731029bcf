use std::collections::HashSet;
use std::time::Duration;

use super::*;
use crate::{LbPolicy, LoadMse};

const RTT: Duration = Duration::from_micros(50);
const STAMP: u32 = 77;

fn paths() -> PathSet {
    PathSet::new(LbPolicy::ROUND_ROBIN, 4, 1).unwrap()
}

/// Creates `count` rails of which only the first is proved.
fn unproved(scheme: RailScheme, count: usize) -> Rails {
    Rails::new(scheme, paths(), (1..count).map(|_| (paths(), STAMP)))
}

fn proved(scheme: RailScheme, count: usize) -> Rails {
    let mut rails = unproved(scheme, count);
    while let Some(probe) = rails.poll_probe(Time::ZERO) {
        assert!(rails.on_probe_answer(Time::ZERO, probe.path.rail(), false, probe.stamp));
    }
    assert_eq!(rails.live().len(), count);
    rails
}

fn ids(rails: &[usize]) -> RailSet {
    rails.iter().map(|rail| RailId::new(*rail)).collect()
}

fn path(rail: usize) -> PathId {
    PathId::new(0).on(RailId::new(rail))
}

fn lose(rails: &mut Rails, stream: StreamId, now: Time, rail: usize, packets: u32) {
    rails.on_feedback(stream, now, path(rail), Outcome::Lost { packets, sent_at: now });
}

fn arrive(rails: &mut Rails, stream: StreamId, now: Time, rail: usize) {
    let arrived = Outcome::Arrived { packets: 1, rtt: RTT, congested: false };
    rails.on_feedback(stream, now, path(rail), arrived);
}

#[test]
fn a_further_rail_is_used_once_its_probe_is_answered_with_its_stamp() {
    let mut rails = unproved(RailScheme::default(), 2);
    assert_eq!(rails.live(), ids(&[0]));
    let probe = rails.poll_probe(Time::ZERO).expect("it is to be proved");
    assert_eq!((probe.path.rail(), probe.stamp), (RailId::new(1), STAMP));
    assert_eq!(rails.poll_probe(Time::ZERO), None);
    assert!(!rails.on_probe_answer(Time::ZERO, probe.path.rail(), false, STAMP + 1));
    assert!(!rails.on_probe_answer(Time::ZERO, RailId::new(0), false, STAMP), "by another rail");
    assert_eq!(rails.live(), ids(&[0]));
    assert!(rails.on_probe_answer(Time::ZERO, probe.path.rail(), false, STAMP));
    assert_eq!((rails.live(), rails.next_probe()), (ids(&[0, 1]), None));
}

#[test]
fn who_guesses_stamps_has_soon_guessed_too_often() {
    let mut rails = unproved(RailScheme::default(), 2);
    (0..16).for_each(|guess| {
        rails.on_probe_answer(Time::ZERO, RailId::new(1), false, guess);
    });
    assert!(!rails.on_probe_answer(Time::ZERO, RailId::new(1), false, STAMP));
    assert_eq!((rails.live(), rails.next_probe()), (ids(&[0]), None));
}

#[test]
fn an_unproved_rail_is_asked_ever_more_seldom_and_never_used() {
    let mut rails = unproved(RailScheme::default(), 2);
    let stream = rails.admit();
    let (mut now, mut count) = (Time::ZERO, 0);
    while now < Time::ZERO + Duration::from_secs(10) {
        now = rails.next_probe().expect("it is asked for ever");
        let probe = rails.poll_probe(now).expect("it is due");
        count += u32::from(probe.path.rail() == RailId::new(1));
        // Losses on the first rail bring no other rail up.
        lose(&mut rails, stream, now, 0, 5);
        assert_eq!(rails.live(), ids(&[0]));
    }
    assert!((40..60).contains(&count), "{count}");
}

#[test]
fn a_rail_that_loses_everything_is_left_out_and_comes_back_when_a_probe_is_answered() {
    let mut rails = proved(RailScheme::default(), 2);
    let stream = rails.admit();
    let mut now = Time::ZERO + Duration::from_secs(1);
    lose(&mut rails, stream, now, 1, 2);
    arrive(&mut rails, stream, now, 1);
    now += RTT;
    lose(&mut rails, stream, now, 1, 2);
    assert_eq!(rails.live(), ids(&[0, 1]), "something has arrived in between");
    lose(&mut rails, stream, now, 1, 1);
    assert_eq!(rails.live(), ids(&[0]));
    let due = rails.next_probe().expect("it is probed");
    let probe = rails.poll_probe(due).expect("due");
    assert_eq!(probe.path.rail(), RailId::new(1));
    assert!(
        !rails.on_probe_answer(due, RailId::new(0), false, probe.stamp),
        "the answer came by another rail"
    );
    assert!(rails.on_probe_answer(due, probe.path.rail(), false, probe.stamp));
    assert_eq!(rails.live(), ids(&[0, 1]));
}

#[test]
fn the_last_rail_stays() {
    let mut rails = proved(RailScheme::default(), 3);
    let stream = rails.admit();
    let now = Time::ZERO + Duration::from_secs(1);
    for rail in [0, 2] {
        lose(&mut rails, stream, now, rail, 3);
    }
    assert_eq!(rails.live(), ids(&[1]));
    lose(&mut rails, stream, now, 1, 3);
    assert_eq!(rails.live(), ids(&[0, 1, 2]), "nothing says which one is dead");
}

#[test]
fn round_robin_goes_round_those_that_are_open() {
    let mut rails = proved(RailScheme::ROUND_ROBIN, 4);
    let stream = rails.admit();
    let picked: Vec<_> = (0..6).map(|_| rails.pick_rail(stream, ids(&[0, 1, 3])).get()).collect();
    assert_eq!(picked, [0, 1, 3, 0, 1, 3]);
}

#[test]
fn hash_spreads_streams_and_keeps_each_on_its_rail_until_that_is_dead() {
    let mut rails = proved(RailScheme::HASH, 4);
    let streams: Vec<StreamId> = (0..64).map(|_| rails.admit()).collect();
    let all = ids(&[0, 1, 2, 3]);
    let mut pick = |stream, open| rails.pick_rail(stream, open).get();
    let first: Vec<_> = streams.iter().map(|stream| pick(*stream, all)).collect();
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 4);
    let waiting: Vec<_> = streams.iter().map(|stream| pick(*stream, ids(&[2]))).collect();
    assert_eq!(waiting, first, "who has no room waits");
    let now = Time::ZERO + Duration::from_secs(1);
    lose(&mut rails, streams[0], now, first[0], 3);
    let live = rails.live();
    let moved = rails.pick_rail(streams[0], live);
    assert!(moved.get() != first[0] && live.contains(moved));
}

#[test]
fn hash_spreads_the_first_streams_to_different_destinations() {
    let first = |turn| {
        let mut rails = proved(RailScheme::HASH, 4).of_host(Arc::default(), turn);
        let stream = rails.admit();
        rails.pick_rail(stream, ids(&[0, 1, 2, 3]))
    };
    let picked: HashSet<RailId> = (0..4).map(first).collect();
    assert_eq!(picked.len(), 4, "{picked:?}");
}

#[test]
fn least_loaded_takes_the_open_rail_with_the_least_under_way() {
    let mut rails = proved(RailScheme::LEAST_LOADED, 3);
    let stream = rails.admit();
    let now = Time::ZERO + Duration::from_secs(1);
    for (rail, packets) in [(0, 4), (1, 9), (2, 2)] {
        arrive(&mut rails, stream, now, rail);
        (0..packets).for_each(|_| rails.on_sent(path(rail), 1, false));
    }
    assert_eq!(rails.pick_rail(stream, ids(&[0, 1, 2])), RailId::new(2));
    assert_eq!(rails.pick_rail(stream, ids(&[0, 1])), RailId::new(0));
}

/// Sends `packets` of a stream on the picked rail, which arrive at once.
fn send(rails: &mut Rails, stream: StreamId, open: RailSet, packets: usize) -> RailId {
    let rail = rails.pick_rail(stream, open);
    for _ in 0..packets {
        rails.on_sent(path(rail.get()), 1, false);
        arrive(rails, stream, Time::ZERO, rail.get());
    }
    rail
}

#[test]
fn min_rtt_takes_the_open_rail_that_answers_soonest() {
    let mut rails = proved(RailScheme::MIN_RTT, 3);
    let stream = rails.admit();
    for (rail, us) in [(0, 300), (1, 100), (2, 200)] {
        let rtt = Duration::from_micros(us);
        let arrived = Outcome::Arrived { packets: 1, rtt, congested: false };
        rails.on_feedback(stream, Time::ZERO, path(rail), arrived);
    }
    (0..50).for_each(|_| rails.on_sent(path(1), 1, false));
    assert_eq!(
        rails.pick_rail(stream, ids(&[0, 1, 2])),
        RailId::new(1),
        "however much is under way"
    );
    assert_eq!(rails.pick_rail(stream, ids(&[0, 2])), RailId::new(2));
}

#[test]
fn lpt_evens_out_the_loads_of_all_destinations_of_a_host() {
    let host = Arc::new(HostLoads::default());
    let to = |turn| proved(RailScheme::LPT, 4).of_host(host.clone(), turn);
    let (mut one, mut other) = (to(0), to(2));
    let (a, b) = (one.admit(), other.admit());
    let all = ids(&[0, 1, 2, 3]);
    // Many chunks to one destination on two rails: traffic to the other destination takes the other
    // two.
    for rail in (0..32).map(|chunk| chunk % 2) {
        send(&mut one, a, ids(&[rail]), 16);
    }
    let taken: Vec<_> = (0..32).map(|_| send(&mut other, b, all, 16).get()).collect();
    assert!(taken.iter().all(|rail| *rail >= 2), "{taken:?}");
    let loads = all.iter().map(|rail| host.of(rail) as f64);
    assert!(LoadMse::of(loads).of_mean < 0.001);
}

#[test]
fn lpt_spreads_each_destination_though_several_share_the_loads() {
    let host = Arc::new(HostLoads::default());
    let all = ids(&[0, 1, 2, 3]);
    let destinations = (0..4).map(|turn| proved(RailScheme::LPT, 4).of_host(host.clone(), turn));
    let mut destinations: Vec<_> = destinations.collect();
    let streams: Vec<_> = destinations.iter_mut().map(Rails::admit).collect();
    let mut sent = [[0_u32; 4]; 4];
    for _ in 0..64 {
        for (index, rails) in destinations.iter_mut().enumerate() {
            sent[index][send(rails, streams[index], all, 16).get()] += 1;
        }
    }
    for loads in sent {
        let mse = LoadMse::of(loads.map(f64::from));
        assert!(mse.of_mean < 0.01, "{mse:?} {sent:?}");
    }
}

#[test]
fn lpt_begins_elsewhere_for_each_destination() {
    let begins = |turn| {
        let mut rails = proved(RailScheme::LPT, 4).of_host(Arc::default(), turn);
        let stream = rails.admit();
        rails.pick_rail(stream, ids(&[0, 1, 2, 3])).get()
    };
    assert_eq!([0, 1, 2, 3, 4].map(begins), [0, 1, 2, 3, 0]);
}

#[test]
fn lpt_gives_a_rail_as_much_as_it_delivers() {
    let mut rails = proved(RailScheme::LPT, 2);
    let stream = rails.admit();
    let (fast, both) = (ids(&[0]), ids(&[0, 1]));
    // Rail 1 has space once in four times and delivers a quarter of rail 0.
    for round in 0..2_000 {
        send(&mut rails, stream, if round % 5 == 4 { ids(&[1]) } else { fast }, 16);
    }
    // Without new observations, the faster rail gets as many more chunks, after rail 1 has caught
    // up.
    (0..60).for_each(|_| {
        send(&mut rails, stream, both, 16);
    });
    let mut taken = [0_u32; 2];
    (0..50).for_each(|_| {
        taken[send(&mut rails, stream, both, 16).get()] += 1;
    });
    assert!((35..45).contains(&taken[0]), "{taken:?}");
}

#[test]
fn lpt_does_not_give_everything_to_a_rail_that_was_away() {
    let mut rails = proved(RailScheme::LPT, 2);
    let stream = rails.admit();
    (0..10_000).for_each(|_| {
        send(&mut rails, stream, ids(&[0]), 16);
    });
    let both = ids(&[0, 1]);
    let caught_up = (0..100).position(|_| send(&mut rails, stream, both, 16).get() == 0);
    assert!(caught_up.is_some(), "it still gets everything");
}

#[test]
fn held_rails_are_not_open_unless_all_are() {
    let mut rails = proved(RailScheme::default(), 2);
    rails.devices_mut().hold(ids(&[1]));
    assert_eq!((rails.live(), rails.open()), (ids(&[0, 1]), ids(&[0])));
    rails.devices_mut().hold(ids(&[0, 1]));
    assert_eq!(rails.open(), ids(&[0, 1]));
}

#[test]
fn a_scheme_is_found_by_its_name_and_an_unknown_one_lists_them() {
    for scheme in RailScheme::ALL {
        assert_eq!(scheme.to_string().parse(), Ok(scheme));
    }
    let error = "spray".parse::<RailScheme>().unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown rail policy `spray`; available: least-loaded, round-robin, hash, lpt, min-rtt"
    );
}

#[test]
fn paths_are_told_apart_by_their_rails() {
    let mut rails = proved(RailScheme::default(), 2);
    rails.on_sent(path(1), 1, false);
    let sent: Vec<_> = rails.paths().map(|report| (report.path, report.counters.sent)).collect();
    assert_eq!(sent.len(), 8);
    assert!(sent.contains(&(path(0), 0)) && sent.contains(&(path(1), 1)), "{sent:?}");
}

#[test]
fn an_acknowledgement_leaves_by_the_path_that_it_echoes_unless_it_does_not_get_through() {
    let mut rails = proved(RailScheme::default(), 3);
    let stream = rails.admit();
    let echoed = PathId::new(2).on(RailId::new(1));
    let mut of_ack = |repeats| rails.of_ack(echoed, repeats);
    assert_eq!([0, 2, 4, 6].map(&mut of_ack), [echoed; 4]);
    let repeated: Vec<PathId> = (0..12).map(|n| of_ack(2 * n + 1)).collect();
    let rails_taken: Vec<usize> = repeated.iter().take(4).map(|path| path.rail().get()).collect();
    assert_eq!(rails_taken, [2, 0, 1, 2], "first those of the other rails");
    let repeated: HashSet<PathId> = repeated.into_iter().collect();
    assert!(repeated.len() > 6, "any path: {repeated:?}");
    // Without feedback on another rail for a round trip, the rail is dead.
    lose(&mut rails, stream, Time::ZERO, 1, 3);
    assert_eq!(rails.live(), ids(&[0, 2]));
    for repeats in 0..12 {
        let rail = rails.of_ack(echoed, repeats).rail();
        assert!(rails.is_live(rail), "repeat {repeats}");
    }
}

#[test]
fn the_state_of_a_path_that_does_not_exist_has_no_place() {
    let rails = proved(RailScheme::default(), 2);
    let places = |path: PathId| {
        let mut places = Vec::new();
        rails.state_of(path, |place, bytes| places.push((place, bytes)));
        places
    };
    let [first, second] = [0, 1].map(|rail| places(path(rail)));
    assert!(first.len() == 1 && second.len() == 1 && first != second, "{first:?} {second:?}");
    for missing in [PathId::new(4), path(2)] {
        assert_eq!(places(missing), [], "{missing:?}");
    }
}

/// A policy foresees the pick of any stream, or nothing. Oblivious spraying always does.
#[test]
fn a_foreseen_path_is_picked() {
    for policy in LbPolicy::ALL {
        let set = PathSet::growing(policy, 100, 5).unwrap();
        let mut rails = Rails::from(set);
        let streams = [rails.admit(), rails.admit()];
        let batch = Batch { now: Time::ZERO, psn: 0, segments: 1 };
        for nth in 0..200 {
            let foreseen = rails.foresee();
            assert!(foreseen.is_some() || policy != LbPolicy::OBLIVIOUS);
            let picked = rails.pick(RailId::FIRST, streams[nth % 2], batch);
            assert!(foreseen.is_none_or(|path| path == picked), "{policy:?}: {foreseen:?}");
        }
    }
    let oblivious = || PathSet::new(LbPolicy::OBLIVIOUS, 4, 1).unwrap();
    let several = Rails::new(RailScheme::default(), oblivious(), [(oblivious(), STAMP)]);
    assert_eq!(several.foresee(), None, "the rail is not known");
}
