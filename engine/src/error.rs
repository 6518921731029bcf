//! Errors of creating an engine.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use braid_keys::KEY_PACKETS_LOG2;
use braid_lb::PathsError;
use braid_transport::{QpConfig, TimerError};

use crate::link::faults::FaultsError;
use crate::link::remedy;
use crate::link::xdp::XdpSetupError;
use crate::observe::EndpointError;
use crate::verbs::VerbsSetupError;

/// The largest number of workers of an engine.
pub(crate) const MAX_WORKERS: usize = 64;
/// The possible path quanta. The upper limit is the largest window of a queue pair.
pub(crate) const QUANTA: RangeInclusive<u32> = 1..=QpConfig::MAX_WINDOW as u32;

/// The reason why an engine was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The receiving port could not be bound.
    #[error("cannot receive on {addr}: {source}; {}", remedy(source))]
    Bind {
        /// The requested address.
        addr: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The rails cannot be used together.
    #[error("the rails {rails:?} cannot be used: {why}")]
    Rails {
        /// The address of each rail, with `bind` first.
        rails: Vec<IpAddr>,
        /// The reason.
        why: &'static str,
    },
    /// The second address cannot be used beside `bind`.
    #[error("cannot receive on {second} beside {first}: {why}")]
    SecondAddr {
        /// The address of `bind`.
        first: IpAddr,
        /// The second address.
        second: IpAddr,
        /// The reason.
        why: &'static str,
    },
    /// The source ports of the paths could not be opened.
    #[error("cannot open the {count} source ports of the paths: {source}; {}", remedy(source))]
    Paths {
        /// The requested number of paths.
        count: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// The number of paths is out of range.
    #[error(transparent)]
    PathCount(#[from] PathsError),
    /// The path quantum is out of range.
    #[error(
        "invalid path quantum of {packets} packets; use {first} to {last}, the largest window",
        first = QUANTA.start(), last = QUANTA.end()
    )]
    Quantum {
        /// The quantum.
        packets: u32,
    },
    /// The number of threads is out of range.
    #[error(
        "an engine cannot run {count} threads; take 1 to {MAX_WORKERS}, or let the application \
         make progress"
    )]
    Threads {
        /// The requested number.
        count: usize,
    },
    /// A time is out of range.
    #[error(transparent)]
    Timer(#[from] TimerError),
    /// The largest payload is 0 bytes.
    #[error(
        "`mtu` is 0: a packet has to hold at least 1 byte; leave it unset for the largest that fits"
    )]
    Mtu,
    /// The datapath has no paths to discover.
    #[error(
        "`discover` finds the routes of UDP source ports, which this datapath lacks; leave it off"
    )]
    Discover,
    /// Destination groups and discovery exclude each other.
    #[error(
        "`discover` finds the routes to single hosts, and the hosts of a destination group share \
         their paths; leave off one of the two"
    )]
    DiscoverForGroups,
    /// The datapath cannot protect packets: a NIC places the payloads.
    #[error(
        "there are no keyed connections over verbs: the NIC would write unauthenticated data to \
         memory; take UDP, or no key"
    )]
    KeyOverVerbs,
    /// The configuration has a key, and the engine is built without keys.
    #[error(
        "this program is built without keyed connections; build it with the feature `keys` of \
         braid-rdma, or configure no key"
    )]
    KeysAbsent,
    /// The security configuration has a key and no cipher.
    #[error("`security` names no cipher; name at least one")]
    NoCipher,
    /// The lifetime of a packet key is out of range.
    #[error(
        "`key_packets_log2` is {log2}: a key lasts for 2 to the power of that many packets; \
         take {least} to {most}",
        least = KEY_PACKETS_LOG2.start(), most = KEY_PACKETS_LOG2.end()
    )]
    KeyPackets {
        /// The requested value.
        log2: u8,
    },
    /// The fault configuration is invalid.
    #[error(transparent)]
    Faults(#[from] FaultsError),
    /// The datapath has no place for injected faults.
    #[error(
        "`faults` are injected below UDP and inside one process, not below TCP connections, which \
         lose nothing; leave them off, or take the datapath `udp`"
    )]
    FaultsOverTcp,
    /// The metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// AF_XDP cannot be used.
    #[error(transparent)]
    Xdp(#[from] XdpSetupError),
    /// The RDMA device cannot be used.
    #[error(transparent)]
    Verbs(#[from] VerbsSetupError),
    /// The system refused a thread or a descriptor.
    #[error("the system refused a resource of the engine: {}; {}", .0, remedy(.0))]
    System(#[source] io::Error),
}
