//! Properties of `adaptive` on links with queues.

use std::collections::HashSet;
use std::time::Duration;

use braid_lb::{Batch, LbPolicy, Outcome, PathSet, StreamId};
use braid_wire::{PathId, Time};
use proptest::prelude::*;

/// Round trip without queues and without the transmission time.
const BASE: Duration = Duration::from_micros(200);
/// Transmission time of a segment on a fast link.
const FAST: Duration = Duration::from_micros(60);

#[derive(Clone, Copy)]
struct Link {
    /// Transmission time of a segment.
    segment: Duration,
    /// Time at which the queue is empty.
    free_at: Time,
    carried: u32,
}

/// A batch in flight.
struct Sent {
    at: Time,
    back_at: Time,
    path: PathId,
    segments: u32,
}

/// A sender with a window of segments over parallel links. Path `i` takes link `i` modulo their
/// number.
struct Fabric {
    paths: PathSet,
    stream: StreamId,
    now: Time,
    links: Vec<Link>,
    sent: Vec<Sent>,
    window: u32,
    batch: u32,
    picks: Vec<PathId>,
    rtts: Vec<Duration>,
}

impl Fabric {
    /// Creates a fabric. `slowness` is the transmission time of each link relative to a fast one.
    fn new(policy: LbPolicy, paths: usize, slowness: &[u32], window: u32, batch: u32) -> Self {
        let mut paths = PathSet::new(policy, paths, 5).unwrap();
        let link =
            |slowness: &u32| Link { segment: FAST * *slowness, free_at: Time::ZERO, carried: 0 };
        Fabric {
            stream: paths.admit(),
            paths,
            now: Time::ZERO,
            links: slowness.iter().map(link).collect(),
            sent: Vec::new(),
            window,
            batch,
            picks: Vec::new(),
            rtts: Vec::new(),
        }
    }

    /// Creates one link at a tenth of the others' rate, with 64 KiB in flight in batches of an
    /// eighth.
    fn with_a_slow_link(policy: LbPolicy) -> Self {
        Fabric::new(policy, 64, &[10, 1, 1, 1], 43, 5)
    }

    /// Returns the number of segments sent.
    fn send(&mut self) -> u32 {
        let planned = Batch { now: self.now, psn: 0, segments: self.batch };
        let path = self.paths.pick(self.stream, planned);
        let most = self.paths.most_segments().map_or(self.batch, |most| most.get());
        let segments = most.min(self.batch);
        (0..segments).for_each(|_| self.paths.on_sent(path, 1, false));
        let count = self.links.len();
        let link = &mut self.links[usize::from(path.get()) % count];
        link.free_at = link.free_at.max(self.now) + link.segment * segments;
        link.carried += segments;
        let back_at = link.free_at + BASE;
        self.sent.push(Sent { at: self.now, back_at, path, segments });
        self.picks.push(path);
        segments
    }

    fn hear(&mut self) {
        let first = (0..self.sent.len()).min_by_key(|i| self.sent[*i].back_at).unwrap();
        let Sent { at, back_at, path, segments } = self.sent.swap_remove(first);
        self.now = back_at;
        let outcome = Outcome::Arrived { packets: segments, rtt: back_at - at, congested: false };
        self.paths.on_feedback(self.stream, back_at, path, outcome);
        self.rtts.push(back_at - at);
    }

    /// Sends for `ms` milliseconds. Returns the share of the links' capacity that was used.
    fn run(&mut self, ms: u64) -> f64 {
        self.links.iter_mut().for_each(|link| link.carried = 0);
        (self.rtts, self.picks) = (Vec::new(), Vec::new());
        let (begin, end) = (self.now, self.now + Duration::from_millis(ms));
        while self.now < end {
            while self.sent.iter().map(|sent| sent.segments).sum::<u32>() + self.batch
                <= self.window
            {
                self.send();
            }
            self.hear();
        }
        let seconds = (self.now - begin).as_secs_f64();
        let can: f64 = self.links.iter().map(|link| seconds / link.segment.as_secs_f64()).sum();
        self.links.iter().map(|link| f64::from(link.carried)).sum::<f64>() / can
    }

