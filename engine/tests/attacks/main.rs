//! Who harms a connection: peers that lie, strangers, and somebody between two ends that have keys.
//! `cargo xtask flood` runs them with more of each.

mod forger;
mod keyed;
mod lying;
#[path = "../pair/mod.rs"]
mod pair;
#[path = "../relay/mod.rs"]
mod relay;
#[path = "../scripted/mod.rs"]
mod scripted;
mod strangers;
