//! The network interface of an address.

use std::net::Ipv4Addr;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};

use super::XdpSetupError;
use super::frame::Mac;

/// Ethernet's number among the kinds of interfaces (`linux/if_arp.h`).
const ARPHRD_ETHER: u16 = 1;

/// The interface of an address.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mac: Mac,
}

impl Interface {
    /// The error for an interface on which another program uses AF_XDP or an XDP program.
    pub(super) fn is_busy(&self) -> XdpSetupError {
        XdpSetupError::Busy { interface: self.name.clone() }
    }
}

/// The interface that has `ip`.
pub(super) fn of_address(ip: Ipv4Addr) -> Result<Interface, XdpSetupError> {
    let refused =
        |errno: nix::Error| XdpSetupError::System { step: "getifaddrs", source: errno.into() };
    let entries: Vec<InterfaceAddress> = getifaddrs().map_err(refused)?.collect();
    let has_it = |entry: &&InterfaceAddress| ipv4(entry) == Some(ip);
    let found = entries.iter().find(has_it).ok_or(XdpSetupError::NoInterface { ip })?;
    // The label of an address may contain a suffix, as in `eth0:1`.
    let label = found.interface_name.as_str();
    let name = label.split(':').next().unwrap_or(label);
    let mut of_name = entries.iter().filter(|entry| entry.interface_name == name);
    of_name
        .find_map(ethernet)
        .ok_or_else(|| XdpSetupError::NotEthernet { interface: name.to_owned(), ip })
}

fn ipv4(entry: &InterfaceAddress) -> Option<Ipv4Addr> {
    Some(entry.address.as_ref()?.as_sockaddr_in()?.ip())
}

fn ethernet(entry: &InterfaceAddress) -> Option<Interface> {
    let link = entry.address.as_ref()?.as_link_addr()?;
    let (name, index) = (entry.interface_name.clone(), link.ifindex() as u32);
    (link.hatype() == ARPHRD_ETHER).then_some(Interface { name, index, mac: link.addr()? })
}
