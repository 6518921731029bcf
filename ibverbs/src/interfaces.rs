//! The network interfaces of this host. Each one that is up and has an address is a device.

use std::ffi::CString;
use std::fs;
use std::io;
use std::net::{IpAddr, UdpSocket};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_nametoindex};

/// An interface, with the addresses of its device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) addr: IpAddr,
    /// An address of the other IP version.
    pub(crate) second: Option<IpAddr>,
    /// Further addresses, which the device has only if `BRAID_RAILS` names them.
    pub(crate) further: Vec<IpAddr>,
    /// The addresses of the further interfaces of the device ([`crate::rails`]).
    pub(crate) rails: Vec<IpAddr>,
    /// The size of the largest IP packet, in bytes.
    pub(crate) mtu: u32,
}

impl Interface {
    /// All addresses of the device, with those of its rails.
    pub(crate) fn addrs(&self) -> impl Iterator<Item = IpAddr> {
        std::iter::once(self.addr).chain(self.second).chain(self.rails.iter().copied())
    }

    /// Adds an address of the interface. The device has the first one of each IP version, IPv4
    /// first.
    fn add(&mut self, addr: IpAddr) {
        if self.second.is_none() && addr.is_ipv4() != self.addr.is_ipv4() {
            self.second = Some(addr);
        } else {
            self.further.push(addr);
        }
        if let Some(v4) = self.second.filter(IpAddr::is_ipv4) {
            self.second = Some(std::mem::replace(&mut self.addr, v4));
        }
    }
}

/// Lists all interfaces that are up, in the system's order, with the first IPv4 address and the
/// first IPv6 address. Link-local addresses are left out, because they mean nothing without the
/// interface. The loopback is the last one: programs that are told no device take the first, and
/// other hosts cannot reach this one by the loopback.
///
/// # Errors
/// Those of the system.
pub(crate) fn list() -> io::Result<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    for entry in getifaddrs()? {
        let Some((name, addr)) = named_address(&entry) else { continue };
        match found.iter_mut().find(|interface| interface.name == name) {
            Some(known) => known.add(addr),
            None => {
                let index = if_nametoindex(name_of(&name)?.as_c_str()).unwrap_or(0);
                let mtu = mtu(&name);
                let (second, further, rails) = (None, Vec::new(), Vec::new());
                found.push(Interface { name, index, addr, second, further, rails, mtu });
            }
        }
    }
    for interface in &mut found {
        interface.second = interface.second.filter(|addr| is_ready(*addr));
    }
    found.sort_by_key(|interface| interface.addr.is_loopback());
    Ok(found)
}

/// Whether the host can receive at the address. It cannot while the system finds out whether
/// another host has the address (RFC 4862, tentative addresses). Such an address must not hide one
/// that is ready.
fn is_ready(addr: IpAddr) -> bool {
    UdpSocket::bind((addr, 0)).is_ok()
}

fn name_of(name: &str) -> io::Result<CString> {
    CString::new(name).map_err(io::Error::other)
}

fn named_address(entry: &InterfaceAddress) -> Option<(String, IpAddr)> {
    let running = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let address = entry.address.as_ref().filter(|_| entry.flags.contains(running))?;
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    let v6 = || {
        let v6 = address.as_sockaddr_in6()?.ip();
        (!v6.is_unicast_link_local()).then_some(IpAddr::V6(v6))
    };
    Some((entry.interface_name.clone(), v4.or_else(v6)?))
}

/// The MTU of an interface. If the system does not know it, that of Ethernet.
fn mtu(name: &str) -> u32 {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/mtu"));
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1500)
}
