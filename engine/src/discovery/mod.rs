//! Path discovery: the routes that source ports take.
//!
//! Switches that hash (ECMP) spread 64 source ports unevenly over 4 links. Discovery finds the
//! routes without root and without help of the switches, in the manner of Paris traceroute
//! (Augustin et al., IMC 2006). Probes are UDP datagrams with the source port and the destination
//! of the later data, so every hash of addresses and ports sends them the same way. Their time to
//! live ends at one router after the other. Each router reports that by ICMP, which discovery reads
//! from the socket's error queue.
//!
//! Discovery cannot see routers that do not answer or that quote less of the probe than its payload
//! (RFC 792 asks for 8 bytes, RFC 1812 and Linux for more), parallel links between two routers that
//! use one address on both, and choices below IP (bonds, tunnels). A router whose address differs
//! from one answer to the next splits one route into two.

mod asked;
mod batch;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod map;
mod port;
mod probe;
mod trace;
mod ways;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use braid_transport::{LocalAddr, TimerError};
pub use braid_wire::PathId;

use self::batch::{Batch, Survey};
pub use self::map::{PathMap, Way};
use self::trace::Trace;
use crate::clock::deadline;
use crate::link::udp::canonical;

/// The largest number of paths probed at a time. Each needs two sockets.
const BATCH: usize = 64;
/// Time between two rounds of repeated probes. Routers that limit their answers allow about one a
/// second (Linux: `icmp_ratelimit`, 1000 ms).
const REST: Duration = Duration::from_millis(500);
/// Time without progress after which a rate limit no longer explains missing answers.
const HOPELESS: Duration = Duration::from_secs(4);

/// The configuration of path discovery.
///
/// ```no_run
/// use std::time::Duration;
///
/// use braid::{DiscoveryConfig, PathId, discover};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let patience = Duration::from_secs(3);
/// let how = DiscoveryConfig { max_ttl: 4, patience, ..Default::default() };
/// let (to, from) = ("192.0.2.7:4791".parse()?, "0.0.0.0".parse()?);
/// let map = discover(to, from, (0..16).map(PathId::new), how)?;
/// println!("{} ways, {} ports without an answer", map.ways.len(), map.unanswered);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiscoveryConfig {
    /// The largest number of hops. Default: 16.
    pub max_ttl: u8,
    /// Time to wait for an answer. The wait is shorter once the usual time of answers is known.
    /// Default: 200 ms.
    pub timeout: Duration,
    /// The number of probes to a hop that does not answer. Default: 3.
    pub tries: u32,
    /// The shortest time between two probes. All probes may end at the same router, whose answers
    /// cost it time and are limited (a Linux router sends 1000 to 10,000 a second). Default: 1 ms.
    pub spacing: Duration,
    /// The total time of repeated probes to hops that tell routes apart, if routers limit their
    /// answers. Default: 10 s.
    pub patience: Duration,
}

impl Default for DiscoveryConfig {
    fn default() -> Self {
        DiscoveryConfig {
            max_ttl: 16,
            timeout: Duration::from_millis(200),
            tries: 3,
            spacing: Duration::from_millis(1),
            patience: Duration::from_secs(10),
        }
    }
}

impl DiscoveryConfig {
    fn check(&self) -> Result<(), TimerError> {
        TimerError::check("timeout", self.timeout, Duration::ZERO)?;
        TimerError::check("spacing", self.spacing, Duration::ZERO)?;
        TimerError::check("patience", self.patience, Duration::ZERO)
    }
}

