//! Why there is no engine.

use std::io;
use std::net::{IpAddr, SocketAddr};

use braid_keys::KEY_PACKETS_LOG2;
use braid_lb::PathsError;
use braid_transport::TimerError;

use crate::config::MAX_WORKERS;
use crate::link::faults::FaultsError;
use crate::link::remedy;
use crate::link::xdp::XdpSetupError;
use crate::observe::EndpointError;
use crate::verbs::VerbsSetupError;

/// Why an engine was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The receiving port.
    #[error("cannot receive on {addr}: {source}; {}", remedy(source))]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Rails that cannot be used together.
    #[error("the rails {rails:?} cannot be used: {why}")]
    Rails {
        /// The address of each, `bind`'s first.
        rails: Vec<IpAddr>,
        /// What is wrong with them.
        why: &'static str,
    },
    /// A second address that cannot be used beside `bind`'s.
    #[error("{second} cannot be received at beside {first}: {why}")]
    SecondAddr {
        /// `bind`'s.
        first: IpAddr,
        /// The other.
        second: IpAddr,
        /// What is wrong with them.
        why: &'static str,
    },
    /// The ports to send from.
    #[error("cannot open the {count} source ports of the paths: {source}; {}", remedy(source))]
    Paths {
        /// How many were asked for.
        count: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A number of paths that cannot be.
    #[error(transparent)]
    PathCount(#[from] PathsError),
    /// A number of threads that cannot be.
    #[error(
        "an engine cannot run {count} threads; take 1 to {MAX_WORKERS}, or let the application make progress"
    )]
    Threads {
        /// What was asked for.
        count: usize,
    },
    /// A time out of its range.
    #[error(transparent)]
    Timer(#[from] TimerError),
    /// A packet without payload.
    #[error(
        "`mtu` is 0: a packet has to hold at least 1 byte; leave it unset for the largest that fits"
    )]
    Mtu,
    /// Discovery where there is nothing to discover.
    #[error("`discover` finds ways over UDP; this datapath has none: leave it off")]
    Discover,
    /// A key where NICs place payloads.
    #[error(
        "there are no keyed connections over verbs: the NIC would write to memory what nobody has authenticated; take UDP, or no key"
    )]
    KeyOverVerbs,
    /// A key and nothing to use it with.
    #[error("`security` names no cipher; name at least one")]
    NoCipher,
    /// Keys that live too short or too long.
    #[error(
        "`key_packets_log2` is {log2}: a key lasts for 2 to the power of that many packets; take {least} to {most}",
        least = KEY_PACKETS_LOG2.start(), most = KEY_PACKETS_LOG2.end()
    )]
    KeyPackets {
        /// What was asked for.
        log2: u8,
    },
    /// Faults that cannot be.
    #[error(transparent)]
    Faults(#[from] FaultsError),
    /// Where its metrics are to be read.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// AF_XDP.
    #[error(transparent)]
    Xdp(#[from] XdpSetupError),
    /// The RDMA device.
    #[error(transparent)]
    Verbs(#[from] VerbsSetupError),
    /// The system refused a thread or a descriptor.
    #[error("the system refused a resource of the engine: {}; {}", .0, remedy(.0))]
    System(#[source] io::Error),
}
