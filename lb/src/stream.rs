//! The streams of a path set.

use std::ops::{Index, IndexMut};

/// An outgoing stream of a queue pair, valid for the path set that admitted it. Ids are small
/// numbers and are reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamId(u32);

impl StreamId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The allocator of stream ids.
#[derive(Debug, Default)]
pub(crate) struct StreamIds {
    /// All numbers below this were allocated.
    bound: u32,
    /// The numbers below `bound` that are free.
    free: Vec<u32>,
}

impl StreamIds {
    pub(crate) fn take(&mut self) -> StreamId {
        StreamId(self.free.pop().unwrap_or_else(|| {
            self.bound += 1;
            self.bound - 1
        }))
    }

    pub(crate) fn give_back(&mut self, stream: StreamId) {
        debug_assert!(stream.0 < self.bound, "{stream:?} belongs to another path set");
        debug_assert!(!self.free.contains(&stream.0), "{stream:?} was dismissed twice");
        self.free.push(stream.0);
    }
}

/// The state of a policy for each stream: a dense list, as long as the maximum number of concurrent
/// streams.
///
/// A policy fills it in [`PathPolicy::admit`](crate::PathPolicy::admit). Access to a stream that
/// was not admitted panics.
#[derive(Clone, Debug)]
pub struct PerStream<T>(Vec<T>);

impl<T> Default for PerStream<T> {
    fn default() -> Self {
        PerStream(Vec::new())
    }
}

impl<T> PerStream<T> {
    /// Sets the initial state of a stream, which replaces the state of an earlier stream with the
    /// same id.
    pub fn admit(&mut self, stream: StreamId, state: T) {
        match self.0.get_mut(stream.index()) {
            Some(left) => *left = state,
            None => {
                debug_assert_eq!(self.0.len(), stream.index(), "numbers are given out in a row");
                self.0.push(state);
            }
        }
    }
}

impl<T> Index<StreamId> for PerStream<T> {
    type Output = T;

    fn index(&self, stream: StreamId) -> &T {
        &self.0[stream.index()]
    }
}

impl<T> IndexMut<StreamId> for PerStream<T> {
    fn index_mut(&mut self, stream: StreamId) -> &mut T {
        &mut self.0[stream.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_with_a_state_of_its_own() {
        let (mut ids, mut states) = (StreamIds::default(), PerStream::default());
        let [a, b] = [ids.take(), ids.take()];
        states.admit(a, 'a');
        states.admit(b, 'b');
        ids.give_back(a);
        let c = ids.take();
        assert_eq!(c, a);
        states.admit(c, 'c');
        assert_eq!((states[c], states[b]), ('c', 'b'));
        assert_ne!(ids.take(), b);
    }
}
