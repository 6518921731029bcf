//! Streams as a path set knows them.

use std::ops::{Index, IndexMut};

/// One outgoing stream of a queue pair: a small number that is given out again once its stream is gone.
///
/// It belongs to the path set that admitted it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamId(u32);

impl StreamId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The numbers that are given out.
#[derive(Debug, Default)]
pub(crate) struct StreamIds {
    /// Numbers below this have been given out.
    bound: u32,
    /// Those of them that are free again.
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
        debug_assert!(stream.0 < self.bound, "{stream:?} is of another path set");
        debug_assert!(!self.free.contains(&stream.0), "{stream:?} was dismissed twice");
        self.free.push(stream.0);
    }
}

/// What a policy keeps for each stream: a list without gaps, as long as there have been streams at a time.
///
/// A policy fills it in [`PathPolicy::admit`](crate::PathPolicy::admit). Looking up a stream that was not admitted
/// panics.
#[derive(Clone, Debug)]
pub struct PerStream<T>(Vec<T>);

impl<T> Default for PerStream<T> {
    fn default() -> Self {
        PerStream(Vec::new())
    }
}

impl<T> PerStream<T> {
    /// What a stream begins with; in the place of what an earlier one of the same number has left.
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
