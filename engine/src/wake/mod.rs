//! The handshakes between who makes something visible and who may be asleep.
//!
//! Both sides follow Dekker's rule. The one makes its work visible, then asks whether anybody
//! sleeps; the other says that it sleeps, then looks for work once more. With a sequentially
//! consistent fence between the two steps of each side at least one of them sees the other, so no
//! wake-up is lost, and a poster whose peer is awake pays for a fence and a load.

mod arming;
mod sleepers;
mod waiters;

pub(crate) use arming::{Arming, Interest};
pub(crate) use sleepers::{Event, Sleepers};
pub(crate) use waiters::Waiters;

/// What the models are made of.
#[cfg(all(test, loom))]
mod model;
