//! All queue pairs towards one peer, and what they share: the peer's receive buffer, the timers,
//! and the detection of a dead peer.
//!
//! [`members`] is the endpoint itself. The modules before it hold its parts, and those after it the
//! remaining methods of [`Endpoint`].

mod max_rtt;
mod ring;
mod timers;
mod in_flight;
mod turns;
mod outputs;
mod ecn;
mod liveness;
mod path_mtu;
mod members;
mod schedule;
mod arrivals;
mod credit;
mod ecn_watch;
mod signs_of_life;
mod doubt;
mod path_mtu_search;

pub use self::ecn::EcnTrouble;
pub use self::members::Endpoint;
