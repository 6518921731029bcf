//! The handshakes between threads that make work visible and threads that may sleep.
//!
//! Both sides follow Dekker's rule. One side makes its work visible and then checks whether a
//! thread sleeps. The other announces that it sleeps and then looks for work once more. With a
//! sequentially consistent fence between the two steps of each side, at least one of them sees the
//! other. So no wake-up is lost, and a poster whose peer is awake pays for a fence and a load.

mod arming;
mod event;
mod sleepers;
mod waiters;

pub(crate) use arming::{Arming, Interest};
pub(crate) use event::Event;
pub(crate) use sleepers::Sleepers;
pub(crate) use waiters::Waiters;

/// The parts of the models.
#[cfg(all(test, loom))]
mod model;
