//! How the sender of an offer is reached beside the address that connections are set up over.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::{DecodeError, MAX_RAILS};

/// Bytes of [`Routing`] in a packet; with the longest private data the packet still fits the least MTU of IPv6.
pub const MAX_ROUTING_LEN: usize = 512;

/// Bytes of a rail: the address (IPv4 as ::ffff:a.b.c.d, RFC 4291, section 2.5.5.2) and the port.
pub(crate) const RAIL_LEN: usize = 18;

/// How the sender of an offer is reached beside the address that connections are set up over.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Routing {
    /// What only the datapaths of the two sides read: how the NIC of this side is reached; empty: data goes over UDP.
    pub nic: Vec<u8>,
    /// Where this side receives on its further rails, rail 1 first; fewer than [`MAX_RAILS`]. The scope of a link-local
    /// address is not told: it means something to its own host only.
    pub rails: Vec<SocketAddr>,
}

impl Routing {
    /// Bytes in a packet; at most [`MAX_ROUTING_LEN`] can be sent.
    pub fn encoded_len(&self) -> usize {
        self.nic.len() + self.rails.len() * RAIL_LEN
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.encoded_len() <= MAX_ROUTING_LEN, "routing information is too long");
        assert!(self.rails.len() < MAX_RAILS, "too many rails");
        out.extend_from_slice(&self.nic);
        for rail in &self.rails {
            let ip = match rail.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            out.extend_from_slice(&ip.octets());
            out.extend_from_slice(&rail.port().to_be_bytes());
        }
    }

    /// `nic`: how many bytes are for the datapath; the rest are rails.
    pub(crate) fn decode(bytes: &[u8], nic: usize) -> Result<Self, DecodeError> {
        let (nic, rails) = bytes.split_at_checked(nic).ok_or(DecodeError::Length)?;
        let (rails, rest) = rails.as_chunks::<RAIL_LEN>();
        if bytes.len() > MAX_ROUTING_LEN || rails.len() >= MAX_RAILS || !rest.is_empty() {
            return Err(DecodeError::Length);
        }
        let rails = rails.iter().map(|raw| {
            let (ip, port) = raw.split_at(16);
            let ip: [u8; 16] = ip.try_into().map_err(|_| DecodeError::Length)?;
            let port = port.try_into().map_or(0, u16::from_be_bytes);
            let ip = Ipv6Addr::from(ip).to_canonical();
            // What is sent there may reach nobody, or many.
            let is_host = !ip.is_unspecified()
                && !ip.is_multicast()
                && !matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
            if is_host && port != 0 {
                Ok(SocketAddr::new(ip, port))
            } else {
                Err(DecodeError::Field("rail"))
            }
        });
        Ok(Routing { nic: nic.to_vec(), rails: rails.collect::<Result<_, _>>()? })
    }
}
