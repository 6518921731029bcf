//! Degradations of a connection, which works but not as well as it could.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// A degradation of a connection. The connection works, but slower or less safely than its
/// configuration promises, because of something outside of it.
///
/// All connections to the same peer share their degradations. Each end knows its own: the list of
/// one end does not contain the reasons that keep the other from sending well. The text names in
/// one line the fallback, its cause and the remedy.
///
/// ```
/// use braid::{Engine, EngineConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bind = "127.0.0.1:0".parse()?;
/// # let engine = Engine::new(EngineConfig { bind, ..Default::default() })?;
/// for qp in engine.metrics().queue_pairs {
///     for degradation in &qp.degradations {
///         eprintln!("{}: {}: {degradation}", qp.number, degradation.name());
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Degradation {
    /// Packets from the source ports of the paths do not reach the peer, or its answers do not come
    /// back. Everything leaves from the receiving port, on one path.
    PathPortsBlocked {
        /// The rail.
        rail: usize,
        /// The number of paths that would be in use.
        paths: usize,
    },
    /// The kernel refuses segmentation offload (UDP GSO) towards the peer. Each datagram passes the
    /// kernel by itself.
    SegmentationRefused {
        /// The rail.
        rail: usize,
        /// The peer's address.
        to: IpAddr,
        /// The error of `sendmsg`.
        errno: i32,
    },
    /// A rail of the connection carries nothing.
    RailUnused {
        /// The rail.
        rail: usize,
        /// The peer's address on it.
        to: SocketAddr,
        /// The cause, as far as this host knows.
        cause: RailTrouble,
    },
    /// The interface of a rail's address does not carry its packets.
    RailMisrouted {
        /// The rail.
        rail: usize,
        /// The peer's address on it.
        to: SocketAddr,
        /// The cause.
        cause: Misrouting,
    },
    /// The network marks every packet as congested (ECN CE), however little is in flight, so marks
    /// are ignored.
    EcnAlwaysMarked {
        /// The rail.
        rail: usize,
    },
    /// The network drops ECN-capable packets, so packets leave without ECN.
    EcnDropped {
        /// The rail.
        rail: usize,
    },
    /// The path carries shorter datagrams than before, or than this host's link does.
    PathMtu {
        /// The rail.
        rail: usize,
        /// UDP payload bytes of the longest datagram that passes.
        datagram: u16,
        /// UDP payload bytes of the longest one that passed before, or that the link takes.
        expected: u16,
    },
    /// Connections of paths cannot be opened (over TCP). Their packets leave by the others.
    PathsUnconnected {
        /// The rail.
        rail: usize,
        /// The peer's address on it.
        to: SocketAddr,
        /// The number of paths that have a connection.
        open: usize,
        /// The number of paths that would be in use.
        paths: usize,
        /// The error of the last attempt.
        errno: i32,
    },
    /// Another datapath than the requested one carries the packets of a rail.
    DatapathUnavailable {
        /// The rail.
        rail: usize,
        /// The requested datapath.
        wanted: &'static str,
        /// The datapath in use.
        used: &'static str,
        /// The cause.
        cause: String,
    },
    /// The peer has fallen silent over the datapath of its connection. Its host accepts connections
    /// over another one, which new connections take.
    DatapathSilent {
        /// The rail.
        rail: usize,
        /// The peer's address on it.
        to: SocketAddr,
        /// The datapath of the connection.
        used: &'static str,
        /// The datapath of new connections.
        other: &'static str,
    },
    /// The system refuses a socket option that the connection can do without.
    SocketOptionRefused {
        /// The rail.
        rail: usize,
        /// The option, as in the manual pages.
        option: &'static str,
        /// The error of `setsockopt`.
        errno: i32,
        /// The effect of its absence.
        effect: &'static str,
    },
}

/// The reason why a rail carries nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RailTrouble {
    /// The peer has not answered on this rail since the connection was set up.
    NeverAnswered,
    /// Nothing arrives any more.
    Silent,
}

