//! Congestion marks (ECN CE) by path: the receiver counts and reports them to the sender.
//!
//! Both ends count the marks of each path over the life of the stream, modulo 2^16. A report names
//! the paths that were marked since the previous report. If a report is lost, the next one of the
//! same path makes up for it.

use std::time::Duration;

use braid_lb::RailSet;
use braid_wire::{MAX_MARKED_PATHS, Marks, PathId, PathMarks, RailId, Time};

/// Number of packets in a sample.
const SAMPLE: u32 = 64;
/// One packet in this many may seem unmarked, because a later acknowledgement reports its mark.
const LATE: u32 = 32;
/// A congestion window that stays above this share of its earlier value counts as constant.
const FALLS: (u64, u64) = (7, 8);
/// After this many samples, and this long, a constant window is at its minimum.
const SAMPLES: u32 = 4;
const STANDS: Duration = Duration::from_millis(250);

/// Marks of a receiving stream. Invariants: `paths` ascends; `fresh` counts those not reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedMarks {
    paths: Vec<Counted>,
    fresh: usize,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    path: PathId,
    count: u16,
    fresh: bool,
}

/// Number of paths of a stream, usually.
const PATHS: usize = 16;

impl CountedMarks {
    /// Visits the place in memory of the first paths.
    pub(crate) fn rings(&self, mut visit: impl FnMut(*const u8, usize)) {
        visit(self.paths.as_ptr().cast(), PATHS * size_of::<Counted>());
    }

    /// Counts packets with a mark that arrived on this path.
    pub(crate) fn count(&mut self, path: PathId, packets: u32) {
        let at = match self.paths.binary_search_by_key(&path, |known| known.path) {
            Ok(at) => at,
            Err(at) => {
                self.paths.insert(at, Counted { path, count: 0, fresh: false });
                at
            }
        };
        let known = &mut self.paths[at];
        known.count = known.count.wrapping_add(packets as u16);
        self.fresh += usize::from(!known.fresh);
        known.fresh = true;
    }

    /// Takes the marks for the next acknowledgement.
    pub(crate) fn report(&mut self) -> Marks {
        if self.fresh == 0 {
            return Marks::default();
        }
        let fresh = self.paths.iter_mut().filter(|known| known.fresh).take(MAX_MARKED_PATHS);
        let report = Marks::new(fresh.map(|known| {
            known.fresh = false;
            PathMarks { path: known.path, count: known.count }
        }));
        self.fresh = self.fresh.saturating_sub(MAX_MARKED_PATHS);
        report
    }
}

/// Marks of a sending stream, as reported by the peer. Invariant: `paths` ascends.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedMarks {
    paths: Vec<Heard>,
    /// Rails whose marks are ignored.
    ignored: RailSet,
    /// The last sample of a rail's marks.
    sample: Option<(RailId, MarkSample)>,
}

/// The marks of [`SAMPLE`] consecutive packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MarkSample {
    /// Some packets are not marked.
    SomeUnmarked,
    /// All packets are marked.
    AllMarked,
    /// All packets are marked and have been for long, while the congestion window was at its
    /// minimum.
    Settled,
}

/// Detects that every packet of a subflow is marked.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct MarkWatch {
    acked: u32,
    marked: u32,
    /// Number of consecutive samples with all packets marked, since the window is constant.
    samples: u32,
    floor: u64,
    since: Time,
}

impl MarkWatch {
    fn on_acked(&mut self, now: Time, packets: u32, marks: u32, window: u64) -> Option<MarkSample> {
        self.acked += packets;
        self.marked = self.marked.saturating_add(marks);
        if self.acked < SAMPLE {
            return None;
        }
        let all = self.marked.saturating_add(self.acked / LATE) >= self.acked;
        (self.acked, self.marked) = (0, 0);
        if !all {
            *self = MarkWatch::default();
            return Some(MarkSample::SomeUnmarked);
        }
        if self.samples == 0 || window * FALLS.1 < self.floor * FALLS.0 {
            (self.samples, self.floor, self.since) = (0, window, now);
        }
        self.samples += 1;
        let stands = self.samples >= SAMPLES && now - self.since >= STANDS;
        Some(if stands { MarkSample::Settled } else { MarkSample::AllMarked })
    }
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    path: PathId,
    /// The last reported count.
    count: u16,
    /// Marks that were reported and not taken.
    new: u16,
    /// Marks were taken without segments: the next segments of the path count as congested.
    late: bool,
}

impl ReportedMarks {
    /// Visits the place in memory of the first paths.
    pub(crate) fn rings(&self, mut visit: impl FnMut(*const u8, usize)) {
        visit(self.paths.as_ptr().cast(), PATHS * size_of::<Heard>());
    }

    /// Takes the marks of an acknowledgement; `rails`: number of rails. Returns the number of new
    /// marks.
    pub(crate) fn on_report(&mut self, marks: &Marks, rails: usize) -> u64 {
        let ours = marks.iter().filter(|report| report.path.rail().get() < rails);
        ours.map(|report| u64::from(self.on_path(report))).sum()
    }

    fn on_path(&mut self, report: PathMarks) -> u16 {
        let path = report.path;
        let at = match self.find(path) {
            Ok(at) => at,
            Err(at) => {
                self.paths.insert(at, Heard { path, count: 0, new: 0, late: false });
                at
            }
        };
        let known = &mut self.paths[at];
        let new = report.count.wrapping_sub(known.count);
        if new > u16::MAX / 2 {
            return 0; // an overtaken ack
        }
        known.count = report.count;
        known.new = known.new.saturating_add(new);
        new
    }

