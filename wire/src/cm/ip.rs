//! The header of the RDMA IP CM service (IBTA vol. 1, annex A11), with which the private data of a
//! request begins.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The IP addresses and the source port of a request. The service has the destination port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpCmHeader {
    /// The address and the port of the connecting end.
    pub from: SocketAddr,
    /// The address that it calls, of the same IP version.
    pub to: IpAddr,
}

/// The upper bits of the services of RDMA IP CM: 0x0000000001, then the IP protocol and the port.
const SERVICES: u64 = 0x0100_0000;
/// The protocol of reliable connections. The kernel calls it `RDMA_PS_TCP`, 0x0106.
const TCP: u64 = 6;
/// The protocol of datagrams. The kernel calls it `RDMA_PS_UDP`, 0x0111.
const UDP: u64 = 17;

impl IpCmHeader {
    /// Bytes of the header.
    pub const LEN: usize = 36;

    /// The service of a port, for reliable connections.
    pub const fn service(port: u16) -> u64 {
        SERVICES | TCP << 16 | port as u64
    }

    /// The service of a port, for datagrams.
    pub const fn datagram_service(port: u16) -> u64 {
        SERVICES | UDP << 16 | port as u64
    }

    /// The port of a service. `None`: the service is none of RDMA IP CM for reliable connections.
    pub const fn port(service: u64) -> Option<u16> {
        if service >> 16 == Self::service(0) >> 16 { Some(service as u16) } else { None }
    }

    /// The port of a service for datagrams. `None`: the service is none of RDMA IP CM for them.
    pub const fn datagram_port(service: u64) -> Option<u16> {
        let is_one = service >> 16 == Self::datagram_service(0) >> 16;
        if is_one { Some(service as u16) } else { None }
    }

    /// Returns the bytes of the header.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let is_v4 = self.from.is_ipv4();
        // Version 0.0, and the IP version in the upper four bits.
        bytes[1] = if is_v4 { 4 << 4 } else { 6 << 4 };
        bytes[2..4].copy_from_slice(&self.from.port().to_be_bytes());
        bytes[4..20].copy_from_slice(&octets(self.from.ip()));
        bytes[20..36].copy_from_slice(&octets(self.to));
        bytes
    }

    /// Decodes the beginning of private data. `None`: another version of the header or of IP.
    pub fn decode(private_data: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = private_data.first_chunk()?;
        let [version, ip, a, b, ..] = *bytes;
        let addr = |at: usize| {
            let octets: [u8; 16] = bytes[at..at + 16].try_into().ok()?;
            match ip >> 4 {
                4 => octets.last_chunk::<4>().map(|octets| IpAddr::from(*octets)),
                6 => Some(IpAddr::from(octets)),
                _ => None,
            }
        };
        if version >> 4 != 0 {
            return None;
        }
        Some(IpCmHeader {
            from: SocketAddr::new(addr(4)?, u16::from_be_bytes([a, b])),
            to: addr(20)?,
        })
    }
}

/// The bytes of an address: those of IPv4 are the last four.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => Ipv6Addr::from_bits(ip.to_bits().into()).octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}
