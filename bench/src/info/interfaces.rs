//! The network interfaces of this machine.

use std::fs;
use std::path::Path;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use serde::Serialize;

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Interface {
    pub(super) name: String,
    /// Whether it is up and has a carrier.
    pub(super) running: bool,
    /// Bytes of the longest IP packet; absent if sysfs does not report it.
    pub(super) mtu: Option<u32>,
    /// The addresses in the format of `--bind`.
    pub(super) addresses: Vec<String>,
}

/// Lists the interfaces, in the system's order.
///
/// # Errors
/// The system's error.
pub(super) fn list() -> nix::Result<Vec<Interface>> {
    let mut all: Vec<Interface> = Vec::new();
    for entry in getifaddrs()? {
        let at = all.iter().position(|known| known.name == entry.interface_name);
        let at = at.unwrap_or_else(|| {
            all.push(interface(&entry));
            all.len() - 1
        });
        all[at].addresses.extend(address(&entry));
    }
    Ok(all)
}

fn interface(entry: &InterfaceAddress) -> Interface {
    let running = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let name = entry.interface_name.clone();
    // An IPv4 address may have a label of its own, such as `eth0:1`.
    let device = name.split(':').next().unwrap_or(&name);
    let mtu = fs::read_to_string(Path::new("/sys/class/net").join(device).join("mtu"));
    Interface {
        running: entry.flags.contains(running),
        mtu: mtu.ok().and_then(|mtu| mtu.trim_end().parse().ok()),
        addresses: Vec::new(),
        name,
    }
}

fn address(entry: &InterfaceAddress) -> Option<String> {
    let address = entry.address.as_ref()?;
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(v4.ip().to_string());
    }
    let v6 = address.as_sockaddr_in6()?;
    match v6.ip().is_unicast_link_local() {
        true => Some(format!("{}%{}", v6.ip(), entry.interface_name)),
        false => Some(v6.ip().to_string()),
    }
}
