//! Direct placement on probation. A path that has not proved itself gets few segments at a time. A
//! path that loses segments gets none for a while.
//!
//! Segments are long (several packets of the NIC) while every path in use has passed its probation.
//! A path passes once enough segments have arrived on it without a loss. The loss of one packet
//! loses the whole segment, and may stop the NIC queue pair. So on other paths only short segments
//! are placed directly, and while any path is on probation, all segments are short.
//!
//! Invariants: `good` and `under_way` of a path count its current epoch. `retry` is the earliest of
//! the retry times of all paths.

use braid_wire::{PathId, Time};

use super::policy::DirectPolicy;
use crate::DirectConfig;
use crate::stream::per_path::PerPath;

/// Divisor of the hold-down on a path where direct placement has paid.
const PAID: u32 = 16;
/// Number of segments that must arrive between two losses for direct placement to pay, and for a
/// path to pass its probation again.
const WORTHWHILE: u16 = 1_000;
/// Number of segments that must arrive on a new path for it to pass. If one segment in a hundred is
/// lost, most paths show it by then.
const PROBATION: u16 = 64;
/// Number of segments under way that a path on probation may have, plus one for every
/// `GOOD_PER_MORE` segments that have arrived.
const FEW: u16 = 8;
const GOOD_PER_MORE: u16 = 8;

/// The policy of this module.
#[derive(Clone, Debug)]
pub(crate) struct Probation {
    records: PerPath<PathRecord>,
    config: DirectConfig,
    /// Time from which on a path that has not passed may be tried; `None`: all have passed.
    retry: Option<Time>,
}

/// PathRecord of a path.
#[derive(Clone, Copy, Default, Debug)]
struct PathRecord {
    held_down_until: Time,
    /// Number of segments that have arrived; saturates.
    good: u16,
    /// Number of segments that were neither acknowledged nor lost.
    under_way: u16,
    /// Whether the path's NIC queue pair is not its first.
    is_later: bool,
    /// The path has lost a segment, and its NIC queue pair is being closed.
    is_closing: bool,
}

impl Probation {
    pub(super) fn new(config: DirectConfig) -> Self {
        Probation { records: PerPath::default(), config, retry: None }
    }

    fn record(&mut self, path: PathId) -> &mut PathRecord {
        self.records.entry(path)
    }

    /// Applies an event that may change whether a path has passed.
    fn change(&mut self, path: PathId, event: impl FnOnce(&mut PathRecord)) {
        let record = self.record(path);
        let before = record.retry();
        event(record);
        if before != record.retry() {
            self.find_retry();
        }
    }

    fn find_retry(&mut self) {
        self.retry = self.records.iter().filter_map(PathRecord::retry).min();
    }
}

impl DirectPolicy for Probation {
    fn segment_len(&self, now: Time, mtu: u16) -> u16 {
        match self.retry {
            None => self.config.long.max(mtu),
            Some(retry) if now >= retry => self.config.short.min(mtu),
            Some(_) => mtu,
        }
    }

    fn allows(&mut self, now: Time, path: PathId, len: u16) -> bool {
        let short = self.config.short;
        let record = self.record(path);
        let is_risky = !record.has_passed() && (len > short || record.has_enough_under_way());
        if now < record.held_down_until || is_risky {
            return false;
        }
        self.change(path, |record| record.under_way += 1);
        true
    }

    fn on_staged(&mut self, path: PathId) {
        self.change(path, |record| record.under_way -= 1);
    }

    fn on_arrival(&mut self, path: PathId) {
        self.change(path, |record| {
            record.good = record.good.saturating_add(1);
            record.under_way -= 1;
        });
    }

