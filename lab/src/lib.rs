//! A leaf-spine fabric of network namespaces: hosts, switches, links with a rate, a queue and a
//! delay, and trouble on command.
//!
//! A fabric lives in network namespaces of its own and does not touch the network of the machine.
//! A fabric vanishes with the [`Fabric`] value or stands until a user takes it down ([`Owner`]).
//! `docs/fabric.md` shows the topology and every command.
//!
//! [`emulator`] makes smaller networks whose bottleneck is exact, for congestion control.
//! [`VethPair`] joins two hosts directly, for measurements of the machine.
//!
//! Links with a delay pass through a relay process, because the kernel may lack netem. The relay is
//! the current executable with the arguments [`relay::SUBCOMMAND`] and the name of the fabric. A
//! program that plans delays must answer these arguments with [`relay::main`].
//!
//! Further needs of experiments: child processes ([`process`]), aligned tables ([`table`]), figures
//! (`charts`), command lines and their pages (`pages`), traffic matrices ([`traffic`]).

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
