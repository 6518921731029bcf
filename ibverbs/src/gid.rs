//! GIDs of RoCE v2: an IP address, IPv4 mapped into IPv6 (IBTA annex A17).

use std::net::{IpAddr, Ipv6Addr};

use braid_verbs::abi::ibv_gid;

/// The GID of an address.
pub(crate) fn of(addr: IpAddr) -> ibv_gid {
    ibv_gid { raw: mapped(addr).octets() }
}

/// The IPv6 address that is the GID of an address.
pub(crate) fn mapped(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The address of a GID. `None`: no host has the address.
pub(crate) fn address(gid: &ibv_gid) -> Option<IpAddr> {
    // SAFETY: both members of the union are plain bytes.
    let v6 = Ipv6Addr::from(unsafe { gid.raw });
    let addr = v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4);
    (!addr.is_unspecified() && !addr.is_multicast()).then_some(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_and_groups_have_no_address() {
        for text in ["127.0.0.1", "10.1.2.3", "fe80::1", "2001:db8::7"] {
            let addr: IpAddr = text.parse().expect("an address");
            assert_eq!(address(&of(addr)), Some(addr));
        }
        for text in ["0.0.0.0", "::", "224.0.0.1", "ff02::1"] {
            assert_eq!(address(&of(text.parse().expect("an address"))), None, "{text}");
        }
    }
}
