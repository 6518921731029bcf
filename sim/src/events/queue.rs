//! The event queue, ordered by (time, sequence).
//!
//! Nearly all events of a packet simulation lie one of a few fixed spans ahead. The spans are the
//! serialisation times of a full frame and of an ACK, with or without the delay of the link. Events
//! scheduled with the same span come due in the order in which they were scheduled. So a plain
//! queue per span, a
//! *lane*, keeps them sorted at no cost, and only the heads of the lanes are compared. All other
//! events go through a heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::time::Ps;

/// Number of spans that have a lane. The first spans that are asked for get one.
const LANES: usize = 15;

/// The scheduled events of a run. The earliest comes first; events of the same instant keep the
/// order in which they were scheduled.
#[derive(Clone, Debug)]
pub struct Events<E> {
    now: Ps,
    sequence: u64,
    spans: Vec<Ps>,
    /// The key of the first event of the heap, then of each lane; [`NOTHING`] if it is empty.
    heads: [[Key; 8]; 2],
    lanes: Vec<VecDeque<Entry<E>>>,
    heap: BinaryHeap<Reverse<Entry<E>>>,
}

/// A span that [`Events::span`] has looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    time: Ps,
    /// Index in the heads.
    head: u8,
}

/// Time, sequence and index in the heads, as one number. The least key is found without a branch,
/// which no processor could predict, and it names its head.
type Key = u128;
const NOTHING: Key = Key::MAX;
/// Index of the heap in the heads.
const HEAP: u8 = 0;
/// Bits of a key that hold the index in the heads.
const HEAD_BITS: u32 = 4;

/// A scheduled event. The key is stored in two halves, because a single number would be aligned to
/// 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: Ps,
    /// The lower half of the key.
    order: u64,
    event: E,
}

fn key(time: Ps, order: u64) -> Key {
    Key::from(time.0) << 64 | Key::from(order)
}

/// Returns the least of eight keys. The comparisons are unrolled, because a loop would be compiled
/// to branches.
fn least(&[a, b, c, d, e, f, g, h]: &[Key; 8]) -> Key {
    let [ab, cd, ef, gh] = [a.min(b), c.min(d), e.min(f), g.min(h)];
    ab.min(cd).min(ef.min(gh))
}

impl<E> Entry<E> {
    fn key(&self) -> Key {
        key(self.time, self.order)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E: Copy> Default for Events<E> {
    fn default() -> Self {
        Events::new()
    }
}

impl<E: Copy> Events<E> {
    /// Creates an empty queue at time zero.
    pub fn new() -> Self {
        Events {
            now: Ps::ZERO,
            sequence: 0,
            spans: Vec::with_capacity(LANES),
            heads: [[NOTHING; 8]; 2],
            lanes: Vec::with_capacity(LANES),
            heap: BinaryHeap::new(),
        }
    }

    /// The time of the event popped last.
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Schedules an event `span` from now. Best for spans that recur.
    pub fn after(&mut self, span: Ps, event: E) {
        let span = self.span(span);
        self.after_span(span, event);
    }

    /// Schedules an event like [`Events::after`], for a span that was looked up before.
    // Inlined, so that the event is built in its lane. Copying an event that was just written in
    // parts would wait until the parts have reached the cache.
    #[inline(always)]
    pub fn after_span(&mut self, span: Span, event: E) {
        let (time, order) = (self.now + span.time, self.order(span.head));
        if span.head == HEAP {
            return self.push_on_heap(Entry { time, order, event });
        }
        let lane = usize::from(span.head) - 1;
        if self.lanes[lane].is_empty() {
            *self.head(span.head) = key(time, order);
        }
        self.lanes[lane].push_back(Entry { time, order, event });
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
        let order = self.order(HEAP);
        self.push_on_heap(Entry { time, order, event });
    }

    #[cold]
    fn push_on_heap(&mut self, entry: Entry<E>) {
        let first = self.head(HEAP);
        *first = entry.key().min(*first);
        self.heap.push(Reverse(entry));
    }

    /// Removes and returns the next event, and advances the clock to its time.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        let [some, others] = &self.heads;
        let mut first = least(some);
        if self.lanes.len() >= some.len() {
            first = first.min(least(others));
        }
        if first == NOTHING {
            return None;
        }
        let head = first as u8 & ((1 << HEAD_BITS) - 1);
        self.now = Ps((first >> 64) as u64);
        let (event, next) = match head.checked_sub(1) {
            Some(lane) => {
                let lane = &mut self.lanes[usize::from(lane)];
                (lane.pop_front()?.event, lane.front().map(Entry::key))
            }
            None => (self.heap.pop()?.0.event, self.heap.peek().map(|Reverse(entry)| entry.key())),
        };
        *self.head(head) = next.unwrap_or(NOTHING);
        Some(event)
    }

    fn head(&mut self, place: u8) -> &mut Key {
        &mut self.heads[usize::from(place / 8)][usize::from(place % 8)]
    }

    /// Returns the lower half of the key for the next scheduled event.
    fn order(&mut self, head: u8) -> u64 {
        self.sequence += 1;
        self.sequence << HEAD_BITS | u64::from(head)
    }

    /// Looks up a span, which gets a lane if one is left. The result is valid for this queue only.
    pub fn span(&mut self, time: Ps) -> Span {
        let known = self.spans.iter().position(|other| *other == time);
        let lane = known.unwrap_or(self.spans.len());
        if lane == LANES {
            return Span { time, head: HEAP };
        }
        if known.is_none() {
            self.spans.push(time);
            self.lanes.push(VecDeque::new());
        }
        Span { time, head: lane as u8 + 1 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drain(events: &mut Events<u32>) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| events.pop().map(|event| (events.now().0, event))).collect()
    }

    #[test]
    fn events_of_the_same_instant_come_in_the_order_scheduled() {
        let mut events = Events::new();
        events.after(Ps(5), 1);
        events.at(Ps(5), 2);
        events.after(Ps(3), 3);
        events.after(Ps(5), 4);
        assert_eq!(drain(&mut events), [(3, 3), (5, 1), (5, 2), (5, 4)]);
    }

    #[test]
    #[should_panic(expected = "already")]
    fn the_past_is_closed() {
        let mut events = Events::new();
        events.after(Ps(5), 1);
        events.pop();
        events.at(Ps(4), 2);
    }

    proptest! {
        /// Events come out by (time, sequence), in any order of scheduling and with more spans than
        /// lanes.
        #[test]
        fn order_is_by_time_then_sequence(
            calls in prop::collection::vec((any::<bool>(), 0_u64..40, any::<bool>()), 1..300),
        ) {
            let mut events = Events::new();
            let mut came = Vec::new();
            for (id, (in_lane, span, pops)) in (0_u32..).zip(&calls) {
                match in_lane {
                    true => events.after(Ps(*span), id),
                    false => events.at(events.now() + Ps(*span), id),
                }
                if *pops {
                    let event = events.pop().unwrap();
                    came.push((events.now().0, event));
                }
            }
            came.extend(drain(&mut events));
            prop_assert_eq!(came.len(), calls.len());
            prop_assert!(came.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            let rest = &came[calls.iter().filter(|call| call.2).count()..];
            let ordered = |two: &[(u64, u32)]| two[0].0 < two[1].0 || two[0].1 < two[1].1;
            prop_assert!(rest.windows(2).all(ordered));
        }
    }
}
