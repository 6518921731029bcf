//! The event queue, ordered by (time, sequence).
//!
//! Nearly all events of a packet simulation are those of a frame on a link: the link is free again,
//! and the frame reaches the far end. Both lie a fixed span ahead, by the length of the frame and
//! the speed and delay of the link, and there are few different pairs of spans. Frames with the
//! same spans come due in the order in which they were launched, at either end. So a plain ring per
//! pair of spans, a *lane*, keeps them sorted at no cost. A frame is written to its lane once, and
//! each end has its own position in the ring. Only the first entries at these positions are
//! compared. All other events go through a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Ps;

/// Number of pairs of spans that have a lane. The first ones that are asked for get one.
const LANES: usize = 7;

/// The scheduled events of a run, and the frames on its links. The earliest comes first; events of
/// the same instant keep the order in which they were scheduled.
#[derive(Clone, Debug)]
pub struct EventQueue<E, F> {
    now: Ps,
    sequence: u64,
    /// The keys of both ends of each lane, one that is unused, then the key of the first event of
    /// the heap; [`NOTHING`] if there is none.
    heads: [[Key; 4]; 4],
    lanes: Vec<Lane<F>>,
    heap: BinaryHeap<Reverse<Scheduled<E, F>>>,
}

/// An event that is due, or one end of the way of a frame without a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken<E, F> {
    /// A scheduled event.
    Event(E),
    /// The link that carries the frame is free again.
    Sent(F),
    /// The frame reaches the far end of the link.
    Arrived(F),
}

/// The next thing that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// The link that carries this frame is free again.
    Sent(FrameId),
    /// This frame reaches the far end of its link.
    Arrived(FrameId),
    /// [`EventQueue::take`] returns what is due.
    Other,
}

/// The place of a frame that is due, for [`EventQueue::frame`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameId {
    lane: usize,
    index: usize,
}

/// The times until a frame is sent and until it arrives, from [`EventQueue::spans`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spans {
    until: [Ps; 2],
    /// The lane; [`LANES`] if there is none for these spans.
    lane: u8,
}

impl Spans {
    /// No time at all, without a lane.
    pub const ZERO: Spans = Spans { until: [Ps::ZERO; 2], lane: LANES as u8 };
}

/// Time, sequence and index in the heads, as one number. The least key is found without a branch,
/// which no processor could predict, and it names its head.
type Key = u128;
const NOTHING: Key = Key::MAX;
/// Index of the heap in the heads.
const HEAP: usize = 15;
/// Bits of a key that hold the index in the heads.
const HEAD_BITS: u32 = 4;
/// The ends of a frame's way, which have consecutive heads and sequence numbers.
const SENT: usize = 0;
const ARRIVED: usize = 1;

fn key(time: Ps, sequence: u64, head: usize) -> Key {
    Key::from(time.0) << 64 | Key::from(sequence << HEAD_BITS | head as u64)
}

/// Returns the least of four keys. The comparisons are unrolled, because a loop would be compiled
/// to branches.
#[inline(always)]
fn least(&[a, b, c, d]: &[Key; 4]) -> Key {
    a.min(b).min(c.min(d))
}

/// The frames with the same spans, in a ring whose length is a power of two. Positions count all
/// frames launched so far.
#[derive(Clone, Debug)]
struct Lane<F> {
    ring: Vec<Launch<F>>,
    /// The position of the next frame to be sent, and to arrive.
    next: [u64; 2],
    /// The position behind the last frame.
    end: u64,
    until: [Ps; 2],
    /// The index in the heads of the first end.
    head: usize,
}

/// A frame in a lane.
#[derive(Clone, Copy, Debug)]
struct Launch<F> {
    at: Ps,
    /// The sequence number of its first end. The next number is that of its second end.
    sequence: u64,
    frame: F,
}

impl<F: Copy> Lane<F> {
    #[inline(always)]
    fn place(&self, position: u64) -> usize {
        position as usize & self.ring.len().wrapping_sub(1)
    }

    /// Returns the key of the next frame at an end.
    #[inline(always)]
    fn key(&self, end: usize) -> Key {
        if self.next[end] == self.end {
            return NOTHING;
        }
        let Launch { at, sequence, .. } = self.ring[self.place(self.next[end])];
        key(at + self.until[end], sequence + end as u64, self.head + end)
    }

    /// Appends a frame and returns it for changes. It is copied in one piece.
    #[inline(always)]
    fn push(&mut self, at: Ps, sequence: u64, frame: &F) -> &mut F {
        let oldest = self.next[SENT].min(self.next[ARRIVED]);
        if self.end - oldest == self.ring.len() as u64 {
            self.grow(oldest, frame);
        }
        let place = self.place(self.end);
        self.end += 1;
        let launch = &mut self.ring[place];
        (launch.at, launch.sequence, launch.frame) = (at, sequence, *frame);
        &mut launch.frame
    }