/// The reason why a rail's packets take another interface, or none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Misrouting {
    /// No route leads to the peer by the interface that has the rail's address.
    #[error(
        "no route leads there by {interface}, which has the rail's address, so that it leaves by \
         another interface; add a route, as with `ip route add ADDRESS dev {interface}`, or give \
         the rail the address of another interface"
    )]
    NoRoute {
        /// The interface.
        interface: String,
    },
    /// The interface drops packets whose source is reached by another interface.
    #[error(
        "{interface} drops what comes from there: its rp_filter is 1 (strict), and the route back \
         leaves by another interface; set it to 2, `sysctl net.ipv4.conf.{interface}.rp_filter=2`, \
         or add a rule that routes what leaves from the rail's address by {interface}"
    )]
    ReversePath {
        /// The interface.
        interface: String,
    },
}

impl Misrouting {
    /// Whether the rail carries nothing.
    pub(crate) fn is_grave(&self) -> bool {
        matches!(self, Misrouting::ReversePath { .. })
    }
}

impl Degradation {
    /// The short name for programs, such as `path-ports-blocked`. It never changes.
    pub fn name(&self) -> &'static str {
        match self {
            Degradation::PathPortsBlocked { .. } => "path-ports-blocked",
            Degradation::SegmentationRefused { .. } => "segmentation-refused",
            Degradation::RailUnused { .. } => "rail-unused",
            Degradation::RailMisrouted { .. } => "rail-misrouted",
            Degradation::EcnAlwaysMarked { .. } => "ecn-always-marked",
            Degradation::EcnDropped { .. } => "ecn-dropped",
            Degradation::PathMtu { .. } => "path-mtu",
            Degradation::PathsUnconnected { .. } => "paths-unconnected",
            Degradation::DatapathUnavailable { .. } => "datapath-unavailable",
            Degradation::DatapathSilent { .. } => "datapath-silent",
            Degradation::SocketOptionRefused { .. } => "socket-option-refused",
        }
    }

    /// The rail of the connection, from 0.
    pub fn rail(&self) -> usize {
        match *self {
            Degradation::PathPortsBlocked { rail, .. }
            | Degradation::SegmentationRefused { rail, .. }
            | Degradation::RailUnused { rail, .. }
            | Degradation::RailMisrouted { rail, .. }
            | Degradation::EcnAlwaysMarked { rail }
            | Degradation::EcnDropped { rail }
            | Degradation::PathMtu { rail, .. }
            | Degradation::PathsUnconnected { rail, .. }
            | Degradation::DatapathUnavailable { rail, .. }
            | Degradation::DatapathSilent { rail, .. }
            | Degradation::SocketOptionRefused { rail, .. } => rail,
        }
    }
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let system = |errno: i32| io::Error::from_raw_os_error(errno);
        match self {
            Degradation::PathPortsBlocked { rail, paths } => write!(
                f,
                "rail {rail} uses 1 of {paths} paths: a firewall or NAT passes only packets of the \
                 receiving port; let UDP source ports 49152-65535 of both hosts pass"
            ),
            Degradation::SegmentationRefused { rail, to, errno } => write!(
                f,
                "rail {rail} sends datagrams one by one: sendmsg with UDP_SEGMENT to {to} failed \
                 ({}), as it does without checksum offload or with IPsec; look at `ethtool -k` of \
                 the device on that route",
                system(*errno)
            ),
            Degradation::RailUnused { rail, to, cause } => match cause {
                RailTrouble::NeverAnswered => write!(
                    f,
                    "rail {rail} carries nothing: {to} has never answered there; check the cabling \
                     and routes of both hosts, their firewalls, and that rp_filter is not 1"
                ),
                RailTrouble::Silent => write!(
                    f,
                    "rail {rail} carries nothing: {to} does not answer there any more; check the \
                     link and the routes of that rail"
                ),
            },
            Degradation::RailMisrouted { rail, to, cause } => {
                write!(f, "rail {rail} may carry nothing to {to}: {cause}")
            }
            Degradation::EcnAlwaysMarked { rail } => write!(
                f,
                "rail {rail} sends without ECN: the network marks every packet as congested (CE), \
                 whatever the load; correct the marking threshold of the switches, or the rule \
                 that rewrites TOS"
            ),
            Degradation::EcnDropped { rail } => write!(
                f,
                "rail {rail} sends without ECN: the network drops packets with ECN bits and passes \
                 those without; remove the rule that does so"
            ),
            Degradation::PathMtu { rail, datagram, expected } => write!(
                f,
                "rail {rail} sends datagrams of {datagram} bytes instead of {expected}: longer \
                 ones do not reach the peer; raise the MTU of the links behind the first hop, or \
                 lower that of this host's device"
            ),
            Degradation::PathsUnconnected { rail, to, open, paths, errno } => write!(
                f,
                "rail {rail} uses {open} of {paths} paths: no further connection to {to} can be \
                 opened ({}); {}",
                system(*errno),
                connection_remedy(*errno, *paths)
            ),
            Degradation::DatapathSilent { rail, to, used, other } => write!(
                f,
                "rail {rail} carries nothing: {to} does not answer over {used} any more, and its \
                 host accepts {other} connections there; connect again, which takes {other}, and \
                 let {used} pass in the firewalls of both hosts, or see whether the peer's process \
                 hangs"
            ),
            Degradation::DatapathUnavailable { rail, wanted, used, cause } => {
                write!(f, "rail {rail} uses {used} instead of {wanted}: {cause}")
            }
            Degradation::SocketOptionRefused { rail, option, errno, effect } => write!(
                f,
                "rail {rail} does without {option}, so {effect}: setsockopt failed ({}); use a \
                 kernel or sandbox that has it",
                system(*errno)
            ),
        }
    }
}

