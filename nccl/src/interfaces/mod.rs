//! The network interfaces of this host and their addresses.

mod detection;
mod kind;
mod pattern;

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::Path;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

use detection::Unusable;

pub(crate) use detection::Detection;
pub(crate) use kind::Kind;
pub(crate) use pattern::Pattern;

/// An address of an interface that is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// The address with port 0, and with a scope if it is link-local.
    pub(crate) addr: SocketAddr,
    /// Length of the subnet prefix in bits.
    pub(crate) prefix: u32,
    /// The interface is the loopback device. Its address may lie outside 127.0.0.0/8: hosts that
    /// routers know by one address on several links assign it there.
    pub(crate) loopback: bool,
    pub(crate) kind: Kind,
    /// The reason why the address cannot be bound, if there is one.
    pub(crate) detection: Option<Detection>,
}

impl Interface {
    /// Returns whether an address is in the same subnet.
    pub(crate) fn has_neighbour(&self, ip: IpAddr) -> bool {
        let (own, other, width) = match (self.addr.ip(), ip) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits().into(), other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        let host_bits = width - self.prefix;
        let network = |ip: u128| ip.checked_shr(host_bits).unwrap_or(0);
        network(own) == network(other)
    }

    /// Returns whether the subnet has only this address.
    pub(crate) fn is_alone(&self) -> bool {
        self.prefix == if self.addr.is_ipv4() { 32 } else { 128 }
    }
}

/// Returns all addresses of interfaces that are up, in the system's order.
///
/// # Errors
/// If the system does not list them.
pub(crate) fn list() -> io::Result<Vec<Interface>> {
    let unusable = detection::unusable()?;
    Ok(getifaddrs()?.filter_map(|entry| interface(&entry, &unusable)).collect())
}

fn interface(entry: &InterfaceAddress, unusable: &Unusable) -> Option<Interface> {
    let running = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let (addr, prefix) = entry.address.as_ref().and_then(|address| socket_addr(address, entry))?;
    if !entry.flags.contains(running) {
        return None;
    }
    // An IPv4 address may have a label: the name, a colon and a suffix.
    let name = entry.interface_name.split(':').next()?.to_owned();
    let detection = match addr.ip() {
        IpAddr::V6(ip) => unusable.get(&(name.clone(), ip)).copied(),
        IpAddr::V4(_) => None,
    };
    let kind = kind::kind(Path::new("/sys/class/net"), &name);
    let loopback = entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
    Some(Interface { name, addr, prefix, loopback, kind, detection })
}

/// Returns the address and the prefix length of its subnet.
fn socket_addr(address: &SockaddrStorage, entry: &InterfaceAddress) -> Option<(SocketAddr, u32)> {
    let mask = entry.netmask.as_ref();
    if let Some(v4) = address.as_sockaddr_in() {
        let mask = mask.and_then(|mask| mask.as_sockaddr_in());
        let prefix = mask.map_or(32, |mask| mask.ip().to_bits().count_ones());
        return Some((SocketAddr::new(v4.ip().into(), 0), prefix));
    }
    let v6 = address.as_sockaddr_in6()?;
    let mask = mask.and_then(|mask| mask.as_sockaddr_in6());
    let prefix = mask.map_or(128, |mask| mask.ip().to_bits().count_ones());
    Some((SocketAddrV6::new(v6.ip(), 0, 0, v6.scope_id()).into(), prefix))
}

#[cfg(test)]
impl Interface {
    /// Creates an address with its prefix on a NIC or on `lo`.
    pub(crate) fn new(name: &str, addr: &str) -> Self {
        let (ip, prefix) = addr.split_once('/').unwrap_or((addr, "24"));
        Interface {
            name: name.to_owned(),
            addr: SocketAddr::new(ip.parse().unwrap(), 0),
            prefix: prefix.parse().unwrap(),
            loopback: name == "lo",
            kind: if name == "lo" { Kind::Virtual } else { Kind::Nic },
            detection: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_listed() {
        let all = list().unwrap();
        let loopback = all.iter().find(|one| one.addr.ip().is_loopback()).unwrap();
        assert!(loopback.loopback && loopback.kind == Kind::Virtual, "{loopback:?}");
        assert!(loopback.has_neighbour("127.3.2.1".parse().unwrap()) || loopback.addr.is_ipv6());
    }

    #[test]
    fn neighbours_are_in_one_subnet() {
        let near = |own: &str, other: &str| {
            Interface::new("eth0", own).has_neighbour(other.parse().unwrap())
        };
        assert!(near("10.1.2.3/16", "10.1.9.9") && !near("10.1.2.3/16", "10.2.2.3"));
        assert!(near("fd00::1/64", "fd00::9") && !near("fd00::1/64", "fd00:1::9"));
        assert!(near("10.1.2.3/0", "99.1.1.1") && near("fd00::1/0", "::1"));
        assert!(near("10.1.2.3/32", "10.1.2.3") && !near("10.1.2.3/32", "10.1.2.2"));
        assert!(!near("10.1.2.3/0", "fd00::1"));
        assert!(Interface::new("eth0", "10.1.2.3/32").is_alone());
        assert!(!Interface::new("eth0", "fd00::1/64").is_alone());
    }
}
