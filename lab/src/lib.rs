//! A leaf-spine fabric of network namespaces: hosts, switches, links with a rate, a queue and a
//! delay, and trouble on command.
//!
//! Everything is made inside namespaces of its own; the machine's own network is not touched. A
//! fabric is either this process's, and vanishes with the [`Fabric`] value, or it stands until
//! somebody takes it down ([`Owner`]). `docs/fabric.md` shows the topology and every command.
//!
//! [`emulator`] makes smaller networks whose bottleneck is exact, for congestion control; [`VethPair`] two hosts with nothing between
//! them, for what machines can do at all.
//!
//! Links with a delay pass through a relay process (this kernel may lack netem). It is the current
//! executable again, called with [`relay::SUBCOMMAND`] and the fabric's name: a program that plans
//! delays must answer these arguments with [`relay::main`].

#![forbid(unsafe_code)]

#[cfg(feature = "charts")]
pub mod charts;
mod configure;
mod counters;
pub mod emulator;
mod error;
mod fabric;
mod layout;
mod listener;
mod median;
mod namespace;
mod netns;
#[cfg(feature = "pages")]
pub mod pages;
mod plan;
pub mod process;
mod rails;
mod rate;
pub mod relay;
mod remove;
mod state;
pub mod table;
mod tools;
pub mod traffic;
mod trouble;
mod veth;

pub use counters::{LinkCount, Traffic};
pub use error::FabricError;
pub use fabric::{Fabric, Owner};
pub use layout::Host;
pub use listener::{wait_for_listener, wait_for_port, wait_until};
pub use median::median;
pub use netns::Namespace;
pub use plan::{Plan, Routing, parse_delay};
pub use rails::{RailFabric, RailPlan, command_on_domain, cut_rail};
pub use rate::Rate;
pub use remove::{down, remove_own};
pub use trouble::{Condition, Trouble, Where};
pub use veth::VethPair;
