//! Reordering within a path: the lateness of packets that later packets of the same path overtook.
//!
//! Most paths preserve order and have no state here. Jitter, link aggregation and packet-spraying
//! switches reorder packets on a path. An overtaken packet on such a path is considered late rather
//! than lost for the path's *window*. The window corresponds to the reordering window of RACK (RFC
//! 8985, section 6.2). It is measured instead of derived from the round-trip time, which does not
//! bound the reordering if some packets bypass a queue.

use std::time::Duration;

use braid_wire::{PathId, RailId};

/// Arrivals on a path after which the older half of the history expires.
const ARRIVALS: u64 = 1024;
/// Number of the longest latenesses that are stored. The window ignores all but the last of them,
/// so that one very late packet in 500 does not delay the detection of every real loss.
const LONGEST: usize = 3;
/// Arrivals without a late packet after which a path is considered in order again.
const CALM_ARRIVALS: u64 = 256;

/// The paths that reorder packets, shared by all queue pairs that send to the same destination.
/// Invariant: `paths` is in ascending order.
#[derive(Clone, Debug, Default)]
pub struct Reordering {
    paths: Vec<(PathId, Extent)>,
    version: u32,
}

/// The recent reordering of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    /// Number of arrivals when `longest` was started, or `None` if no packet was late before.
    since: Option<u64>,
    /// The longest latenesses in descending order.
    longest: [Duration; LONGEST],
    /// The relevant lateness of the older half.
    older: Duration,
    /// Number of arrivals when the last packet was late.
    late_at: u64,
}

impl Extent {
    /// Returns 1.5 times the relevant lateness, because the next one may be longer.
    fn window(&self) -> Duration {
        // The first late packets count at once.
        let counts = if self.since.is_some() { LONGEST - 1 } else { 0 };
        let lateness = self.longest[counts].max(self.older);
        lateness + lateness / 2
    }

    /// Returns whether reordering on the path started recently.
    fn is_new(&self) -> bool {
        self.since.is_none() && !self.longest[0].is_zero()
    }

    fn on_late(&mut self, lateness: Duration, arrived: u64) {
        self.late_at = arrived;
        let passed = arrived.saturating_sub(self.since.unwrap_or(0));
        if passed >= ARRIVALS {
            let older = self.longest[LONGEST - 1];
            self.older = if passed < 2 * ARRIVALS { older } else { Duration::ZERO };
            (self.since, self.longest) = (Some(arrived), Default::default());
        }
        let at = self.longest.partition_point(|longer| *longer >= lateness);
        if at < LONGEST {
            self.longest[at..].rotate_right(1);
            self.longest[at] = lateness;
        }
    }
}