    /// A loss on this path may be followed by losses on other paths that have not passed, so they
    /// are held down, too.
    fn on_loss(&mut self, now: Time, path: PathId) {
        let hold_down = self.config.hold_down;
        let record = self.record(path);
        let has_paid = record.good >= WORTHWHILE;
        (record.is_closing, record.good) = (true, 0);
        if has_paid {
            record.held_down_until = now + hold_down / PAID;
        } else {
            let doubted = self.records.iter_mut().filter(|record| !record.has_passed());
            doubted.for_each(|record| record.held_down_until = now + hold_down);
        }
        self.find_retry();
    }

    fn on_epoch(&mut self, path: PathId) {
        self.change(path, |record| {
            let held_down_until = record.held_down_until;
            *record = PathRecord { held_down_until, is_later: true, ..PathRecord::default() };
        });
    }
}

impl PathRecord {
    /// Whether losses are unlikely on the path, or it is unused.
    fn has_passed(&self) -> bool {
        let enough = if self.is_later { WORTHWHILE } else { PROBATION };
        !self.is_closing && (self.good >= enough || self.is_unused())
    }

    /// Time from which on the path may be tried; `None`: it has passed.
    fn retry(&self) -> Option<Time> {
        match self.has_passed() {
            true => None,
            false if self.is_closing => Some(Time::FAR_FUTURE),
            false => Some(self.held_down_until),
        }
    }

    fn is_unused(&self) -> bool {
        !self.is_later && self.good == 0 && self.under_way == 0
    }

