//! GIDs, the addresses of ports.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The address of a port: an IPv6 address, or an IPv4 address mapped into one (`::ffff:10.0.0.1`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

/// The framing of packets from a GID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// Ethernet frames of type 0x8915, which are not routed.
    RoceV1,
    /// UDP to port 4791.
    RoceV2,
}

impl Gid {
    /// Returns whether it is all zeros, as in unused entries of a GID table.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 16]
    }

    /// Returns the IP address of the GID in RoCE v2.
    pub fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

impl From<IpAddr> for Gid {
    fn from(ip: IpAddr) -> Self {
        Gid(match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        })
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn gids_are_addresses() {
        let mapped = Gid::from(ip("10.0.0.1"));
        assert_eq!(mapped.0[8..], [0, 0, 0xff, 0xff, 10, 0, 0, 1]);
        assert_eq!(mapped, Gid::from(ip("::ffff:10.0.0.1")));
        assert_eq!(mapped.to_string(), "::ffff:10.0.0.1");
        assert_eq!(mapped.ip(), ip("10.0.0.1"));
        assert_eq!(Gid::from(ip("fe80::1")).ip(), ip("fe80::1"));
        assert!(Gid([0; 16]).is_empty() && !mapped.is_empty());
    }
}