impl Reordering {
    /// Returns whether any path reorders or did.
    #[inline]
    pub fn is_any(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Returns the window of a path, or zero if the path preserves order.
    pub fn window(&self, path: PathId) -> Duration {
        self.find(path).map_or(Duration::ZERO, |at| self.window_at(at))
    }

    /// Returns a version number that changes whenever a window changes.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the paths that reorder or did, with their windows. The window is zero for a path
    /// that preserves order now.
    ///
    /// A path with little history has the longest window of its rail, because a network that
    /// reorders one path is likely to reorder others alike.
    pub fn windows(&self) -> impl Iterator<Item = (PathId, Duration)> {
        self.paths.iter().enumerate().map(|(at, (path, _))| (*path, self.window_at(at)))
    }

    fn window_at(&self, at: usize) -> Duration {
        let (path, extent) = &self.paths[at];
        if extent.is_new() { self.longest_on(path.rail()) } else { extent.window() }
    }

    fn longest_on(&self, rail: RailId) -> Duration {
        let extents = self.paths.iter().filter(|(path, _)| path.rail() == rail);
        extents.map(|(_, extent)| extent.window()).max().unwrap_or_default()
    }

    /// Records a packet that arrived `lateness` after a packet sent later on the same path.
    /// `arrived` is the total number of arrivals on the path.
    pub(crate) fn on_late(&mut self, path: PathId, lateness: Duration, arrived: u64) {
        let at = match self.find(path) {
            Ok(at) => at,
            Err(at) => {
                self.paths.insert(at, (path, Extent::default()));
                at
            }
        };
        self.change(at, |extent| extent.on_late(lateness, arrived));
    }

    /// Records a packet that is declared lost, at the end of its window if there is one. `arrived`
    /// is the total number of arrivals on the path.
    ///
    /// If no recent packet was late, the path is considered in order again, and the next loss is
    /// detected without a delay. RACK waits for 16 losses (RFC 8985, section 6.2, step 4), which a
    /// full queue would cause at once here.
    pub(crate) fn on_loss(&mut self, path: PathId, arrived: u64) {
        let Ok(at) = self.find(path) else { return };
        self.change(at, |extent| {
            if arrived.saturating_sub(extent.late_at) >= CALM_ARRIVALS {
                let since = extent.since;
                *extent = Extent { since, ..Extent::default() };
            }
        });
    }

    fn find(&self, path: PathId) -> Result<usize, usize> {
        self.paths.binary_search_by_key(&path, |(known, _)| *known)
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Extent)) {
        let (_, extent) = &mut self.paths[at];
        let before = extent.window();
        change(extent);
        if extent.window() != before {
            self.version = self.version.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn window(of: &Reordering, path: u16) -> Duration {
        of.window(PathId::new(path))
    }

    fn late(known: &mut Reordering, arrived: u64, latenesses: &[u32]) {
        latenesses.iter().for_each(|late| known.on_late(PathId::new(3), *late * MS, arrived));
    }

    #[test]
    fn the_first_late_packet_of_a_new_path_opens_the_window() {
        let mut known = Reordering::default();
        late(&mut known, 10, &[4, 2]);
        assert_eq!((window(&known, 3), window(&known, 2)), (6 * MS, Duration::ZERO));
        let before = known.version();
        late(&mut known, 20, &[3]);
        assert_eq!(known.version(), before, "nothing has changed");
    }

    #[test]
    fn a_new_path_borrows_the_window_of_others_of_its_rail() {
        let mut known = Reordering::default();
        late(&mut known, 10, &[4]);
        known.on_late(PathId::new(5), MS, 10);
        known.on_late(PathId::new(6), MS, 5000);
        known.on_late(PathId::new(7).on(RailId::new(1)), MS, 10);
        let windows: Vec<_> = known.windows().map(|(_, window)| window).collect();
        assert_eq!(windows, [6 * MS, 6 * MS, Duration::ZERO, MS * 3 / 2]);
    }

    #[test]
    fn what_is_rare_does_not_count_for_long() {
        let mut known = Reordering::default();
        late(&mut known, 10, &[40, 2, 2, 30]);
        assert_eq!(window(&known, 3), 60 * MS);
        late(&mut known, 10 + ARRIVALS, &[4, 50, 2]);
        assert_eq!(window(&known, 3), 3 * MS, "two in so many may be later");
        late(&mut known, 10 + 5 * ARRIVALS, &[4]);
        assert_eq!(window(&known, 3), Duration::ZERO);
    }

    #[test]
    fn an_old_path_that_begins_to_reorder_opens_its_window_with_the_third_late_packet() {
        let mut known = Reordering::default();
        late(&mut known, 100_000, &[4, 6]);
        assert_eq!(window(&known, 3), Duration::ZERO);
        late(&mut known, 100_100, &[5]);
        assert_eq!(window(&known, 3), 6 * MS);
    }

    #[test]
    fn a_path_that_loses_and_is_never_late_keeps_order_again() {
        let (mut known, path) = (Reordering::default(), PathId::new(3));
        late(&mut known, 10, &[4]);
        (0..100).for_each(|_| known.on_loss(path, 9 + CALM_ARRIVALS));
        late(&mut known, 20, &[1]);
        (0..100).for_each(|_| known.on_loss(path, 19 + CALM_ARRIVALS));
        assert_eq!(window(&known, 3), 6 * MS);
        known.on_loss(path, 20 + CALM_ARRIVALS);
        assert_eq!(window(&known, 3), Duration::ZERO);
        known.on_loss(PathId::new(4), 1000);
        assert_eq!(known.windows().count(), 1);
    }
}
