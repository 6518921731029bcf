//! The queues of the ports.
//!
//! All queues of a fabric share one store. The place that was freed last is used first, because it
//! is still in the cache. The store is as large as the most packets that waited at once. A ring per
//! port would use memory for the most that ever waited at that port, and would go round through all
//! of it.

use crate::packet::Packet;

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

    /// Appends a packet.
    pub(crate) fn push(&mut self, packet: Packet, waiting: &mut Waiting) {
        let place = waiting.put(packet);
        match self.first {
            NONE => self.first = place,
            _ => waiting.places[self.last as usize].next = place,
        }
        self.last = place;
    }

    /// Removes the first packet.
    pub(crate) fn pop(&mut self, waiting: &mut Waiting) -> Option<Packet> {
        let place = self.first;
        if place == NONE {
            return None;
        }
        let Place { packet, next } = waiting.places[place as usize];
        waiting.places[place as usize].next = waiting.free;
        waiting.free = place;
        self.first = next;
        Some(packet)
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

    fn put(&mut self, packet: Packet) -> u32 {
        let place = Place { packet, next: NONE };
        match self.free {
            NONE => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
            free => {
                self.free = self.places[free as usize].next;
                self.places[free as usize] = place;
                free
            }
        }
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
                    queues[index].push(packet, &mut waiting);
                    expected[index].push_back(packet);
                } else {
                    prop_assert_eq!(queues[index].pop(&mut waiting), expected[index].pop_front());
                }
                let last = queues[index].last(&mut waiting).map(|packet| *packet);
                prop_assert_eq!(last, expected[index].back().copied());
                most = most.max(expected.iter().map(VecDeque::len).sum());
            }
            prop_assert_eq!(waiting.places.len(), most);
        }
    }
}
