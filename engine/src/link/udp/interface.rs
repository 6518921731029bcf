//! Which interface a rail sends by: the one that has its address, whatever the routing table prefers.
//!
//! Linux chooses the interface by the destination. Of two in one subnet it takes the first, whatever address a socket is bound to.

use std::fs;
use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};

use crate::link::RailTrouble;
use crate::link::rtnetlink::{Route, RtNetlink};

/// The interface that has `local`, if what leaves from there for `to` can leave by it; 0: the routing table chooses.
pub(super) fn own_interface(local: IpAddr, to: IpAddr) -> u32 {
    // The kernel sends from a link-local address by its interface alone.
    if is_link_local(local) {
        return 0;
    }
    let found = look_up(local, to.to_canonical());
    found.inspect_err(|error| tracing::debug!(%local, %to, %error, "no interface")).unwrap_or(0)
}

fn look_up(local: IpAddr, to: IpAddr) -> io::Result<u32> {
    let owners = owners(local)?;
    let mut tables = RtNetlink::open()?;
    // What stays on this host passes no interface, and an address of the loopback interface is one of the whole host.
    if owners.iter().any(|it| it.is_loopback) || tables.route(local, to)? == Some(Route::Local) {
        return Ok(0);
    }
    for Owner { index, .. } in owners {
        if tables.leads(local, to, index)? {
            return Ok(index);
        }
    }
    Ok(0)
}

/// Why a rail that is bound to `local` may carry nothing between here and `to`, as far as this host knows.
pub(super) fn trouble(local: IpAddr, to: IpAddr) -> Option<RailTrouble> {
    if is_link_local(local) {
        return None;
    }
    look_for_trouble(local, to.to_canonical()).ok().flatten()
}

fn look_for_trouble(local: IpAddr, to: IpAddr) -> io::Result<Option<RailTrouble>> {
    let owners = owners(local)?;
    let mut tables = RtNetlink::open()?;
    let prefers = match tables.route(local, to)? {
        Some(Route::By(index)) => index,
        Some(Route::Local) | None => return Ok(None),
    };
    if owners.iter().any(|owner| owner.is_loopback || owner.index == prefers) {
        return Ok(None);
    }
    let Some(own) = owners.first() else { return Ok(None) };
    let interface = own.name.clone();
    if !tables.leads(local, to, own.index)? {
        return Ok(Some(RailTrouble::NoRoute { interface }));
    }
    let is_strict = local.is_ipv4() && reverse_path_filter(&own.name) == STRICT;
    let is_dropped = is_strict && !tables.is_way_back(local, to, own.index)?;
    Ok(is_dropped.then_some(RailTrouble::ReversePath { interface }))
}

struct Owner {
    name: String,
    index: u32,
    is_loopback: bool,
}

/// The interfaces that have an address; more than one may.
fn owners(ip: IpAddr) -> io::Result<Vec<Owner>> {
    let mut owners = Vec::new();
    for entry in getifaddrs()? {
        let Some(address) = entry.address else { continue };
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        let v6 = || address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()));
        if v4.or_else(v6) != Some(ip) {
            // All of 127.0.0.0/8 are of the loopback interface, which lists one of them; own_interface finds the others local.
            continue;
        }
        // An address may have a label of its own, `eth0:1`.
        let name = entry.interface_name.split(':').next().unwrap_or_default().to_owned();
        let index = if_nametoindex(name.as_str())?;
        let is_loopback = entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        owners.push(Owner { name, index, is_loopback });
    }
    Ok(owners)
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// What `rp_filter` has to be for packets to be dropped whose way back is another interface (RFC 3704).
const STRICT: u32 = 1;

/// The kernel obeys the larger of the two (`ip-sysctl`); 0 where there is none.
fn reverse_path_filter(interface: &str) -> u32 {
    let value = |of: &str| -> u32 {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{of}/rp_filter"));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    value("all").max(value(interface))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_on_this_host_is_left_to_the_routing_table() {
        for (local, to) in [("127.0.0.1", "127.0.0.2"), ("127.0.0.9", "127.0.0.1"), ("::1", "::1")]
        {
            let [local, to] = [local, to].map(|ip| ip.parse().unwrap());
            assert_eq!(own_interface(local, to), 0);
            assert_eq!(trouble(local, to), None);
        }
    }
}
