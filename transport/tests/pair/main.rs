//! A sender and a receiver whose packets the test carries by hand, in virtual time.

mod acks;
mod bursts;
mod controller;
mod copied;
mod crossing;
mod direct;
mod disconnect;
mod ecn;
mod end;
mod hosts;
#[path = "../kit/mod.rs"]
mod kit;
mod losses;
mod messages;
mod not_ready;
mod one_way;
mod pacing;
mod path_mtu;
mod patience;
mod pause;
mod receipt;
mod recorder;
mod refusals;
mod rnic;
mod setup;
mod stale;
mod strangers;
mod unreachable;
