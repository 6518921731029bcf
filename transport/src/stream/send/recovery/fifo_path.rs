//! FIFO paths. A path is a queue: once a packet of it has arrived, everything sent on it before has
//! arrived, too, or never will. Themis (section 3.2) uses this with a deterministic policy, where a
//! PSN of the same residue proves the loss. The sender knows the path of each packet, so this holds
//! under any policy.
//!
//! Some paths are no queues: jitter, link aggregation and packet-spraying switches reorder them.
//! The late arrival of a segment that was declared lost shows that. From then on, a packet of the
//! path is lost once a later one has been there for the path's reordering window
//! ([`braid_lb::Reordering`]).
//!
//! A path on which nothing arrives any more proves nothing. There the time-out decides, for each
//! packet by itself, as soon as a later packet of any path has arrived.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use braid_lb::Rails;
use braid_wire::Time;

use super::presumed_lost::{PresumedLost, Presumption};
use super::report::Report;
use crate::stream::per_path::PerPath;
use crate::stream::send::segment::Segment;
use crate::stream::send::window::Window;

/// Snapshots of the newest transmission are taken at intervals of this part of a window.
const STEPS: u32 = 8;
/// Number of snapshots kept: two windows.
const LOOKS: usize = 2 * STEPS as usize;

#[derive(Clone, Debug, Default)]
pub(crate) struct FifoPath {
    paths: PerPath<Arrived>,
    /// State of the paths that reorder, or did.
    looks: Vec<Looks>,
    /// Segments that the order of their path has declared lost.
    pub(super) presumed: PresumedLost,
    /// Version of the reordering windows that `paths` reflects.
    version: u32,
}

/// The newest unambiguous arrival on one path.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    /// Order of the newest transmission that has arrived.
    newest: u64,
    /// For a path that reorders, or did: 1 plus its index in `looks`.
    looks: Option<NonZeroU32>,
}

/// Snapshots of the newest arrival on a path that reorders, oldest first: time and order.
#[derive(Clone, Debug)]
struct Looks {
    /// The reordering window. Zero: the path keeps order now.
    window: Duration,
    at: VecDeque<(Time, u64)>,
    /// As of this time, the order of the newest arrival a window ago. Lower orders were overtaken
    /// then.
    settled: (Time, u64),
}

impl Looks {
    fn new(now: Time, newest: u64) -> Self {
        let mut at = VecDeque::with_capacity(LOOKS);
        at.push_back((now, newest));
        Looks { window: Duration::ZERO, at, settled: (Time::ZERO, 0) }
    }

    fn on_newest(&mut self, now: Time, order: u64) {
        if let Some((at, newest)) = self.at.back_mut()
            && now < *at + self.window / STEPS
        {
            *newest = order;
            return;
        }
        if self.at.len() == LOOKS {
            self.at.pop_front();
        }
        self.at.push_back((now, order));
    }

    /// Time since which a newer transmission has been there; at most one step too early.
    fn overtaken_since(&self, order: u64) -> Option<Time> {
        self.at.iter().find(|(_, newest)| *newest > order).map(|(at, _)| *at)
    }

    /// The order of the newest arrival a window ago.
    fn settled(&mut self, now: Time) -> u64 {
        let (as_of, _) = self.settled;
        if as_of != now {
            let window = self.window + self.window / STEPS;
            let old = self.at.iter().rev().find(|(at, _)| now - *at > window);
            self.settled = (now, old.map_or(0, |(_, newest)| *newest));
        }
        self.settled.1
    }
}

impl Arrived {
    fn looks<'a>(&self, all: &'a mut [Looks]) -> Option<&'a mut Looks> {
        all.get_mut(self.looks?.get() as usize - 1)
    }

    /// Time since which a transmission is overtaken, if that proves its loss now.
    fn proves_loss(&self, now: Time, order: u64, all: &mut [Looks]) -> Option<Time> {
        if order >= self.newest {
            return None;
        }
        let Some(looks) = self.looks(all).filter(|looks| !looks.window.is_zero()) else {
            return Some(now);
        };
        if order < looks.settled(now) { looks.overtaken_since(order) } else { None }
    }
}

impl FifoPath {
    #[inline]
    pub(super) fn on_arrival(&mut self, now: Time, segment: &Segment, rails: &mut Rails) {
        let arrived = self.paths.entry(segment.path);
        match arrived.looks {
            None => arrived.newest = segment.order.max(arrived.newest),
            Some(_) => self.look(now, segment, rails),
        }
    }

    /// Handles a certain arrival on a path that reorders.
    #[cold]
    #[inline(never)]
    fn look(&mut self, now: Time, segment: &Segment, rails: &mut Rails) {
        let arrived = self.paths.entry(segment.path);
        let Some(looks) = arrived.looks(&mut self.looks) else { return };
        if segment.order > arrived.newest {
            arrived.newest = segment.order;
            looks.on_newest(now, segment.order);
        } else if let Some(since) = looks.overtaken_since(segment.order)
            && since < now
        {
            rails.on_late(segment.path, now - since);
        }
    }

    #[inline]
    pub(super) fn detect(
        &mut self,
        report: &Report,
        window: &mut Window,
        lost: &mut dyn FnMut(&Segment),
    ) {
        window.lose_overtaken(lost, |segment, _| {
            let overtaken = match self.paths.get_mut(segment.path) {
                Some(arrived) => arrived.proves_loss(report.now, segment.order, &mut self.looks),
                None => None,
            };
            if let Some(since) = overtaken {
                self.presumed.push(Presumption::new(segment, since), report);
            }
            overtaken.is_some() || report.is_overdue(segment)
        });
    }

    /// Takes over the windows of the paths that reorder.
    #[inline]
    pub(super) fn follow(&mut self, now: Time, rails: &Rails) {
        if self.version != rails.reordering().version() {
            self.follow_windows(now, rails);
        }
    }

    #[cold]
    fn follow_windows(&mut self, now: Time, rails: &Rails) {
        let known = rails.reordering();
        self.version = known.version();
        for (path, window) in known.windows() {
            let arrived = self.paths.entry(path);
            if arrived.looks.is_none() && !window.is_zero() {
                self.looks.push(Looks::new(now, arrived.newest));
                arrived.looks = NonZeroU32::new(self.looks.len() as u32);
            }
            if let Some(looks) = arrived.looks(&mut self.looks) {
                looks.window = window;
            }
        }
    }

    pub(super) fn trim(&mut self) {
        // Orders never repeat, so forgetting them can only hide a loss, and nothing is in flight.
        *self = FifoPath::default();
    }
}