    fn p99(&mut self) -> Duration {
        self.rtts.sort_unstable();
        self.rtts[self.rtts.len() * 99 / 100]
    }
}

#[test]
fn a_slow_link_holds_up_neither_the_others_nor_its_own_packets() {
    let mut pro = Fabric::with_a_slow_link(LbPolicy::PRO);
    assert!(pro.run(1000) < 0.2, "this fabric does not show the trouble");
    let mut adaptive = Fabric::with_a_slow_link(LbPolicy::ADAPTIVE);
    adaptive.run(200);
    let share = adaptive.run(1000);
    assert!(share > 0.95, "{share}");
    // Three equal links with the same window show the round trip without a slow link.
    let mut equal = Fabric::new(LbPolicy::PRO, 63, &[1, 1, 1], 43, 5);
    equal.run(1000);
    let (p99, usual) = (adaptive.p99(), equal.p99());
    assert!(p99 < 3 * usual, "{p99:?} against {usual:?}");
}

#[test]
fn a_window_that_doubles_does_not_fill_the_queue_of_a_slow_link() {
    let queue = |policy| {
        let mut fabric = Fabric::new(policy, 64, &[10, 1, 1, 1], 10, 1);
        while fabric.window < 640 {
            fabric.batch = (fabric.window / 8).max(1);
            fabric.run(1);
            fabric.window *= 2;
        }
        fabric.links[0].free_at - fabric.now
    };
    let (pro, adaptive) = (queue(LbPolicy::PRO), queue(LbPolicy::ADAPTIVE));
    assert!(4 * adaptive < pro, "{adaptive:?} against {pro:?}");
}

#[test]
fn a_link_that_becomes_fast_is_used_again_within_a_second() {
    for slowness in [2, 10, 100] {
        let mut fabric = Fabric::new(LbPolicy::ADAPTIVE, 64, &[slowness, 1, 1, 1], 43, 5);
        fabric.run(3000);
        fabric.links[0] = Link { segment: FAST, free_at: fabric.now, carried: 0 };
        fabric.run(1000);
        let share = fabric.run(500);
        assert!(share > 0.9, "{share} after a link of 1/{slowness}");
    }
}

#[test]
fn no_path_is_left_out_for_longer_than_half_a_second() {
    let mut fabric = Fabric::new(LbPolicy::ADAPTIVE, 64, &[200, 1, 1, 1], 43, 5);
    fabric.run(5000);
    for _ in 0..4 {
        fabric.run(500);
        let missing = (0..64).map(PathId::new).find(|path| !fabric.picks.contains(path));
        assert_eq!(missing, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Holds for any speed of the links and any number of paths per link.
    #[test]
    fn every_link_is_used(
        slowness in prop::collection::vec(1_u32..=20, 2..5), paths_per_link in 1_usize..20, batch in 1_u32..=16,
    ) {
        let window = 60 * slowness.len() as u32;
        let paths = slowness.len() * paths_per_link;
        let mut fabric = Fabric::new(LbPolicy::ADAPTIVE, paths, &slowness, window, batch);
        fabric.run(4000);
        let share = fabric.run(2000);
        prop_assert!(share > 0.9, "{}", share);
    }

    /// While no path falls behind, every batch is whole, and each path is used once per round, as
    /// in Algorithm 1.
    #[test]
    fn equal_links_are_used_as_by_pro_once_each_path_has_been_tried(
        links in 1_usize..6, paths_per_link in 1_usize..20, batch in 1_u32..=16, batches in 8_u32..40,
    ) {
        let (count, window) = (links * paths_per_link, batch * batches * links as u32);
        let mut fabric = Fabric::new(LbPolicy::ADAPTIVE, count, &vec![1; links], window, batch);
        fabric.run(500);
        fabric.picks.clear();
        for _ in 0..4 * count {
            prop_assert_eq!(fabric.send(), batch);
            fabric.hear();
        }
        for round in fabric.picks.chunks(count) {
            let different: HashSet<_> = round.iter().collect();
            prop_assert_eq!(different.len(), count);
        }
    }
}
