//! Addresses at which the sender of an offer receives data, besides its set-up address.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::{DecodeError, MAX_RAILS};

/// Maximum encoded length of [`Routing`] in bytes. With the longest private data, the packet still
/// fits the minimum MTU of IPv6.
pub const MAX_ROUTING_LEN: usize = 616;

/// Length of a rail's fixed part in bytes: the address (IPv4 as ::ffff:a.b.c.d, RFC 4291, section
/// 2.5.5.2), the port and the length of the datapath's address.
pub(crate) const RAIL_LEN: usize = 20;

/// Addresses at which the sender of an offer receives data, besides its set-up address.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Routing {
    /// The NIC address on the first rail, or empty if the data goes over UDP. Only the datapaths of
    /// the two sides interpret it.
    pub nic: Vec<u8>,
    /// The further rails, starting with rail 1. There are fewer than [`MAX_RAILS`].
    pub rails: Vec<FurtherRail>,
}

/// The addresses of one side on a rail other than the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FurtherRail {
    /// The receiving address. The scope of a link-local address is not sent, because it is valid on
    /// its own host only.
    pub addr: SocketAddr,
    /// The NIC address on this rail; see [`Routing::nic`].
    pub nic: Vec<u8>,
}

impl Routing {
    /// Returns the encoded length in bytes, which must not exceed [`MAX_ROUTING_LEN`].
    pub fn encoded_len(&self) -> usize {
        let further = self.rails.iter().map(|rail| RAIL_LEN + rail.nic.len());
        self.nic.len() + further.sum::<usize>()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        assert!(self.encoded_len() <= MAX_ROUTING_LEN, "routing information is too long");
        assert!(self.rails.len() < MAX_RAILS, "too many rails");
        out.extend_from_slice(&self.nic);
        self.rails.iter().for_each(|rail| rail.encode(out));
    }

    /// Decodes `rails` further rails after `nic` bytes for the datapath of the first rail.
    pub(crate) fn decode(bytes: &[u8], nic: usize, rails: usize) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_ROUTING_LEN || rails >= MAX_RAILS {
            return Err(DecodeError::Length);
        }
        let (nic, mut rest) = bytes.split_at_checked(nic).ok_or(DecodeError::Length)?;
        let mut further = Vec::with_capacity(rails);
        for _ in 0..rails {
            let (rail, after) = FurtherRail::decode(rest)?;
            further.push(rail);
            rest = after;
        }
        match rest.is_empty() {
            true => Ok(Routing { nic: nic.to_vec(), rails: further }),
            false => Err(DecodeError::Length),
        }
    }
}

impl FurtherRail {
    fn encode(&self, out: &mut Vec<u8>) {
        let ip = match self.addr.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        out.extend_from_slice(&ip.octets());
        out.extend_from_slice(&self.addr.port().to_be_bytes());
        out.extend_from_slice(&(self.nic.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.nic);
    }

    /// Decodes the first rail and returns the bytes after it.
    fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (raw, rest) = bytes.split_first_chunk::<RAIL_LEN>().ok_or(DecodeError::Length)?;
        let (ip, numbers) = raw.split_first_chunk::<16>().ok_or(DecodeError::Length)?;
        let [port, nic] =
            [[numbers[0], numbers[1]], [numbers[2], numbers[3]]].map(u16::from_be_bytes);
        let ip = Ipv6Addr::from(*ip).to_canonical();
        // Packets to any other address would reach no host, or several.
        let is_host = !ip.is_unspecified()
            && !ip.is_multicast()
            && !matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        if !is_host || port == 0 {
            return Err(DecodeError::Field("rail"));
        }
        let (nic, rest) = rest.split_at_checked(nic.into()).ok_or(DecodeError::Length)?;
        Ok((FurtherRail { addr: SocketAddr::new(ip, port), nic: nic.to_vec() }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rail(last: u8, nic: usize) -> FurtherRail {
        FurtherRail { addr: ([10, 0, 0, last], 7).into(), nic: vec![last; nic] }
    }

    fn decode(bytes: &[u8], nic: usize, rails: usize) -> Result<Routing, DecodeError> {
        Routing::decode(bytes, nic, rails)
    }

    #[test]
    fn each_rail_has_its_own_nic_and_nothing_is_left_over() {
        let routing = Routing { nic: vec![1; 3], rails: vec![rail(2, 0), rail(3, 5)] };
        let mut bytes = Vec::new();
        routing.encode(&mut bytes);
        assert_eq!(bytes.len(), routing.encoded_len());
        assert_eq!(decode(&bytes, 3, 2), Ok(routing));
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], 3, 2).is_err(), "{len} bytes of it");
        }
        assert_eq!(decode(&bytes, 3, 1), Err(DecodeError::Length), "a rail too many");
        bytes.push(0);
        assert_eq!(decode(&bytes, 3, 2), Err(DecodeError::Length), "a byte too many");
    }

    #[test]
    fn rails_without_a_host_and_more_than_there_can_be_are_refused() {
        for (addr, port) in [("::", 1), ("255.255.255.255", 1), ("ff02::1", 1), ("10.0.0.1", 0)] {
            let ip: IpAddr = addr.parse().unwrap();
            let mut bytes = Vec::new();
            FurtherRail { addr: (ip, port).into(), nic: Vec::new() }.encode(&mut bytes);
            assert_eq!(decode(&bytes, 0, 1), Err(DecodeError::Field("rail")), "{addr}:{port}");
        }
        let mut bytes = Vec::new();
        (0..MAX_RAILS).for_each(|last| rail(last as u8 + 1, 0).encode(&mut bytes));
        assert!(decode(&bytes[RAIL_LEN..], 0, MAX_RAILS - 1).is_ok());
        assert_eq!(decode(&bytes, 0, MAX_RAILS), Err(DecodeError::Length));
        assert_eq!(
            decode(&[0; MAX_ROUTING_LEN + 1], MAX_ROUTING_LEN + 1, 0),
            Err(DecodeError::Length)
        );
    }
}
