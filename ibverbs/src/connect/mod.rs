//! How two queue pairs find each other that programs have named to one another: by GID and number alone.
//!
//! A number leads to its process (see [`crate::numbers`]). Of the two ends, the one whose (GID, number) is the smaller asks, as soon
//! as its program has moved it to RTR; the other answers once it is in RTR, too, and names the one that asks. Who comes
//! too early is kept waiting for a moment, or asks again. One thread for each open device does all that.

mod attempts;
pub(crate) mod control;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
pub(crate) mod hello;
pub(crate) mod inbox;
pub(crate) mod thread;
mod watch;
