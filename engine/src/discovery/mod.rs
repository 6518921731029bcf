//! Which source port takes which way: path discovery.
//!
//! Switches that hash (ECMP) spread 64 source ports unevenly over 4 links. This finds out how,
//! without root and without help of the switches, as traceroute does and in the manner of Paris
//! traceroute (Augustin et al., IMC 2006): probes are UDP datagrams from exactly the source port to
//! exactly the destination that data will have, so every hash that looks at addresses and ports
//! sends them the same way. Their time to live ends at one router after the other, and each says so
//! (ICMP), which is read from the socket's error queue.
//!
//! What it cannot see: routers that do not answer, or that quote less of the probe than its payload
//! (RFC 792 asks for 8 bytes, RFC 1812 and Linux for more); parallel links between two routers that
//! name themselves alike on both; choices below IP (bonds, tunnels). A router that names itself
//! differently from one answer to the next makes two ways of one.

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

/// Most paths that are probed at a time; each needs two sockets.
const BATCH: usize = 64;
/// Between two rounds of asking again. Routers that limit their answers allow about one a second
/// (Linux: `icmp_ratelimit`, 1000 ms).
const REST: Duration = Duration::from_millis(500);
/// Without any progress for so long, it is not a limit that keeps routers from answering.
const HOPELESS: Duration = Duration::from_secs(4);

/// How to ask.
///
/// ```no_run
/// use std::time::Duration;
///
/// use braid::{DiscoveryConfig, PathId, discover};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let how = DiscoveryConfig { max_ttl: 4, patience: Duration::from_secs(3), ..Default::default() };
/// let (to, from) = ("192.0.2.7:4791".parse()?, "0.0.0.0".parse()?);
/// let map = discover(to, from, (0..16).map(PathId::new), how)?;
/// println!("{} ways, {} ports without an answer", map.ways.len(), map.unanswered);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiscoveryConfig {
    /// Most hops that are followed. Default: 16.
    pub max_ttl: u8,
    /// How long to wait for an answer; less once it is known how long answers take. Default: 200
    /// ms.
    pub timeout: Duration,
    /// How often to ask a hop that does not answer. Default: 3.
    pub tries: u32,
    /// Least time between two probes. They may all end at the same router, whose answers cost it
    /// time (and are limited: a Linux router sends 1000 to 10,000 a second in all). Default: 1 ms.
    pub spacing: Duration,
    /// How long in all to ask again for hops that tell ways apart, where routers limit their
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

/// Why nothing could be found out. That nobody answers is no error, but a map without ways.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// There is no port to probe.
    #[error("{to} has no port; give the one that the peer's engine listens on")]
    NoDestinationPort {
        /// The destination.
        to: SocketAddr,
    },
    /// IPv4 and IPv6.
    #[error("{to} cannot be reached from {from}; both have to be IPv4, or both IPv6")]
    OtherFamily {
        /// The destination.
        to: SocketAddr,
        /// The local address.
        from: IpAddr,
    },
    /// This machine knows no way there, or forbids it.
    #[error(
        "{to} cannot be reached from here: {source}; check the address, the routes and the firewall"
    )]
    NoRoute {
        /// The destination.
        to: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody on the way says that it goes no further, and no path got there.
    #[error(
        "{to} cannot be reached: {by} says so; check that the host is up and its port not forbidden there"
    )]
    Unreachable {
        /// The destination.
        to: SocketAddr,
        /// Who says so: a router, or this machine where a neighbour does not answer.
        by: IpAddr,
    },
    /// A time of its configuration that cannot be.
    #[error(transparent)]
    Timer(#[from] TimerError),
    /// The source port of a path cannot be used.
    #[error("path {path} cannot be probed: {source}")]
    Port {
        /// The path.
        path: u16,
        /// What the system said.
        source: io::Error,
    },
}

/// Finds out which of `paths` take which way from local address `from` to `to`, the address that a
/// peer's engine listens on (nobody needs to).
///
/// The source ports are those that an engine bound to `from` uses; `0.0.0.0` and `::` stand for any
/// address. An engine on this machine may use them at the same time; a second discovery of the same
/// paths to the same destination would take answers from the first.
///
/// Blocks for a second or so, and up to about [`DiscoveryConfig::patience`] more where routers
/// limit their answers: give it a thread of its own.
///
/// # Errors
///
/// `to` has no port or is not of the kind of `from`; there is no route, or nobody at that address
/// as far as the network says; a source port is taken, or there are no more sockets.
pub fn discover(
    to: SocketAddr,
    from: IpAddr,
    paths: impl IntoIterator<Item = PathId>,
    config: DiscoveryConfig,
) -> Result<PathMap, DiscoveryError> {
    discover_from(to, LocalAddr { ip: Some(from), interface: 0 }, paths, config)
}

/// As [`discover`], to the first of a host's addresses that can be reached, see [`crate::resolve`].
///
/// # Errors
/// As there, for the last of them.
///
/// # Panics
/// Without an address.
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

/// As [`discover`], by the interface that an engine sends by; without an address, from any.
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
            // Who says nothing about so many paths says nothing about the others.
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

/// Asks paths that fit several ways for the hops that would tell, until none is left or there is no
/// more hope.
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

/// One round: the contested hops of some traces (by index, ascending).
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

/// What an engine bound to `from` is bound to, port aside.
fn local_address(from: IpAddr, to: SocketAddr) -> Result<SocketAddr, DiscoveryError> {
    if to.port() == 0 {
        return Err(DiscoveryError::NoDestinationPort { to });
    }
    let any = from.is_unspecified();
    match (from.to_canonical(), to) {
        (IpAddr::V4(_), SocketAddr::V6(_)) if any => Ok((Ipv6Addr::UNSPECIFIED, 0).into()),
        // As the engine: one socket for both, or for IPv4 alone where there is no IPv6.
        (IpAddr::V6(_), SocketAddr::V4(_)) if any => {
            let both: SocketAddr = (Ipv6Addr::UNSPECIFIED, 0).into();
            let has_ipv6 = UdpSocket::bind(both).is_ok();
            Ok(if has_ipv6 { both } else { (Ipv4Addr::UNSPECIFIED, 0).into() })
        }
        (IpAddr::V4(ip), SocketAddr::V4(_)) => Ok((ip, 0).into()),
        (IpAddr::V6(ip), SocketAddr::V6(to)) => {
            // Both ends of a link-local way are on the same link.
            Ok(SocketAddrV6::new(ip, 0, 0, to.scope_id()).into())
        }
        _ => Err(DiscoveryError::OtherFamily { to, from }),
    }
}

#[cfg(test)]
mod tests;
