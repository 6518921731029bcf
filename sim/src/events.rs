//! What happens next: events keyed by (time, sequence).
//!
//! Nearly all events of a packet simulation lie one of a few fixed spans ahead: a full frame's time on
//! the wire, an ACK's, each with and without the delay of the link. Events scheduled with the same span
//! come due in the order in which they were scheduled, so a plain queue per span, a *lane*, keeps them
//! sorted for nothing; only the heads of the lanes are compared. Everything else goes through a heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::time::Ps;

/// Spans that have a lane; the first so many that are asked for.
const LANES: usize = 16;

/// Events of a run, the earliest first; of the same instant the one scheduled first.
#[derive(Clone, Debug)]
pub struct Events<E> {
    now: Ps,
    sequence: u64,
    spans: Vec<Ps>,
    /// The key of each lane's first event, [`NOTHING`] if it is empty.
    heads: Vec<Key>,
    lanes: Vec<VecDeque<(Key, E)>>,
    heap: BinaryHeap<Reverse<Entry<E>>>,
}

/// A span that was looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    time: Ps,
    /// Beyond the last one: it has none.
    lane: u8,
}

/// Time, then sequence: one number, because it is compared more often than anything else.
type Key = u128;
const NOTHING: Key = Key::MAX;

fn time_of(key: Key) -> Ps {
    Ps((key >> 64) as u64)
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    key: Key,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
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
        self.key.cmp(&other.key)
    }
}

impl<E: Copy> Default for Events<E> {
    fn default() -> Self {
        Events::new()
    }
}

impl<E: Copy> Events<E> {
    /// At time zero, with nothing to come.
    pub fn new() -> Self {
        Events {
            now: Ps::ZERO,
            sequence: 0,
            spans: Vec::with_capacity(LANES),
            heads: Vec::with_capacity(LANES),
            lanes: Vec::with_capacity(LANES),
            heap: BinaryHeap::new(),
        }
    }

    /// The time of the event popped last.
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Schedules an event `span` from now; best for spans that come again and again.
    pub fn after(&mut self, span: Ps, event: E) {
        let span = self.span(span);
        self.after_span(span, event);
    }

    /// As [`Events::after`], of a span that was looked up before.
    pub fn after_span(&mut self, span: Span, event: E) {
        let key = self.key(self.now + span.time);
        let lane = usize::from(span.lane);
        let Some(queue) = self.lanes.get_mut(lane) else {
            return self.heap.push(Reverse(Entry { key, event }));
        };
        if queue.is_empty() {
            self.heads[lane] = key;
        }
        queue.push_back((key, event));
    }

    /// Schedules an event at an instant, which must not have passed.
    ///
    /// # Panics
    /// If it has.
    pub fn at(&mut self, time: Ps, event: E) {
        assert!(time >= self.now, "an event at {time}, but it is {} already", self.now);
        let key = self.key(time);
        self.heap.push(Reverse(Entry { key, event }));
    }

    /// The next event; its time becomes now.
    pub fn pop(&mut self) -> Option<E> {
        let (mut first, mut lane) = (NOTHING, usize::MAX);
        for (index, head) in self.heads.iter().enumerate() {
            if *head < first {
                (first, lane) = (*head, index);
            }
        }
        if self.heap.peek().is_some_and(|Reverse(entry)| entry.key < first) {
            let Reverse(Entry { key, event }) = self.heap.pop()?;
            self.now = time_of(key);
            return Some(event);
        }
        let queue = self.lanes.get_mut(lane)?;
        let (key, event) = queue.pop_front()?;
        self.heads[lane] = queue.front().map_or(NOTHING, |(key, _)| *key);
        self.now = time_of(key);
        Some(event)
    }

    fn key(&mut self, time: Ps) -> Key {
        self.sequence += 1;
        Key::from(time.0) << 64 | Key::from(self.sequence)
    }

    /// Looks a span up: it gets a lane if one is left. Valid for these events only.
    pub fn span(&mut self, time: Ps) -> Span {
        let known = self.spans.iter().position(|other| *other == time);
        let lane = known.unwrap_or(self.spans.len());
        if known.is_none() && lane < LANES {
            self.spans.push(time);
            self.heads.push(NOTHING);
            self.lanes.push(VecDeque::new());
        }
        Span { time, lane: lane as u8 }
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
        /// However events are scheduled, more spans than lanes included, they come out by (time, sequence).
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
            prop_assert!(rest.windows(2).all(|pair| pair[0].0 < pair[1].0 || pair[0].1 < pair[1].1));
        }
    }
}
