//! The queues of the ports.
//!
//! All queues of a fabric share one store. The place that was freed last is used first, because it
//! is still in the cache. The store is as large as the most packets that waited at once. A ring per
//! port would use memory for the most that ever waited at that port, and would go round through all
//! of it.

use crate::packet::Packet;
use crate::prefetch;

/// The packets in all queues.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    places: Vec<Place>,
    /// The place that was freed last. The other free places are linked behind it like a queue.
    free: u32,
}

/// A FIFO queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
}

/// A place in the store: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Place {
    packet: Packet,
    next: u32,
}

/// The index of no place.
const NONE: u32 = u32::MAX;

impl Queue {
    /// The empty queue.
    pub(crate) const EMPTY: Queue = Queue { first: NONE, last: NONE };

    /// Appends a packet and returns it for changes. It is copied in one piece.
    #[inline(always)]
    pub(crate) fn push<'a>(&mut self, packet: &Packet, waiting: &'a mut Waiting) -> &'a mut Packet {
        let place = waiting.put(packet);
        match self.first {
            NONE => self.first = place,
            _ => waiting.places[self.last as usize].next = place,
        }
        self.last = place;
        &mut waiting.places[place as usize].packet
    }

    /// Whether no packet waits.
    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.first == NONE
    }

    /// Returns the place of the first packet; none if no packet waits.
    #[inline(always)]
    pub(crate) fn first(self) -> usize {
        self.first as usize
    }

    /// Removes and returns the first packet.
    ///
    /// # Panics
    /// Panics if the queue is empty.
    #[inline(always)]
    pub(crate) fn pop(&mut self, waiting: &mut Waiting) -> Packet {
        let Waiting { places, free } = waiting;
        let place = &mut places[self.first as usize];
        (self.first, place.next, *free) = (place.next, *free, self.first);
        place.packet
    }

    /// Returns the last packet.
    pub(crate) fn last(self, waiting: &mut Waiting) -> Option<&mut Packet> {
        match self.first {
            NONE => None,
            _ => Some(&mut waiting.places[self.last as usize].packet),
        }
    }
}

impl Waiting {
    /// Creates an empty store.
    pub(crate) fn new() -> Waiting {
        Waiting { places: Vec::new(), free: NONE }
    }

    /// Requests a place.
    #[inline(always)]
    pub(crate) fn expect(&self, place: usize) {
        prefetch::element(&self.places, place);
    }

    #[inline(always)]
    fn put(&mut self, packet: &Packet) -> u32 {
        let free = self.free;
        match self.places.get_mut(free as usize) {
            Some(place) => {
                (self.free, place.next, place.packet) = (place.next, NONE, *packet);
                free
            }
            None => self.put_in_new_place(packet),
        }
    }

    #[cold]
    #[inline(never)]
    fn put_in_new_place(&mut self, packet: &Packet) -> u32 {
        self.places.push(Place { packet: *packet, next: NONE });
        self.places.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::packet::Class;

    #[test]
    fn a_place_is_a_cache_line() {
        assert_eq!(size_of::<Place>(), 64);
    }

    proptest! {
        /// Queues that share a store are independent, and the store holds no more places than
        /// packets waited at once.
        #[test]
        fn each_queue_is_first_in_first_out(
            calls in prop::collection::vec((0_usize..3, prop::bool::weighted(0.6)), 1..200),
        ) {
            let mut waiting = Waiting::new();
            let mut queues = [Queue::EMPTY; 3];
            let mut expected = [const { VecDeque::new() }; 3];
            let mut most = 0;
            for (number, (index, pushes)) in (0_u32..).zip(calls) {
                if pushes {
                    let packet = Packet::new(number, 0, 0, Class::Data, 64);
                    queues[index].push(&packet, &mut waiting).tag = number;
                    let packet = Packet { tag: number, ..packet };
                    expected[index].push_back(packet);
                } else {
                    prop_assert_eq!(queues[index].is_empty(), expected[index].is_empty());
                    if let Some(packet) = expected[index].pop_front() {
                        prop_assert_eq!(queues[index].pop(&mut waiting), packet);
                    }
                }
                let last = queues[index].last(&mut waiting).map(|packet| *packet);
                prop_assert_eq!(last, expected[index].back().copied());
                most = most.max(expected.iter().map(VecDeque::len).sum());
            }
            prop_assert_eq!(waiting.places.len(), most);
        }
    }
}
