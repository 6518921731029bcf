//! Connecting queue pairs that programs know by GID and number alone.
//!
//! A number leads to a process (see [`crate::numbers`]). Of the two ends, the one with the smaller
//! (GID, number) asks as soon as its program has moved it to RTR. The other end answers once it is
//! in RTR too and its program has named the asking end. A request that comes too early waits for a
//! moment, and then the asking end repeats it. Each open device has one thread for this.

mod attempts;
pub(crate) mod control;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub(crate) mod hello;
pub(crate) mod inbox;
pub(crate) mod probe;
pub(crate) mod thread;
mod watch;
