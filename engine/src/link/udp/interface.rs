//! The interface of a rail: the one that has the rail's address, whatever the routing table
//! prefers.
//!
//! Linux chooses the interface by the destination. If two interfaces are in one subnet, it takes
//! the first, whatever address a socket is bound to.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use braid_transport::{AddrPair, LocalAddr};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};

use crate::degradation::Misrouting;
use crate::link::rtnetlink::{Route, RtNetlink};

/// The shortest time between two listings of the interfaces after a change. On a host with many
/// containers a listing takes a millisecond.
const LIST_AGAIN: Duration = Duration::from_secs(1);

/// The choice of the interface by which a rail sends. Without [`OwnInterfaces`], the routing table
/// chooses.
pub(crate) struct RailInterface(Option<RefCell<OwnInterfaces>>);

impl RailInterface {
    pub(super) fn new(own: Option<OwnInterfaces>) -> Self {
        RailInterface(own.map(RefCell::new))
    }

    /// See [`OwnInterfaces::towards`].
    pub(crate) fn towards(&self, to: IpAddr) -> u32 {
        self.0.as_ref().map_or(0, |own| own.borrow_mut().towards(to))
    }

    /// Adds the interface towards `to`.
    pub(crate) fn pair(&self, to: SocketAddr) -> AddrPair {
        let interface = self.towards(to.ip());
        AddrPair { remote: to, local: LocalAddr { interface, ..LocalAddr::default() } }
    }

    /// See [`OwnInterfaces::misrouting`].
    pub(crate) fn misrouting(&self, to: SocketAddr) -> Option<Misrouting> {
        self.0.as_ref()?.borrow_mut().misrouting(to.ip()).ok().flatten()
    }
}

/// The interfaces that have the address of a rail, and the routes through them.
pub(super) struct OwnInterfaces {
    ip: IpAddr,
    owners: Vec<OwningInterface>,
    listed: Instant,
    tables: RtNetlink,
}

impl OwnInterfaces {
    /// The interfaces of the address that a socket is bound to. `None`: no destination needs a
    /// look-up.
    pub(super) fn of(ip: IpAddr) -> io::Result<Option<Self>> {
        let ip = ip.to_canonical();
        // The kernel sends from a link-local address only by its interface.
        if ip.is_unspecified() || matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            return Ok(None);
        }
        let owners = owners(ip)?;
        // An address of the loopback interface belongs to the whole host. The interface lists one
        // address of 127.0.0.0/8 and has all of them.
        if owners.is_empty() || owners.iter().any(|owner| owner.is_loopback) {
            return Ok(None);
        }
        Ok(Some(OwnInterfaces { ip, owners, listed: Instant::now(), tables: RtNetlink::open()? }))
    }

    /// The interface for datagrams to `to`. 0: the routing table's choice, because no route leads
    /// there by this rail's interface or the destination is on this host.
    fn towards(&mut self, to: IpAddr) -> u32 {
        let found = self.look_up(to.to_canonical());
        found.inspect_err(|error| tracing::debug!(%to, %error, "no route found")).unwrap_or(0)
    }

    fn look_up(&mut self, to: IpAddr) -> io::Result<u32> {
        if self.tables.route(self.ip, to)? == Some(Route::Local) {
            return Ok(0);
        }
        for owner in &self.owners {
            if self.tables.leads(self.ip, to, owner.index)? {
                return Ok(owner.index);
            }
        }
        if self.listed.elapsed() > LIST_AGAIN {
            // The interface may have been created again with another index.
            (self.owners, self.listed) = (owners(self.ip)?, Instant::now());
        }
        Ok(0)
    }

    /// The reason why the rail may carry nothing between here and `to`, as far as this host knows.
    fn misrouting(&mut self, to: IpAddr) -> io::Result<Option<Misrouting>> {
        let (to, tables) = (to.to_canonical(), &mut self.tables);
        let prefers = match tables.route(self.ip, to)? {
            Some(Route::By(index)) => index,
            Some(Route::Local) | None => return Ok(None),
        };
        let Some(own) = self.owners.first() else { return Ok(None) };
        if self.owners.iter().any(|owner| owner.index == prefers) {
            return Ok(None);
        }
        let interface = own.name.clone();
        if !tables.leads(self.ip, to, own.index)? {
            return Ok(Some(Misrouting::NoRoute { interface }));
        }
        let is_strict = to.is_ipv4() && reverse_path_filter(&own.name) == STRICT;
        let is_dropped = is_strict && !tables.is_way_back(self.ip, to, own.index)?;
        Ok(is_dropped.then_some(Misrouting::ReversePath { interface }))
    }
}

struct OwningInterface {
    name: String,
    index: u32,
    is_loopback: bool,
}

/// The interfaces that have an address. Several may have it.
fn owners(ip: IpAddr) -> io::Result<Vec<OwningInterface>> {
    let mut owners = Vec::new();
    for entry in getifaddrs()? {
        let Some(address) = entry.address else { continue };
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        let v6 = || address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()));
        if v4.or_else(v6) != Some(ip) {
            continue;
        }
        // The label of an address may contain a suffix, as in `eth0:1`.
        let name = entry.interface_name.split(':').next().unwrap_or_default().to_owned();
        let index = if_nametoindex(name.as_str())?;
        let is_loopback = entry.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        owners.push(OwningInterface { name, index, is_loopback });
    }
    Ok(owners)
}

/// The value of `rp_filter` with which packets are dropped if the route back uses another interface
/// (RFC 3704).
const STRICT: u32 = 1;

/// The kernel obeys the larger of the two settings (`ip-sysctl`). 0: there is none.
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
    fn on_the_loopback_there_is_nothing_to_look_up() {
        for ip in ["127.0.0.1", "127.0.0.9", "::1", "::", "0.0.0.0", "fe80::1", "::ffff:127.0.0.1"]
        {
            assert!(OwnInterfaces::of(ip.parse().unwrap()).unwrap().is_none(), "{ip}");
        }
    }
}
