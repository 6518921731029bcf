//! The network interfaces of this host and their addresses.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr;
use std::str::FromStr;

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
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the system writes the list's first element to `first`.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: every element of the list is valid until `freeifaddrs`, and its `ifa_next` is the next
    // one or null.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: as above; `ifa_name` is a C string, `ifa_addr` null or a socket address.
        found.extend(unsafe { interface(entry) });
        next = entry.ifa_next;
    }
    // SAFETY: the list came from `getifaddrs`, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// # Safety
/// `entry` is an element of a list by `getifaddrs`.
unsafe fn interface(entry: &libc::ifaddrs) -> Option<Interface> {
    let running = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    if entry.ifa_flags & running != running {
        return None;
    }
    // SAFETY: the caller vouches for the element.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_str().ok()?.to_owned();
    // SAFETY: as above.
    let addr = unsafe { address(entry.ifa_addr) }?;
    Some(Interface { name, addr, loopback: entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0 })
}

/// # Safety
/// `addr` is null or points to a socket address of the length that its family has.
unsafe fn address(addr: *const libc::sockaddr) -> Option<SocketAddr> {
    // SAFETY: the caller vouches for the pointer.
    let family = unsafe { addr.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a `sockaddr_in`.
            let v4 = unsafe { addr.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), 0))
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a `sockaddr_in6`.
            let v6 = unsafe { addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, 0, 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
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
