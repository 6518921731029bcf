//! Recycled entropies (REPS: Recycled Entropy Packet Spraying, EuroSys 2026), with the constants of
//! its public simulator.
//!
//! A path whose packet returned unmarked is used once more. Otherwise the path is random. After a
//! time-out, only paths that have worked are used for a while. Assumes that switches mark
//! congestion or that round-trip times show it.

use std::time::Duration;

use braid_wire::{PathId, Time};

use crate::{
    Batch, Order, Outcome, PathPolicy, PathPolicyFactory, PathRng, Paths, PerStream, Requirements,
    StreamId,
};

/// Number of stored entropies.
const RING: usize = 8;
/// Minimum time for which only known paths are used after a time-out.
const FREEZE: Duration = Duration::from_millis(10);
/// Maximum number of exploring picks. The paper explores for BDP/MTU packets. A path set knows
/// neither, so it explores for two picks per path up to this number.
const MAX_EXPLORE: usize = 64;

pub(crate) struct RepsFactory;

impl PathPolicyFactory for RepsFactory {
    fn name(&self) -> &str {
        "reps"
    }

    fn requirements(&self) -> Requirements {
        Requirements { order: Order::Rtt, quanta: 32, ..Requirements::default() }
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(Reps::default())
    }
}

#[derive(Debug, Default)]
struct Reps {
    /// Allocated by a stream's first pick, because most response streams never pick a path.
    rings: PerStream<Option<Box<Ring>>>,
}

impl PathPolicy for Reps {
    fn admit(&mut self, stream: StreamId, _: &mut PathRng) {
        self.rings.admit(stream, None);
    }

    fn dismiss(&mut self, stream: StreamId) {
        self.rings[stream] = None;
    }

    fn pick(&mut self, stream: StreamId, batch: Batch, paths: &Paths, rng: &mut PathRng) -> PathId {
        let ring = self.rings[stream].get_or_insert_with(|| Box::new(Ring::new(paths.len())));
        ring.pick(paths, batch.segments, rng)
    }

    fn on_feedback(
        &mut self,
        stream: StreamId,
        now: Time,
        path: PathId,
        outcome: &Outcome,
        paths: &Paths,
    ) {
        let Some(ring) = &mut self.rings[stream] else { return };
        ring.thaw(now, paths);
        match *outcome {
            Outcome::Arrived { packets, rtt, congested: false } if !paths.is_late(rtt) => {
                ring.on_clean(path, packets);
            }
            Outcome::Arrived { .. } | Outcome::Lost { .. } | Outcome::Forgotten { .. } => {}
        }
    }

    fn on_timeout(&mut self, stream: StreamId, now: Time, _: &Paths, _: &mut PathRng) {
        if let Some(ring) = &mut self.rings[stream] {
            ring.on_timeout(now);
        }
    }
}

/// The state of one stream. An entropy is a path here.
#[derive(Clone, Debug)]
struct Ring {
    /// `written` entries were set since the ring was cleared, the newest one before `head`.
    entropies: [PathId; RING],
    written: u8,
    /// The newest `fresh` entropies have not been reused yet.
    fresh: u8,
    head: u8,
    /// Position of the cyclic reuse.
    frozen_at: u8,
    frozen_until: Option<Time>,
    /// Unmarked packets that returned since the last entropy was set.
    clean: u32,
    /// Packets of a batch.
    batch: u32,
    /// Remaining picks that are random regardless of the ring.
    explore: u8,
}

impl Ring {
    fn new(paths: usize) -> Self {
        Ring {
            entropies: [PathId::default(); RING],
            written: 0,
            fresh: 0,
            head: 0,
            frozen_at: 0,
            frozen_until: None,
            clean: 0,
            batch: 1,
            explore: (2 * paths).min(MAX_EXPLORE) as u8,
        }
    }

    fn pick(&mut self, paths: &Paths, batch: u32, rng: &mut PathRng) -> PathId {
        self.batch = batch;
        if self.explore > 0 {
            self.explore -= 1;
            return paths.random(rng);
        }
        let known = if self.frozen_until.is_some() { self.cycle(paths) } else { self.pop(paths) };
        known.unwrap_or_else(|| paths.random(rng))
    }

    /// Returns the oldest entropy that was not reused yet. Drops those of dead paths.
    fn pop(&mut self, paths: &Paths) -> Option<PathId> {
        while self.fresh > 0 {
            let oldest = (usize::from(self.head) + RING - usize::from(self.fresh)) % RING;
            self.fresh -= 1;
            if paths.is_live(self.entropies[oldest]) {
                return Some(self.entropies[oldest]);
            }
        }
        None
    }