/// The remedy for a connection that cannot be opened for this reason.
fn connection_remedy(errno: i32, paths: usize) -> String {
    match errno {
        libc::EMFILE => format!(
            "each peer takes {} descriptors on each rail: raise the limit of open files of this \
             process (`ulimit -n`), or use fewer paths",
            paths + 1
        ),
        libc::ENFILE => "this host has no room for another open file: raise `fs.file-max`".into(),
        libc::EADDRNOTAVAIL => "no source port is free: widen `net.ipv4.ip_local_port_range`, or \
                                use fewer paths"
            .into(),
        _ => "look for a firewall or a limit on connections between the hosts".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kebab_case_and_texts_one_line() {
        let to = ([10, 0, 0, 1], 4791).into();
        let cause = RailTrouble::NeverAnswered;
        let all = [
            Degradation::PathPortsBlocked { rail: 1, paths: 16 },
            Degradation::SegmentationRefused {
                rail: 1,
                to: [10, 0, 0, 1].into(),
                errno: libc::EIO,
            },
            Degradation::RailUnused { rail: 1, to, cause },
            Degradation::RailUnused { rail: 1, to, cause: RailTrouble::Silent },
            Degradation::RailMisrouted {
                rail: 1,
                to,
                cause: Misrouting::ReversePath { interface: "eth1".into() },
            },
            Degradation::EcnAlwaysMarked { rail: 1 },
            Degradation::EcnDropped { rail: 1 },
            Degradation::PathMtu { rail: 1, datagram: 1472, expected: 8972 },
            Degradation::PathsUnconnected { rail: 1, to, open: 3, paths: 16, errno: libc::EMFILE },
            Degradation::DatapathUnavailable {
                rail: 1,
                wanted: "AF_XDP",
                used: "UDP sockets",
                cause: "no route".into(),
            },
            Degradation::DatapathSilent { rail: 1, to, used: "UDP", other: "TCP" },
            Degradation::SocketOptionRefused {
                rail: 1,
                option: "IP_TOS",
                errno: libc::EOPNOTSUPP,
                effect: "packets carry no ECN bits",
            },
        ];
        for one in all {
            let text = one.to_string();
            assert_eq!(one.rail(), 1);
            assert!(text.starts_with("rail 1 ") && !text.contains('\n'), "{text}");
            let is_kebab = |letter: char| letter.is_ascii_lowercase() || letter == '-';
            assert!(one.name().chars().all(is_kebab), "{}", one.name());
        }
    }
}
