//! The network interfaces of this host and their addresses.

use std::io;
use std::net::{SocketAddr, SocketAddrV6};
use std::str::FromStr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;

/// An address that can be bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// Port 0. With a scope where it is link-local.
    pub(crate) addr: SocketAddr,
    pub(crate) loopback: bool,
}

/// Names of interfaces, written as for `NCCL_SOCKET_IFNAME`: prefixes with commas between them;
/// `=` before the first makes them exact, `^` excludes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    exclude: bool,
    exact: bool,
    names: Vec<String>,
}

/// Not a list of names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "accepted: names of interfaces or their beginnings, with commas between them; before the first `=` for whole names, `^` for all but these"
)]
pub(crate) struct MalformedPattern;

impl FromStr for Pattern {
    type Err = MalformedPattern;

    fn from_str(text: &str) -> Result<Self, MalformedPattern> {
        let (exclude, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (exact, text) = text.strip_prefix('=').map_or((false, text), |rest| (true, rest));
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        let is_name = |name: &String| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '/')
        };
        if names.iter().all(is_name) {
            Ok(Pattern { exclude, exact, names })
        } else {
            Err(MalformedPattern)
        }
    }
}

impl Pattern {
    /// Whether it asks for this interface.
    pub(crate) fn selects(&self, name: &str) -> bool {
        let listed = self.names.iter().any(|listed| {
            if self.exact { name == listed } else { name.starts_with(listed.as_str()) }
        });
        listed != self.exclude
    }
}

/// All addresses of interfaces that are up, in the system's order.
///
/// # Errors
/// What the system says.
pub(crate) fn list() -> io::Result<Vec<Interface>> {
    Ok(getifaddrs()?.filter_map(interface).collect())
}

fn interface(entry: InterfaceAddress) -> Option<Interface> {
    let running = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let address = entry.address.filter(|_| entry.flags.contains(running))?;
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::new(v4.ip().into(), 0));
    let v6 = || {
        let v6 = address.as_sockaddr_in6()?;
        Some(SocketAddrV6::new(v6.ip(), 0, 0, v6.scope_id()).into())
    };
    Some(Interface {
        name: entry.interface_name,
        addr: v4.or_else(v6)?,
        loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn patterns_select_as_those_of_nccl() {
        let prefixes = pattern("eth,ib0");
        assert!(prefixes.selects("eth1") && prefixes.selects("ib0") && !prefixes.selects("lo"));
        let exact = pattern("=eth0");
        assert!(exact.selects("eth0") && !exact.selects("eth01"));
        let others = pattern("^docker,lo");
        assert!(others.selects("eth0") && !others.selects("docker0") && !others.selects("lo"));
        assert!(!pattern("^=eth0").selects("eth0") && pattern("^=eth0").selects("eth01"));
        assert_eq!("eth0,,eth1".parse::<Pattern>(), Err(MalformedPattern));
        assert_eq!("".parse::<Pattern>(), Err(MalformedPattern));
    }

    #[test]
    fn the_loopback_is_listed() {
        let loopback = list().unwrap().into_iter().find(|interface| interface.loopback).unwrap();
        assert!(loopback.addr.ip().is_loopback(), "{loopback:?}");
    }
}
