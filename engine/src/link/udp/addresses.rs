//! The forms of an address: IPv4, IPv6, and IPv4 mapped into IPv6.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::SockAddr;

/// Maps an IPv4 address that is embedded in IPv6 back to IPv4.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), addr.port()),
        IpAddr::V6(_) => addr,
    }
}

/// The local address for sending to hosts of `to`'s version, for a link that receives at `local`.
/// `[::]` receives both versions and sends each from sockets of its own version. Otherwise the
/// kernel would look up the IPv4 route for every batch of an IPv6 socket, connected or not.
pub(crate) fn of_version(local: SocketAddr, to: IpAddr) -> SocketAddr {
    match local.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() && to.is_ipv4() => {
            (Ipv4Addr::UNSPECIFIED, local.port()).into()
        }
        _ => local,
    }
}

/// Maps `to` to the form that a link at `local` can reach.
pub(super) fn reachable(local: SocketAddr, to: SocketAddr) -> io::Result<SocketAddr> {
    if to.port() == 0 {
        return Err(invalid(format!("{to} has no port")));
    }
    let to = canonical(to);
    if local.is_ipv4() == to.is_ipv4() || local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        return Ok(to);
    }
    Err(invalid(format!("{to} cannot be reached from {local}")))
}

/// Maps a reachable destination to the form of the receiving socket at `local`.
pub(super) fn for_receiver(local: SocketAddr, to: SocketAddr) -> SockAddr {
    match to {
        SocketAddr::V4(to) if local.is_ipv6() => {
            SocketAddr::new(to.ip().to_ipv6_mapped().into(), to.port()).into()
        }
        to => to.into(),
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
