//! The local address of an arrived or outgoing datagram (ip(7), `IP_PKTINFO`; RFC 3542, section 6).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::link::LocalAddr;

/// The control message for a socket of this IP version.
#[derive(Clone, Copy)]
pub(super) enum PacketInfo {
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

impl PacketInfo {
    /// The control message that a socket bound to `bound` needs to send from `local`. `None`: none.
    pub(super) fn of(bound: SocketAddr, local: LocalAddr) -> Option<Self> {
        if local.ip.is_none() && local.interface == 0 {
            return None;
        }
        // The kernel takes the address from this control message, even if the socket is bound to
        // one.
        let ip = local.ip.unwrap_or(bound.ip());
        Some(match (bound, ip) {
            (SocketAddr::V4(_), IpAddr::V4(ip)) => PacketInfo::V4(libc::in_pktinfo {
                ipi_ifindex: local.interface as libc::c_int,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from(ip).to_be() },
                ipi_addr: libc::in_addr { s_addr: 0 },
            }),
            (SocketAddr::V4(_), IpAddr::V6(_)) => return None,
            (SocketAddr::V6(_), ip) => {
                let ip = match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                PacketInfo::V6(libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: ip.octets() },
                    ipi6_ifindex: local.interface,
                })
            }
        })
    }
}

/// The destination address of a datagram.
pub(super) fn called_v4(info: libc::in_pktinfo) -> LocalAddr {
    let ip = Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr));
    LocalAddr { ip: Some(ip.into()), ..LocalAddr::default() }
}

/// The destination address of a datagram over IPv6. A link-local address includes its interface.
pub(super) fn called_v6(info: libc::in6_pktinfo) -> LocalAddr {
    let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
    let interface = if ip.is_unicast_link_local() { info.ipi6_ifindex } else { 0 };
    LocalAddr { ip: Some(ip.to_canonical()), interface, ..LocalAddr::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(ip: &str, interface: u32) -> LocalAddr {
        LocalAddr { ip: Some(ip.parse().unwrap()), interface, ..LocalAddr::default() }
    }

    #[test]
    fn a_socket_of_either_version_is_told_in_its_own_terms() {
        let [v4, v6] = ["0.0.0.0:1", "[::]:1"].map(|addr| addr.parse().unwrap());
        assert!(PacketInfo::of(v6, LocalAddr::default()).is_none());
        assert!(PacketInfo::of(v4, local("fd00::1", 0)).is_none());
        let Some(PacketInfo::V4(info)) = PacketInfo::of(v4, local("10.0.0.1", 7)) else {
            panic!("IPv4");
        };
        assert_eq!((called_v4(info), info.ipi_ifindex), (local("10.0.0.1", 0), 7));
        for (ip, interface) in [("10.0.0.1", 0), ("fd00::1", 0), ("fe80::1", 7)] {
            let Some(PacketInfo::V6(info)) = PacketInfo::of(v6, local(ip, interface)) else {
                panic!("IPv6");
            };
            assert_eq!(called_v6(info), local(ip, interface));
        }
    }

    #[test]
    fn the_address_that_the_socket_is_bound_to_stays() {
        let on_interface = LocalAddr { interface: 3, ..LocalAddr::default() };
        let Some(PacketInfo::V4(info)) =
            PacketInfo::of("10.0.0.1:1".parse().unwrap(), on_interface)
        else {
            panic!("IPv4");
        };
        assert_eq!((called_v4(info), info.ipi_ifindex), (local("10.0.0.1", 0), 3));
    }
}