    /// Returns the next entropy of the ring, reused before or not.
    fn cycle(&mut self, paths: &Paths) -> Option<PathId> {
        for _ in 0..self.written {
            let at = self.frozen_at % self.written;
            self.frozen_at = (at + 1) % self.written;
            let path = self.entropies[usize::from(at)];
            if paths.is_live(path) {
                return Some(path);
            }
        }
        None
    }

    /// Ends the freeze if its time is over. Called for any feedback.
    fn thaw(&mut self, now: Time, paths: &Paths) {
        if self.frozen_until.is_some_and(|until| now >= until) {
            *self = Ring::new(paths.len());
        }
    }

    /// Processes `packets` that returned from `path` unmarked. Each batch takes one path, so the
    /// packets of a batch yield one entropy, over any number of acknowledgements.
    fn on_clean(&mut self, path: PathId, packets: u32) {
        self.clean = self.clean.saturating_add(packets);
        if self.frozen_until.is_some() || self.clean < self.batch {
            return;
        }
        self.clean = (self.clean - self.batch).min(self.batch);
        self.entropies[usize::from(self.head)] = path;
        self.head = (self.head + 1) % RING as u8;
        self.written = (self.written + 1).min(RING as u8);
        self.fresh = (self.fresh + 1).min(RING as u8);
    }

    fn on_timeout(&mut self, now: Time) {
        if self.frozen_until.is_none() && self.explore == 0 {
            self.frozen_until = Some(now + FREEZE);
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    struct Setting {
        ring: Ring,
        paths: Paths,
        rng: PathRng,
    }

    impl Setting {
        /// Creates a ring that has explored 64 paths and then received `clean`.
        fn new(clean: &[u16]) -> Self {
            let paths = Paths::all_live(64);
            let mut it =
                Setting { ring: Ring::new(paths.len()), paths, rng: PathRng::from_seed(3) };
            it.pick(MAX_EXPLORE);
            clean.iter().for_each(|path| it.ring.on_clean(PathId::new(*path), 1));
            it
        }

        fn pick(&mut self, n: usize) -> Vec<u16> {
            (0..n).map(|_| self.ring.pick(&self.paths, 1, &mut self.rng).get()).collect()
        }
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn explores_first_then_reuses_each_clean_path_once_oldest_first() {
        let mut it = Setting::new(&[9, 4, 7]);
        assert_eq!(it.pick(3), [9, 4, 7]);
        // All are used, so the path is random again: 40 draws from 64 are not three values.
        let mut random = it.pick(40);
        random.sort_unstable();
        random.dedup();
        assert!(random.len() > 8, "{random:?}");
    }

    #[test]
    fn exploring_ignores_what_is_known() {
        let paths = Paths::all_live(4);
        let mut rng = PathRng::from_seed(5);
        let mut ring = Ring::new(paths.len());
        ring.on_clean(PathId::new(2), 1);
        let explored: Vec<u16> = (0..8).map(|_| ring.pick(&paths, 1, &mut rng).get()).collect();
        assert!(explored.iter().any(|path| *path != 2));
        assert_eq!(ring.pick(&paths, 1, &mut rng).get(), 2); // 2 n = 8 picks later
    }

    #[test]
    fn the_ring_keeps_the_newest_eight() {
        let mut it = Setting::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(it.pick(8), [3, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_batch_that_comes_back_in_pieces_is_one_entropy() {
        let mut it = Setting::new(&[]);
        it.ring.batch = 15;
        for path in [9, 9, 9, 4, 4, 4] {
            it.ring.on_clean(PathId::new(path), 5);
        }
        assert_eq!((it.ring.fresh, it.pick(2)), (2, vec![9, 4]));
    }

    #[test]
    fn the_dead_are_passed_over() {
        let mut it = Setting::new(&[5, 6, 5, 7]);
        it.paths.without(&[5]);
        assert_eq!(it.pick(2), [6, 7]);
    }

    #[test]
    fn a_time_out_freezes_until_the_first_feedback_after_ten_milliseconds() {
        let mut it = Setting::new(&[9, 4, 7]);
        it.pick(2);
        it.ring.on_timeout(at(100));
        assert_eq!(it.pick(7), [9, 4, 7, 9, 4, 7, 9], "used ones too, in a circle");
        it.ring.thaw(at(109), &it.paths);
        it.ring.on_clean(PathId::new(1), 1);
        assert_eq!(it.pick(2), [4, 7], "a frozen ring takes nothing in");
        it.ring.thaw(at(110), &it.paths);
        assert_eq!((it.ring.written, usize::from(it.ring.explore)), (0, MAX_EXPLORE));
    }

    #[test]
    fn a_time_out_while_exploring_freezes_nothing() {
        let mut ring = Ring::new(8);
        ring.on_timeout(at(1));
        assert!(ring.frozen_until.is_none());
    }
}