    fn find(&self, path: PathId) -> Result<usize, usize> {
        self.paths.binary_search_by_key(&path, |known| known.path)
    }

    /// Sets the rails whose marks are ignored from now on.
    pub(crate) fn ignore(&mut self, rails: RailSet) {
        (self.ignored, self.sample) = (rails, None);
    }

    pub(crate) fn take_sample(&mut self) -> Option<(RailId, MarkSample)> {
        self.sample.take()
    }

    /// Whether any path was ever marked.
    #[inline]
    pub(crate) fn is_watching(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Handles newly acknowledged packets of a rail and their marks. Returns false if the rail's
    /// marks are ignored.
    #[inline(never)]
    pub(crate) fn watch(
        &mut self,
        now: Time,
        rail: RailId,
        (packets, marks): (u32, u32),
        (watch, window): (&mut MarkWatch, u64),
    ) -> bool {
        if let Some(sample) = watch.on_acked(now, packets, marks, window) {
            self.sample = Some((rail, sample));
        }
        !self.ignored.contains(rail)
    }

    /// Takes the new marks of a path whose segments are acknowledged. Also returns whether these
    /// segments, or earlier ones, were marked.
    pub(crate) fn take(&mut self, path: PathId) -> (u32, bool) {
        if self.paths.is_empty() {
            return (0, false);
        }
        let Ok(at) = self.find(path) else { return (0, false) };
        let known = &mut self.paths[at];
        let new = std::mem::take(&mut known.new);
        (new.into(), std::mem::take(&mut known.late) || new > 0)
    }

    /// Takes the new marks of a path without newly acknowledged segments.
    pub(crate) fn take_alone(&mut self, path: PathId) -> u32 {
        let Ok(at) = self.find(path) else { return 0 };
        let known = &mut self.paths[at];
        let new = std::mem::take(&mut known.new);
        known.late |= new > 0;
        new.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: u16) -> PathId {
        PathId::new(path)
    }

    fn counts(marks: &Marks) -> Vec<(u16, u16)> {
        marks.iter().map(|marks| (marks.path.get(), marks.count)).collect()
    }

    #[test]
    fn a_report_names_the_paths_that_were_marked_since_the_one_before() {
        let mut counted = CountedMarks::default();
        [7, 3, 7].into_iter().for_each(|number| counted.count(path(number), 1));
        assert_eq!(counts(&counted.report()), [(3, 1), (7, 2)]);
        assert!(counted.report().is_empty());
        counted.count(path(7), 1);
        assert_eq!(counts(&counted.report()), [(7, 3)]);
    }

    #[test]
    fn marks_that_do_not_fit_are_in_the_next_report() {
        let mut counted = CountedMarks::default();
        (0..100).for_each(|number| counted.count(path(number), 1));
        let reported = [counted.report(), counted.report()].map(|marks| counts(&marks).len());
        assert_eq!((reported, counted.report().is_empty()), ([64, 36], true));
    }

    #[test]
    fn lost_and_reordered_reports_lose_and_repeat_nothing() {
        let (mut counted, mut reported) = (CountedMarks::default(), ReportedMarks::default());
        let mut report = || {
            counted.count(path(1), 1);
            counted.report()
        };
        let [_lost, overtaken, third] = [report(), report(), report()];
        assert_eq!(reported.on_report(&third, 1), 3);
        assert_eq!(reported.on_report(&overtaken, 1), 0);
        assert_eq!((reported.take(path(1)), reported.take(path(1))), ((3, true), (0, false)));
    }

    #[test]
    fn marks_stay_with_their_path_and_late_ones_count_for_its_next_segments() {
        let mut reported = ReportedMarks::default();
        reported.on_report(&Marks::new([PathMarks { path: path(2), count: 5 }]), 1);
        assert_eq!(reported.take(path(1)), (0, false));
        assert_eq!((reported.take_alone(path(2)), reported.take_alone(path(2))), (5, 0));
        assert_eq!((reported.take(path(2)), reported.take(path(2))), ((0, true), (0, false)));
    }

    #[test]
    fn marks_on_every_packet_are_told_from_many_marks() {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut watch = MarkWatch::default();
        let mut sample = |at, marks, window| watch.on_acked(ms(at), SAMPLE, marks, window);
        assert_eq!(sample(0, SAMPLE - 4, 4000), Some(MarkSample::SomeUnmarked));
        // The window shrinks, and then stays constant.
        for (at, window) in [(10, 4000), (20, 2000), (30, 1000), (40, 990), (200, 1010)] {
            assert_eq!(sample(at, SAMPLE - 1, window), Some(MarkSample::AllMarked), "at {at}");
        }
        assert_eq!(sample(290, SAMPLE, 1000), Some(MarkSample::Settled));
        assert_eq!(sample(300, 0, 1000), Some(MarkSample::SomeUnmarked));
        assert_eq!(sample(600, SAMPLE, 1000), Some(MarkSample::AllMarked), "from the start");
        assert_eq!(watch.on_acked(ms(601), SAMPLE - 1, 0, 1000), None);
    }

    #[test]
    fn counts_wrap() {
        let mut reported = ReportedMarks::default();
        let report = |count| Marks::new([PathMarks { path: path(1), count }]);
        for (count, new) in [(30_000, 30_000), (60_000, 30_000), (4, 5540)] {
            assert_eq!(reported.on_report(&report(count), 1), new);
        }
    }
}
