//! A bounded ring that many threads push to and that is looked into far more often than it has
//! anything.

use crossbeam_queue::ArrayQueue;

/// As [`ArrayQueue`], but a look into an empty ring costs two loads. There it costs a full memory
/// fence, 10 ns and more, and every turn of a worker and of who polls looks into several.
pub(crate) struct Ring<T>(ArrayQueue<T>);

impl<T> Ring<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Ring(ArrayQueue::new(capacity))
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Gives the element back if there is no room.
    pub(crate) fn push(&self, element: T) -> Result<(), T> {
        self.0.push(element)
    }

    /// The oldest element. One whose push happened before this call is seen; one that is pushed
    /// just now may be missed.
    pub(crate) fn pop(&self) -> Option<T> {
        if self.0.is_empty() { None } else { self.0.pop() }
    }
}