    /// Doubles the ring. `any` fills its new places.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, oldest: u64, any: &F) {
        let first = self.place(oldest);
        self.ring.rotate_left(first);
        let any = Launch { at: Ps::ZERO, sequence: 0, frame: *any };
        self.ring.resize((2 * self.ring.len()).max(4), any);
        self.end -= oldest;
        self.next.iter_mut().for_each(|next| *next -= oldest);
    }
}

/// An event in the heap. The key is stored in two halves, because a single number would be aligned
/// to 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Scheduled<E, F> {
    time: Ps,
    sequence: u64,
    due: Taken<E, F>,
}

impl<E, F> Scheduled<E, F> {
    fn key(&self) -> Key {
        key(self.time, self.sequence, HEAP)
    }
}

impl<E, F> PartialEq for Scheduled<E, F> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E, F> Eq for Scheduled<E, F> {}

impl<E, F> PartialOrd for Scheduled<E, F> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E, F> Ord for Scheduled<E, F> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E: Copy, F: Copy> Default for EventQueue<E, F> {
    fn default() -> Self {
        EventQueue::new()
    }
}

impl<E: Copy, F: Copy> EventQueue<E, F> {
    /// Creates an empty queue at time zero.
    pub fn new() -> Self {
        EventQueue {
            now: Ps::ZERO,
            sequence: 0,
            heads: [[NOTHING; 4]; 4],
            lanes: Vec::with_capacity(LANES),
            heap: BinaryHeap::new(),
        }
    }

    /// The time of what was due last.
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Schedules an event `span` from now.
    pub fn after(&mut self, span: Ps, event: E) {
        self.schedule(self.now + span, Taken::Event(event));
    }

    /// Schedules an event at an instant that has not passed.
    ///
    /// # Panics
    /// Panics if `time` has passed.
    pub fn at(&mut self, time: Ps, event: E) {
        assert!(
            time >= self.now,
            "an event is scheduled at {time}, but the clock is at {} already",
            self.now
        );
        self.schedule(time, Taken::Event(event));
    }

    /// Schedules both ends of a frame's way over a link that starts now: [`Due::Sent`], then
    /// [`Due::Arrived`]. `spans` come from [`EventQueue::spans`] of this queue. `change` changes
    /// the frame on its way.
    // A copy of a frame that was just changed would wait until the change has reached the cache. So
    // the frame is copied in one piece and changed in its lane.
    #[inline(always)]
    pub fn launch(&mut self, spans: Spans, frame: &F, change: impl FnOnce(&mut F)) {
        let Some(lane) = self.lanes.get_mut(usize::from(spans.lane)) else {
            let mut frame = *frame;
            change(&mut frame);
            return self.launch_without_lane(spans, frame);
        };
        let was_empty = lane.next[SENT] == lane.end || lane.next[ARRIVED] == lane.end;
        change(lane.push(self.now, self.sequence + 1, frame));
        self.sequence += 2;
        if was_empty {
            self.begin_lane(usize::from(spans.lane));
        }
    }

    #[cold]
    #[inline(never)]
    fn launch_without_lane(&mut self, spans: Spans, frame: F) {
        let [sent, arrived] = spans.until.map(|until| self.now + until);
        self.schedule(sent, Taken::Sent(frame));
        self.schedule(arrived, Taken::Arrived(frame));
    }

    /// Updates the heads of a lane that was empty at one end.
    #[inline(never)]
    fn begin_lane(&mut self, lane: usize) {
        for end in [SENT, ARRIVED] {
            let (head, key) = (self.lanes[lane].head + end, self.lanes[lane].key(end));
            *self.head(head) = key;
        }
    }

    #[inline(never)]
    fn schedule(&mut self, time: Ps, due: Taken<E, F>) {
        self.sequence += 1;
        let entry = Scheduled { time, sequence: self.sequence, due };
        let first = self.head(HEAP);
        *first = entry.key().min(*first);
        self.heap.push(Reverse(entry));
    }

    /// Advances the clock to what is due next, and returns it. Call [`EventQueue::take`] at once
    /// after [`Due::Other`].
    #[inline(always)]
    pub fn advance(&mut self) -> Option<Due> {
        let [zero, one, two, three] = &self.heads;
        let mut first = least(zero).min(three[HEAP % 4]);
        if self.lanes.len() > 2 {
            first = first.min(least(one));
            if self.lanes.len() > 4 {
                first = first.min(least(two)).min(least(three));
            }
        }
        if first == NOTHING {
            return None;
        }
        self.now = Ps((first >> 64) as u64);
        let head = first as usize & ((1 << HEAD_BITS) - 1);
        if head == HEAP {
            return Some(Due::Other);
        }
        let (number, end) = (head / 2, head % 2);
        let lane = &mut self.lanes[number];
        let id = FrameId { lane: number, index: lane.place(lane.next[end]) };
        lane.next[end] += 1;
        let next = lane.key(end);
        *self.head(head) = next;
        Some(if end == SENT { Due::Sent(id) } else { Due::Arrived(id) })
    }

    /// Returns a frame that [`EventQueue::advance`] has just named. Another one may be in its place
    /// as soon as frames are launched.
    ///
    /// # Panics
    /// Panics if the place is of another queue.
    #[inline(always)]
    pub fn frame(&self, id: FrameId) -> &F {
        &self.lanes[id.lane].ring[id.index].frame
    }