    /// Whether a path on probation has as many segments under way as a loss may cost.
    fn has_enough_under_way(&self) -> bool {
        self.under_way >= FEW + self.good / GOOD_PER_MORE
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stream::send::direct::{Direct, NicEpoch, Placement};

    const PATH: PathId = PathId::new(7);
    const SHORT: u16 = 4_000;
    const MTU: u16 = 8_000;
    const LONG: u16 = 16_384;
    const HOLD_DOWN: Duration = Duration::from_millis(3_200);
    const CONFIG: DirectConfig = DirectConfig { long: LONG, short: SHORT, hold_down: HOLD_DOWN };

    fn epoch(number: u32) -> NicEpoch {
        NicEpoch { path: PATH, number }
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn begin(direct: &mut Direct, path: PathId, number: u32) {
        direct.begin(NicEpoch { path, number });
    }

    /// Loses a segment at `now`; the peer answers at once. Returns for how many milliseconds the
    /// path then stages.
    fn hold_down_after_loss(direct: &mut Direct, now: u64, number: u32) -> u64 {
        direct.place_again(at(now), epoch(number));
        begin(direct, PATH, number + 1);
        let mut times = 0..10_000;
        let is_direct = |ms: &u64| {
            direct.place_first(at(now + ms), PATH, SHORT) == Placement::Direct(epoch(number + 1))
        };
        times.find(is_direct).expect("an end of the hold-down")
    }

    #[test]
    fn segments_are_placed_directly_on_a_fresh_path() {
        let mut direct = Direct::new(CONFIG);
        assert_eq!(direct.place_first(at(0), PATH, SHORT), Placement::Direct(epoch(0)));
    }

    #[test]
    fn closing_stops_its_path_alone_and_is_repeated_until_it_is_answered() {
        let mut direct = Direct::new(CONFIG);
        let closing = Placement::Staged { closes: Some(epoch(0)) };
        assert_eq!(direct.place_again(at(0), epoch(0)), closing);
        assert_eq!(direct.place_first(at(60_000), PATH, SHORT), closing, "however long it takes");
        let other = PathId::new(1);
        let untouched = Placement::Direct(NicEpoch { path: other, number: 0 });
        assert_eq!(direct.place_first(at(0), other, SHORT), untouched);
        begin(&mut direct, PATH, 0);
        assert_eq!(direct.place_first(at(60_000), PATH, SHORT), closing, "nothing new");
        begin(&mut direct, PATH, 1);
        assert_eq!(direct.place_first(at(3_199), PATH, SHORT), Placement::PLAIN, "it is held down");
        assert_eq!(direct.place_first(at(3_200), PATH, SHORT), Placement::Direct(epoch(1)));
    }

    #[test]
    fn closing_an_old_epoch_stops_nothing_new() {
        let mut direct = Direct::new(CONFIG);
        begin(&mut direct, PATH, 4);
        assert_eq!(
            direct.place_again(at(0), epoch(3)),
            Placement::Staged { closes: Some(epoch(3)) }
        );
        assert_eq!(direct.place_first(at(0), PATH, SHORT), Placement::Direct(epoch(4)));
        begin(&mut direct, PATH, 2);
        assert_eq!(direct.place_first(at(0), PATH, SHORT), Placement::Direct(epoch(4)));
    }

    #[test]
    fn a_hold_down_is_short_if_direct_placement_has_paid() {
        let mut direct = Direct::new(CONFIG);
        let mut now = 0;
        for number in 0..3 {
            assert_eq!(hold_down_after_loss(&mut direct, now, number), 3_200);
            now += 3_200;
        }
        // One segment is under way already: `hold_down_after_loss` has sent it.
        arrive(&mut direct, now, 3, WORTHWHILE - 1);
        (0..WORTHWHILE).for_each(|_| direct.on_arrival(epoch(2)));
        assert_eq!(hold_down_after_loss(&mut direct, now, 3), 3_200, "one too few, or too late");
        now += 3_200;
        arrive(&mut direct, now, 4, WORTHWHILE);
        assert_eq!(hold_down_after_loss(&mut direct, now, 4), 200);
        assert_eq!(hold_down_after_loss(&mut direct, now, 5), 3_200);
    }

    #[test]
    fn segments_are_long_while_every_path_has_passed() {
        let mut direct = Direct::new(CONFIG);
        let len = |direct: &Direct, ms| direct.segment_len(at(ms), MTU);
        let other = NicEpoch { path: PathId::new(1), number: 0 };
        assert_eq!(len(&direct, 0), LONG, "nobody has tried");
        for _ in 1..PROBATION {
            arrive(&mut direct, 0, 0, 1);
            assert_eq!(len(&direct, 0), SHORT);
        }
        arrive(&mut direct, 0, 0, 1);
        assert_eq!(len(&direct, 0), LONG, "nothing was lost");
        direct.place_first(at(0), other.path, SHORT);
        assert_eq!(len(&direct, 0), SHORT, "a new path");
        direct.was_staged(other);
        assert_eq!(len(&direct, 0), LONG, "it was not used");
        direct.place_again(at(0), epoch(0));
        direct.place_again(at(0), epoch(0));
        direct.place_again(at(0), other);
        begin(&mut direct, PATH, 1);
        assert_eq!(len(&direct, 3_199), MTU, "both are held down");
        arrive(&mut direct, 5_000, 1, WORTHWHILE);
        assert_eq!(
            len(&direct, 5_000),
            MTU,
            "the other path has lost one, too, and has no newer epoch"
        );
        begin(&mut direct, other.path, 1);
        for _ in 0..WORTHWHILE {
            assert_eq!(len(&direct, 5_000), SHORT);
            direct.place_first(at(5_000), other.path, SHORT);
            direct.on_arrival(NicEpoch { number: 1, ..other });
        }
        assert_eq!(len(&direct, 5_000), LONG);
        // The peer has closed a NIC queue pair of its own accord.
        begin(&mut direct, PATH, 2);
        assert_eq!(len(&direct, 5_000), SHORT);
    }

    #[test]
    fn staged_segments_may_be_longer_or_shorter() {
        let mut direct = Direct::new(CONFIG);
        assert_eq!(direct.segment_len(at(0), u16::MAX), u16::MAX);
        direct.place_first(at(0), PATH, SHORT);
        assert_eq!(direct.segment_len(at(0), SHORT - 1), SHORT - 1);
    }

    #[test]
    fn long_segments_are_placed_directly_on_paths_that_have_passed_alone() {
        let mut direct = Direct::new(CONFIG);
        let placed = Placement::Direct(epoch(0));
        assert_eq!(direct.place_first(at(0), PATH, LONG), placed, "nothing is known of it");
        assert_eq!(
            direct.place_first(at(0), PATH, SHORT + 1),
            Placement::PLAIN,
            "it is on probation"
        );
        assert_eq!(direct.place_first(at(0), PATH, SHORT), placed);
        arrive(&mut direct, 0, 0, PROBATION);
        assert_eq!(direct.place_first(at(0), PATH, LONG), placed);
    }

    /// Sends `count` segments one after the other; each arrives.
    fn arrive(direct: &mut Direct, now: u64, number: u32, count: u16) {
        for _ in 0..count {
            assert_eq!(direct.place_first(at(now), PATH, SHORT), Placement::Direct(epoch(number)));
            direct.on_arrival(epoch(number));
        }
    }

    /// Sends until a segment is staged. Returns the number of segments that were placed directly.
    fn burst(direct: &mut Direct, now: u64) -> u16 {
        let is_direct =
            |_: &u16| matches!(direct.place_first(at(now), PATH, SHORT), Placement::Direct(_));
        (0..1_000).take_while(is_direct).count() as u16
    }

    #[test]
    fn few_are_on_their_way_until_many_have_arrived() {
        let mut direct = Direct::new(CONFIG);
        assert_eq!(burst(&mut direct, 0), FEW);
        (0..PROBATION).for_each(|_| direct.policy.change(PATH, |record| record.good += 1));
        assert!(burst(&mut direct, 0) > 100, "it has passed");
        direct.place_again(at(0), epoch(0));
        begin(&mut direct, PATH, 1);
        assert_eq!(burst(&mut direct, 4_000), FEW);
        (0..FEW).for_each(|_| direct.on_arrival(epoch(1)));
        assert_eq!(burst(&mut direct, 4_000), FEW + 1);
        direct.was_staged(epoch(1));
        assert_eq!(burst(&mut direct, 4_000), 1, "in place of the one that was staged");
        (0..FEW).for_each(|_| direct.on_arrival(epoch(1)));
        arrive(&mut direct, 4_000, 1, WORTHWHILE);
        assert!(burst(&mut direct, 4_000) > 100);
    }

    #[test]
    fn paths_on_probation_are_held_down_when_one_of_them_loses() {
        let mut direct = Direct::new(CONFIG);
        let paths = [0, 1, 2].map(PathId::new);
        let is_direct = |direct: &mut Direct, path: usize, ms| {
            matches!(direct.place_first(at(ms), paths[path], SHORT), Placement::Direct(_))
        };
        for path in 0..3 {
            assert!(is_direct(&mut direct, path, 0));
        }
        (0..PROBATION).for_each(|_| direct.policy.change(paths[2], |record| record.good += 1));
        direct.place_again(at(0), NicEpoch { path: paths[0], number: 0 });
        assert!(!is_direct(&mut direct, 1, 3_199));
        assert!(is_direct(&mut direct, 1, 3_200), "nobody has closed it");
        assert!(is_direct(&mut direct, 2, 0), "it has passed");
        // A loss on a path that has passed says nothing about the other paths.
        direct.policy.change(paths[2], |record| record.good = WORTHWHILE);
        direct.place_again(at(3_300), NicEpoch { path: paths[2], number: 0 });
        assert!(is_direct(&mut direct, 1, 3_300));
    }

    #[test]
    fn the_losses_of_one_epoch_count_once() {
        let mut direct = Direct::new(CONFIG);
        direct.place_again(at(0), epoch(0));
        direct.place_again(at(140), epoch(0));
        begin(&mut direct, PATH, 1);
        direct.place_again(at(3_199), epoch(0));
        assert_eq!(direct.place_first(at(3_200), PATH, SHORT), Placement::Direct(epoch(1)));
    }
}