/// The reason why discovery failed. A destination without answers is no error, but a map without
/// routes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The destination has no port.
    #[error("{to} has no port; give the one that the peer's engine listens on")]
    NoDestinationPort {
        /// The destination.
        to: SocketAddr,
    },
    /// The addresses have different IP versions.
    #[error("{to} cannot be reached from {from}; both have to be IPv4, or both IPv6")]
    OtherFamily {
        /// The destination.
        to: SocketAddr,
        /// The local address.
        from: IpAddr,
    },
    /// This machine has no route to the destination, or forbids it.
    #[error(
        "{to} cannot be reached from here: {source}; check the address, the routes and the firewall"
    )]
    NoRoute {
        /// The destination.
        to: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A router or this machine reports that the destination is unreachable, and no path reached
    /// it.
    #[error(
        "{to} cannot be reached: {by} says so; check that the host is up and its port not \
         forbidden there"
    )]
    Unreachable {
        /// The destination.
        to: SocketAddr,
        /// The reporting router, or this machine if a neighbour does not answer.
        by: IpAddr,
    },
    /// A time of the configuration is out of range.
    #[error(transparent)]
    Timer(#[from] TimerError),
    /// The source port of a path cannot be used.
    #[error("path {path} cannot be probed: {source}")]
    Port {
        /// The number of the path.
        path: u16,
        /// The error of the system.
        source: io::Error,
    },
}

/// Discovers the routes of `paths` from local address `from` to `to`, the address of a peer's
/// engine (which need not run).
///
/// The source ports are those of an engine bound to `from`. `0.0.0.0` and `::` stand for any
/// address. An engine on this machine may use the ports at the same time. A second discovery of the
/// same paths to the same destination would take answers from the first.
///
/// The call blocks for about a second, and for up to about [`DiscoveryConfig::patience`] more if
/// routers limit their answers. Give it a thread of its own.
///
/// # Errors
///
/// `to` has no port or another IP version than `from`; there is no route; the network reports that
/// there is no such host; a source port is in use; or there is no socket left.
pub fn discover(
    to: SocketAddr,
    from: IpAddr,
    paths: impl IntoIterator<Item = PathId>,
    config: DiscoveryConfig,
) -> Result<PathMap, DiscoveryError> {
    discover_from(to, LocalAddr { ip: Some(from), ..LocalAddr::default() }, paths, config)
}

/// Discovers the routes to the first of a host's addresses that can be reached, see [`discover`]
/// and [`crate::resolve`].
///
/// # Errors
/// As for [`discover`], for the last address.
///
/// # Panics
/// Panics if there is no address.
pub fn discover_any(
    to: &[SocketAddr],
    from: IpAddr,
    paths: impl IntoIterator<Item = PathId>,
    config: DiscoveryConfig,
) -> Result<PathMap, DiscoveryError> {
    let paths: Vec<PathId> = paths.into_iter().collect();
    let (last, others) = to.split_last().expect("a host has an address");
    for to in others {
        match discover(*to, from, paths.iter().copied(), config) {
            Err(
                DiscoveryError::OtherFamily { .. }
                | DiscoveryError::NoRoute { .. }
                | DiscoveryError::Unreachable { .. },
            ) => {}
            other => return other,
        }
    }
    discover(*last, from, paths, config)
}

/// Discovers by the interface and address that an engine sends from. Without an address, from any.
pub(crate) fn discover_from(
    to: SocketAddr,
    from: LocalAddr,
    paths: impl IntoIterator<Item = PathId>,
    config: DiscoveryConfig,
) -> Result<PathMap, DiscoveryError> {
    let start = Instant::now();
    config.check()?;
    let to = canonical(to);
    let local = local_address(from.ip.unwrap_or(Ipv6Addr::UNSPECIFIED.into()), to)?;
    let paths: BTreeSet<PathId> = paths.into_iter().collect();
    let mut traces: Vec<Trace> =
        paths.into_iter().map(|path| Trace::new(path, config.max_ttl)).collect();
    let mut survey = Survey::new(config, local, to).by_interface(from.interface);
    for batch in traces.chunks_mut(BATCH) {
        Batch::open(&mut survey, batch.iter_mut())?.sweep()?;
        if batch.iter().all(|trace| trace.is_silent()) {
            // A destination that is silent about so many paths is silent about the others, too.
            break;
        }
    }
    ask_again(&mut survey, &mut traces)?;
    let refusal = traces.iter().find_map(|trace| trace.refused_by);
    if let (Some(by), false) = (refusal, traces.iter().any(|trace| trace.reached)) {
        return Err(DiscoveryError::Unreachable { to, by });
    }
    let ways = ways::sort(&traces, to.ip()).ways;
    let unanswered = traces.len() - ways.iter().map(|way| way.ports.len()).sum::<usize>();
    let took = start.elapsed();
    tracing::debug!(%to, ways = ways.len(), unanswered, ?took, "paths discovered");
    Ok(PathMap { to, ways, unanswered, took })
}