    /// Returns the frame that will be sent `count` frames after one of the same lane that has just
    /// come due, if it is on its way.
    #[inline(always)]
    pub fn sent_after(&self, id: FrameId, count: u64) -> Option<&F> {
        self.after_frame(id, SENT, count)
    }

    /// Returns the frame that will arrive `count` frames after one of the same lane that has just
    /// come due, if it is on its way.
    #[inline(always)]
    pub fn arrived_after(&self, id: FrameId, count: u64) -> Option<&F> {
        self.after_frame(id, ARRIVED, count)
    }

    #[inline(always)]
    fn after_frame(&self, id: FrameId, end: usize, count: u64) -> Option<&F> {
        let lane = &self.lanes[id.lane];
        let position = lane.next[end] + (count - 1);
        (position < lane.end).then(|| &lane.ring[lane.place(position)].frame)
    }

    /// Removes and returns what [`EventQueue::advance`] has not named.
    #[inline(never)]
    pub fn take(&mut self) -> Option<Taken<E, F>> {
        let Reverse(entry) = self.heap.pop()?;
        *self.head(HEAP) = self.heap.peek().map_or(NOTHING, |Reverse(entry)| entry.key());
        Some(entry.due)
    }

    #[inline(always)]
    fn head(&mut self, head: usize) -> &mut Key {
        &mut self.heads[head / 4][head % 4]
    }

    /// Looks up the spans until a frame is sent and until it arrives, which get a lane if one is
    /// left. The result is valid for this queue only.
    pub fn spans(&mut self, until_sent: Ps, until_arrived: Ps) -> Spans {
        let until = [until_sent, until_arrived];
        let known = self.lanes.iter().position(|lane| lane.until == until);
        let lane = known.unwrap_or(self.lanes.len());
        if known.is_none() && lane < LANES {
            let head = 2 * lane;
            self.lanes.push(Lane { ring: Vec::new(), next: [0; 2], end: 0, until, head });
        }
        Spans { until, lane: lane as u8 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Few = EventQueue<u32, u32>;

    fn drain(events: &mut Few) -> Vec<(u64, Taken<u32, u32>)> {
        std::iter::from_fn(|| next(events)).collect()
    }

    fn next(events: &mut Few) -> Option<(u64, Taken<u32, u32>)> {
        let due = match events.advance()? {
            Due::Sent(id) => Taken::Sent(*events.frame(id)),
            Due::Arrived(id) => Taken::Arrived(*events.frame(id)),
            Due::Other => events.take()?,
        };
        Some((events.now().0, due))
    }

    fn launch(events: &mut Few, until: (u64, u64), frame: u32) {
        let spans = events.spans(Ps(until.0), Ps(until.1));
        events.launch(spans, &(frame - 1), |frame| *frame += 1);
    }

    #[test]
    fn events_of_the_same_instant_come_in_the_order_scheduled() {
        let mut events = Few::new();
        events.after(Ps(5), 1);
        events.at(Ps(5), 2);
        launch(&mut events, (3, 5), 3);
        events.after(Ps(5), 4);
        launch(&mut events, (5, 5), 5);
        use Taken::{Arrived, Event, Sent};
        let at_five = [Event(1), Event(2), Arrived(3), Event(4), Sent(5), Arrived(5)];
        let expected = [(3, Sent(3))].into_iter().chain(at_five.map(|due| (5, due)));
        let expected: Vec<_> = expected.collect();
        assert_eq!(drain(&mut events), expected);
    }

    #[test]
    #[should_panic(expected = "already")]
    fn the_past_is_closed() {
        let mut events = Few::new();
        events.after(Ps(5), 1);
        events.advance();
        events.take();
        events.at(Ps(4), 2);
    }

    proptest! {
        /// All comes out by (time, sequence), in any order of scheduling and with more spans than
        /// lanes: the times and the order are those of a sorted list.
        #[test]
        fn order_is_by_time_then_sequence(
            calls in prop::collection::vec((0_u8..3, 0_u64..12, 0_u64..12, 0_usize..3), 1..300),
        ) {
            let (mut events, mut expected, mut came) = (Few::new(), Vec::new(), Vec::new());
            for (id, (kind, first, second, pops)) in (1_u32..).zip(&calls) {
                let now = events.now();
                match kind {
                    0 => {
                        events.at(now + Ps(*first), id);
                        expected.push((now.0 + first, Taken::Event(id)));
                    }
                    _ => {
                        launch(&mut events, (*first, *second), id);
                        expected.push((now.0 + first, Taken::Sent(id)));
                        expected.push((now.0 + second, Taken::Arrived(id)));
                    }
                }
                for _ in 0..*pops {
                    came.extend(next(&mut events));
                }
            }
            came.extend(drain(&mut events));
            // Nothing is scheduled before the time of what was popped last, so a stable sort gives
            // the order although the calls alternate.
            expected.sort_by_key(|(time, _)| *time);
            prop_assert_eq!(came, expected);
        }
    }
}
