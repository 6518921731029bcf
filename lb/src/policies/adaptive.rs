//! PRO's order (`pro.rs`), with a window for each path that falls behind the others, or is new. It assumes neither that paths are
//! equally fast nor that switches mark, only that a queue shows in the round trip.
//!
//! Equal shares suit equal paths. Where one path takes less than others, its queue grows until it holds the whole window
//! of the sender, and every path carries what that one does. Here:
//!
//! - A path is on **trial** at first: it has a window of one segment, which doubles in every round trip that was in time, and
//!   ends as others do. Else a sender with many paths, whose own window doubles in every round trip, fills the queue of a slow
//!   link before it hears of that.
//! - A batch is **late** if one that left after more than half of its round trip had passed has come back before it. That
//!   compares with what other paths do now: a busy receiver, or a host that stood still, is on all of them. So round trips
//!   are kept within a factor of two of each other, which for paths of about the same length is Wardrop's equilibrium:
//!   every path has a queue, or none has.
//! - A path with a late batch gets a **window**: what was in flight on it, less in proportion to the delay. That is what the path
//!   delivers in a round trip that is not late (Little's law). It shrinks again with every late batch, once in a
//!   round trip, grows by an eighth in a round trip that was in time, and ends when it has held nothing back.
//! - Windows are of parts of a segment, too: of many paths over one slow link each has little. Such a path is paced, one segment in
//!   so many round trips (Swift, SIGCOMM 2020, section 3.1.3), yet one in a quarter of a second always: it may have become
//!   fast.
//! - Windows say how paths compare; how much is in flight at all is the controller's affair. Where every path is held back, all
//!   windows double.
//!
//! While no path has a window this is PRO's Algorithm 1, batch for batch.

use std::num::NonZeroU32;
use std::time::Duration;

use braid_wire::{PathId, Time};

use super::pro::Pro;
use crate::path::nanos;
use crate::slots::index;
use crate::{
    Batch, Outcome, PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements, StreamId,
};

/// So many round trips of the batch that came back most recently are in time.
const IN_TIME: u64 = 2;
/// A segment, as windows count.
const SEGMENT: u64 = 256;
/// What a late batch leaves of a window at least: one part in so many.
const MOST_CUT: u64 = 4;
/// What a batch in time adds to a window: one part in so many.
const GROWTH: u64 = 8;
/// The longest pause of a path.
const MOST_PAUSE: Duration = Duration::from_millis(250);

pub(crate) struct Factory;

impl PathPolicyFactory for Factory {
    fn name(&self) -> &str {
        "adaptive"
    }

    fn requirements(&self) -> Requirements {
        Requirements { shares_batches: true, ..Requirements::default() }
    }

    fn build(&self, paths: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        let windows = vec![Window::trial(); paths.len()];
        Box::new(Adaptive { order: Pro::new(), windows, most: None, newest: Time::ZERO })
    }
}

#[derive(Debug)]
struct Adaptive {
    order: Pro,
    /// By path.
    windows: Vec<Window>,
    /// Segments that the batch may have that was picked for last.
    most: Option<NonZeroU32>,
    /// When the latest batch left of those that have come back.
    newest: Time,
}

impl PathPolicy for Adaptive {
    fn admit(&mut self, stream: StreamId, rng: &mut PathRng) {
        self.order.admit(stream, rng);
    }

    fn dismiss(&mut self, stream: StreamId) {
        self.order.dismiss(stream);
    }

    fn pick(&mut self, stream: StreamId, batch: Batch, paths: &Paths, rng: &mut PathRng) -> PathId {
        let path = self.order.pick(stream, batch, paths, rng);
        self.most = None;
        if self.windows[index(path)].size == 0 {
            return path;
        }
        self.pick_by_windows(path, stream, batch, paths, rng)
    }

    fn most_segments(&self) -> Option<NonZeroU32> {
        self.most
    }

