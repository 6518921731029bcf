//! The 40 bytes that a receiver of datagrams finds before the payload: the network header of the
//! packet (annex A17.4.5.2). That is an IPv6 header, or an IPv4 header in the last 20 bytes.

use std::net::IpAddr;

use super::icrc::IcrcEnds;

/// Length of the header in a receive buffer.
pub const NETWORK_HEADER_LEN: usize = 40;

const IPV4_LEN: usize = 20;
const UDP_LEN: usize = 8;
const UDP: u8 = 17;
/// A socket does not see how many routers a packet has passed.
const HOP_LIMIT: u8 = 64;

impl IcrcEnds {
    /// Returns the header of a packet of `len` bytes, ICRC included, as it stands in a receive
    /// buffer. `id`: the identification of its IPv4 packet. The type of service is 0 and the time
    /// to live 64, because a socket knows neither.
    pub fn network_header(&self, len: usize, id: u16) -> [u8; NETWORK_HEADER_LEN] {
        let mut header = [0; NETWORK_HEADER_LEN];
        let udp_len = (UDP_LEN + len) as u16;
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let ip = &mut header[NETWORK_HEADER_LEN - IPV4_LEN..];
                ip[0] = 0x45;
                ip[2..4].copy_from_slice(&(IPV4_LEN as u16 + udp_len).to_be_bytes());
                ip[4..6].copy_from_slice(&id.to_be_bytes());
                ip[6] = 0x40; // not to be fragmented
                (ip[8], ip[9]) = (HOP_LIMIT, UDP);
                ip[12..16].copy_from_slice(&from.octets());
                ip[16..20].copy_from_slice(&to.octets());
                let checksum = internet_checksum(ip);
                ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            (from, to) => {
                header[0] = 0x60;
                header[4..6].copy_from_slice(&udp_len.to_be_bytes());
                (header[6], header[7]) = (UDP, HOP_LIMIT);
                header[8..24].copy_from_slice(&octets(from));
                header[24..40].copy_from_slice(&octets(to));
            }
        }
        header
    }
}

/// Returns the source and the destination of a header in a receive buffer. `None`: it is neither
/// of IPv4 nor of IPv6.
///
/// An IPv6 header may look like one of IPv4 that begins in the middle of it. As in rdma-core, the
/// checksum then decides.
pub fn network_header_ends(header: &[u8; NETWORK_HEADER_LEN]) -> Option<(IpAddr, IpAddr)> {
    let ip = &header[NETWORK_HEADER_LEN - IPV4_LEN..];
    let is_ipv6 = header[0] >> 4 == 6;
    if ip[0] == 0x45 && (!is_ipv6 || internet_checksum(ip) == 0) {
        let addr = |at: usize| <[u8; 4]>::try_from(&ip[at..at + 4]).map(IpAddr::from).ok();
        return Some((addr(12)?, addr(16)?));
    }
    let addr = |at: usize| <[u8; 16]>::try_from(&header[at..at + 16]).map(IpAddr::from).ok();
    is_ipv6.then(|| Some((addr(8)?, addr(24)?)))?
}

/// The checksum of RFC 1071 over an even number of bytes. 0 over a header with its checksum.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: &str, to: &str) -> IcrcEnds {
        IcrcEnds { from: from.parse().expect("an address"), to: to.parse().expect("an address") }
    }

    #[test]
    fn both_addresses_come_back_and_a_broken_checksum_is_no_ipv4_header() {
        for (from, to) in
            [("192.0.2.1:9", "198.51.100.7:4791"), ("[2001:db8::1]:9", "[2001:db8::2]:4791")]
        {
            let ends = ends(from, to);
            let header = ends.network_header(300, 7);
            assert_eq!(network_header_ends(&header), Some((ends.from.ip(), ends.to.ip())));
        }
        let four = ends("192.0.2.1:9", "198.51.100.7:4791").network_header(300, 7);
        let mut both = four;
        both[0] = 0x60;
        assert!(network_header_ends(&both).is_some_and(|(from, _)| from.is_ipv4()));
        both[30] ^= 1;
        assert!(network_header_ends(&both).is_some_and(|(from, _)| from.is_ipv6()));
        assert_eq!(network_header_ends(&[0; NETWORK_HEADER_LEN]), None);
    }

    #[test]
    fn checksum_is_that_of_rfc_1071() {
        // The example of its section 3.
        let sum = internet_checksum(&[0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7]);
        assert_eq!(sum, !0xDDF2);
    }
}
