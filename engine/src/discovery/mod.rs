//! Path discovery: the routes that source ports take.
//!
//! Switches that hash (ECMP) spread 64 source ports unevenly over 4 links. Discovery finds the
//! routes without root and without help of the switches, in the manner of Paris traceroute
//! (Augustin et al., IMC 2006). Probes are UDP datagrams with the source port and the destination
//! of the later data, so every hash of addresses and ports sends them the same way. Their time to
//! live ends at one router after the other. Each router reports that by ICMP, which discovery reads
//! from the socket's error queue.
//!
//! Discovery cannot see routers that do not answer, or that quote less of the probe than its
//! payload (RFC 792 asks for 8 bytes, RFC 1812 and Linux for more). Nor can it see parallel links
//! between two routers that use one address on both, or choices below IP (bonds, tunnels). A router
//! whose address differs from one answer to the next splits one route into two.

mod sent_probes;
mod batch;
mod config;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod map;
mod port;
mod probe;
mod trace;
mod ways;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use braid_transport::LocalAddr;
pub use braid_wire::PathId;

use self::batch::{ProbeBatch, Survey};
pub use self::config::{DiscoveryConfig, DiscoveryError};
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
/// See [`DiscoveryError`].
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
        ProbeBatch::open(&mut survey, batch.iter_mut())?.sweep()?;
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
    let mut batch = ProbeBatch::open(survey, asked.map(|(_, trace)| trace))?;
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
