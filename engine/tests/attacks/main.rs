//! Attackers of a connection: peers that lie, strangers, and an attacker between two ends that have
//! keys. `cargo xtask flood` runs them with larger numbers.

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
