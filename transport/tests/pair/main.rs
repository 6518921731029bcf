//! A sender and a receiver whose packets the test carries by hand, in virtual time.

mod acks;
mod blind;
#[path = "../everything/mod.rs"]
mod everything;
mod hosts;
mod losses;
mod not_ready;
mod pacing;
mod rnic;
