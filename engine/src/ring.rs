//! A bounded ring that many threads push to. Pops usually find it empty.

use crossbeam_queue::ArrayQueue;

/// An [`ArrayQueue`] whose empty look-up costs two loads instead of a full memory fence of 10 ns
/// and more. Every turn of a worker and every poll looks into several rings.
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

    /// Pushes an element. Returns the element if there is no room.
    pub(crate) fn push(&self, element: T) -> Result<(), T> {
        self.0.push(element)
    }

    /// Pops the oldest element. A push that happened before this call is seen; a concurrent one may
    /// be missed.
    pub(crate) fn pop(&self) -> Option<T> {
        if self.0.is_empty() { None } else { self.0.pop() }
    }
}