    fn on_feedback(
        &mut self,
        _: StreamId,
        now: Time,
        path: PathId,
        outcome: &Outcome,
        paths: &Paths,
    ) {
        let Outcome::Arrived { rtt, packets, .. } = *outcome else { return };
        let rtt = nanos(rtt);
        let left_at = Time::from_nanos(now.as_nanos().saturating_sub(rtt));
        self.newest = self.newest.max(left_at);
        let in_time = nanos(now - self.newest).saturating_mul(IN_TIME);
        let window = &mut self.windows[index(path)];
        if rtt > in_time {
            let in_flight = u64::from(paths.in_flight(path)) + u64::from(packets);
            window.on_late(now, left_at, in_flight * SEGMENT, in_time, rtt);
        } else if window.size > 0 {
            window.on_time(now, left_at, rtt);
        }
    }
}

impl Adaptive {
    /// From `path` on in PRO's order, the first that is not held back.
    #[inline(never)]
    fn pick_by_windows(
        &mut self,
        mut path: PathId,
        stream: StreamId,
        batch: Batch,
        paths: &Paths,
        rng: &mut PathRng,
    ) -> PathId {
        loop {
            for _ in 0..paths.len() {
                let window = &mut self.windows[index(path)];
                if window.size == 0 {
                    return path;
                }
                self.most = NonZeroU32::new(window.take(batch, paths.in_flight(path)));
                if self.most.is_some() {
                    return path;
                }
                path = self.order.pick(stream, batch, paths, rng);
            }
            self.windows.iter_mut().for_each(Window::double);
        }
    }
}

/// What may be in flight on a path that is on trial, or has fallen behind.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// In parts of a segment, [`SEGMENT`] each; 0: there is no window.
    size: u64,
    /// Of the batch that changed it last, in nanoseconds.
    rtt: u64,
    changed_at: Time,
    /// When a batch was last let through.
    left_at: Time,
    /// It has held something back since it changed.
    holds: bool,
    /// Everything has been in time so far.
    is_trial: bool,
}

impl Window {
    fn trial() -> Self {
        Window {
            size: SEGMENT,
            rtt: 0,
            changed_at: Time::ZERO,
            left_at: Time::ZERO,
            holds: false,
            is_trial: true,
        }
    }

    /// So many segments may leave now, whoever joins the batch that is picked for; none is held back by a full one.
    fn take(&mut self, batch: Batch, in_flight: u32) -> u32 {
        let room = if self.size >= SEGMENT {
            (self.size / SEGMENT).saturating_sub(in_flight.into())
        } else {
            let pause = (self.rtt.saturating_mul(SEGMENT) / self.size).clamp(1, nanos(MOST_PAUSE));
            (nanos(batch.now - self.left_at) / pause).min(batch.segments.into())
        };
        self.holds |= room < batch.segments.into();
        if room > 0 {
            self.left_at = batch.now;
        }
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    /// A batch that left at `left_at` took `rtt` where `in_time` would have been in time.
    fn on_late(&mut self, now: Time, left_at: Time, in_flight: u64, in_time: u64, rtt: u64) {
        if self.size > 0 && left_at < self.changed_at {
            return; // that says nothing of the last change
        }
        let used = if self.size > 0 { self.size.min(in_flight) } else { in_flight };
        let kept = u128::from(used) * u128::from(in_time.max(rtt / MOST_CUT)) / u128::from(rtt);
        self.is_trial = false;
        self.change(now, (kept as u64).max(1), rtt);
    }

    fn on_time(&mut self, now: Time, left_at: Time, rtt: u64) {
        if left_at < self.changed_at {
            return;
        }
        let more = if self.is_trial { self.size } else { (self.size / GROWTH).max(1) };
        self.is_trial &= self.holds;
        self.change(now, if self.holds { self.size.saturating_add(more) } else { 0 }, rtt);
    }

    fn change(&mut self, now: Time, size: u64, rtt: u64) {
        (self.size, self.rtt, self.changed_at, self.holds) = (size, rtt, now, false);
    }

    fn double(&mut self) {
        self.size = self.size.saturating_mul(2);
    }
}
