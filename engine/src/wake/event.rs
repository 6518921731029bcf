//! The event that a thread sleeps on.

use std::io;

/// An event that one thread sleeps on and others raise.
pub(crate) trait Event: Sized {
    /// Creates an event that is not raised.
    fn new() -> io::Result<Self>;
    /// Wakes the thread that sleeps on the event, now or later.
    fn raise(&self);
    /// Clears the event. Returns whether it was raised.
    fn clear(&self) -> bool;
}
