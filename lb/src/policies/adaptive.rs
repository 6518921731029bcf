//! PRO's order (`pro.rs`) with a window for each path that is new or falls behind the others. The
//! policy does not assume equal paths or congestion marks, only that a queue increases the
//! round-trip time.
//!
//! Equal shares suit equal paths. If one path carries less than others, its queue grows until it
//! holds the sender's whole window, and every path carries as much as the slowest. This policy
//! differs as follows:
//!
//! - A new path is on **trial**: its window of one segment doubles in every round trip that is in
//!   time, and ends as others do. Otherwise a sender with many paths, whose own window doubles in
//!   every round trip, would fill the queue of a slow link before the first feedback.
//! - A batch is **late** if a batch that was sent after more than half of its round trip returned
//!   before it. This compares paths at the same time, so a busy receiver or a paused host affects
//!   all of them. Round trips stay within a factor of two of each other. For paths of about equal
//!   length, that is Wardrop's equilibrium: every path has a queue, or none has.
//! - A path with a late batch gets a **window**: its packets in flight, reduced in proportion to
//!   the delay. That is the amount that the path delivers in a round trip that is not late
//!   (Little's law). The window shrinks with every late batch, once per round trip. It grows by an
//!   eighth in a round trip that is in time, and ends when it has not limited the path.
//! - A window may be smaller than a segment, if many paths share one slow link. Such a path is
//!   paced at one segment per several round trips (Swift, SIGCOMM 2020, section 3.1.3), and at
//!   least one per 250 ms, because it may have become fast.
//! - Windows only compare paths. The controller limits the total in flight, so if every path is
//!   limited, all windows double.
//!
//! While no path has a window, the policy equals PRO's Algorithm 1.

use std::num::NonZeroU32;
use std::time::Duration;

use braid_wire::{PathId, Time};

use super::pro::Pro;
use crate::path::nanos;
use crate::slots::index;
use crate::{
    Batch, Outcome, PathPolicy, PathPolicyFactory, PathRng, Paths, Requirements, StreamId,
};

/// A batch is in time within this multiple of the latest batch's round trip.
const IN_TIME: u64 = 2;
/// Units of a window per segment.
const SEGMENT: u64 = 256;
/// Divisor of the maximum reduction: a late batch leaves at least this fraction of a window.
const MOST_CUT: u64 = 4;
/// Divisor of the growth: a batch in time adds this fraction of a window.
const GROWTH: u64 = 8;
/// Maximum pause of a path.
const MOST_PAUSE: Duration = Duration::from_millis(250);

pub(crate) struct AdaptiveFactory;

impl PathPolicyFactory for AdaptiveFactory {
    fn name(&self) -> &str {
        "adaptive"
    }

    fn requirements(&self) -> Requirements {
        Requirements { shares_batches: true, ..Requirements::default() }
    }

    fn build(&self, paths: &Paths, rng: &mut PathRng) -> Box<dyn PathPolicy> {
        let windows = vec![Window::trial(); paths.len()];
        let order = Pro::new(paths, rng);
        Box::new(Adaptive { order, windows, most: None, newest: Time::ZERO })
    }
}

#[derive(Debug)]
struct Adaptive {
    order: Pro,
    /// Indexed by path.
    windows: Vec<Window>,
    /// Maximum number of segments of the batch just picked for.
    most: Option<NonZeroU32>,
    /// Send time of the latest batch that has returned.
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
    /// Returns the first path from `path` on in PRO's order that its window does not limit.
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

/// The limit of a path that is on trial or has fallen behind.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Size in units of 1/[`SEGMENT`] segment. 0 means no window.
    size: u64,
    /// Round trip of the batch that last changed the window, in nanoseconds.
    rtt: u64,
    changed_at: Time,
    /// Time of the last batch on the path.
    left_at: Time,
    /// Whether the window has limited the path since its last change.
    holds: bool,
    /// Whether all batches have been in time so far.
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

    /// Returns the number of segments that may be sent now, for all queue pairs that join the
    /// batch, or 0 if the window is full.
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

    /// Processes a batch sent at `left_at` that took `rtt` instead of at most `in_time`.
    fn on_late(&mut self, now: Time, left_at: Time, in_flight: u64, in_time: u64, rtt: u64) {
        if self.size > 0 && left_at < self.changed_at {
            // The batch was sent before the last change.
            return;
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