/// Repeats probes of paths that fit several routes, to the hops that would decide, until no such
/// path is left or no answer is expected.
fn ask_again(survey: &mut Survey, traces: &mut [Trace]) -> Result<(), DiscoveryError> {
    let end = deadline(survey.config.patience);
    let (mut left, mut progress) = (usize::MAX, Instant::now());
    for round in 0.. {
        let mut doubtful = ways::sort(traces, survey.to.ip()).doubtful;
        if doubtful.len() < left {
            (left, progress) = (doubtful.len(), Instant::now());
        }
        if doubtful.is_empty() || Instant::now() >= end || progress.elapsed() >= HOPELESS {
            break;
        }
        let turn = round * BATCH % doubtful.len();
        doubtful.rotate_left(turn);
        doubtful.truncate(BATCH);
        doubtful.sort_unstable();
        ask_once(survey, traces, &doubtful, end)?;
    }
    Ok(())
}

/// One round: the contested hops of some traces, given by ascending index.
fn ask_once(
    survey: &mut Survey,
    traces: &mut [Trace],
    doubtful: &[(usize, Vec<u8>)],
    end: Instant,
) -> Result<(), DiscoveryError> {
    let rested = end.min(Instant::now() + REST);
    let asked = traces.iter_mut().enumerate();
    let asked = asked.filter(|(index, _)| doubtful.iter().any(|(asked, _)| asked == index));
    let mut batch = Batch::open(survey, asked.map(|(_, trace)| trace))?;
    let contested = (0..).zip(doubtful);
    let probes: Vec<(usize, u8)> = contested
        .flat_map(|(path, (_, contested))| contested.iter().map(move |&ttl| (path, ttl)))
        .collect();
    batch.probe(&probes)?;
    batch.listen_until(rested)
}

/// The local address of an engine bound to `from`, without the port.
fn local_address(from: IpAddr, to: SocketAddr) -> Result<SocketAddr, DiscoveryError> {
    if to.port() == 0 {
        return Err(DiscoveryError::NoDestinationPort { to });
    }
    let any = from.is_unspecified();
    match (from.to_canonical(), to) {
        (IpAddr::V4(_), SocketAddr::V6(_)) if any => Ok((Ipv6Addr::UNSPECIFIED, 0).into()),
        // As in the engine: one socket for both versions, or for IPv4 only if there is no IPv6.
        (IpAddr::V6(_), SocketAddr::V4(_)) if any => {
            let both: SocketAddr = (Ipv6Addr::UNSPECIFIED, 0).into();
            let has_ipv6 = UdpSocket::bind(both).is_ok();
            Ok(if has_ipv6 { both } else { (Ipv4Addr::UNSPECIFIED, 0).into() })
        }
        (IpAddr::V4(ip), SocketAddr::V4(_)) => Ok((ip, 0).into()),
        (IpAddr::V6(ip), SocketAddr::V6(to)) => {
            // Both ends of a link-local path are on the same link.
            Ok(SocketAddrV6::new(ip, 0, 0, to.scope_id()).into())
        }
        _ => Err(DiscoveryError::OtherFamily { to, from }),
    }
}

#[cfg(test)]
mod tests;
