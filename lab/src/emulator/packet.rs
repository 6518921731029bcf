//! The fields of an IPv4 packet that the emulator reads, and the ECN mark, which it writes.

use std::net::Ipv4Addr;

const HEADER: usize = 20;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The ECN bits: not capable (0), capable (1 and 2), congestion experienced (3) (RFC 3168, section
/// 5).
const ECN: u8 = 3;
/// The source ports that name a path, and the bits of a port that switches read.
const PATH_PORTS: std::ops::RangeInclusive<u16> = 0xC000..=0xCFFF;
const PATH_BITS: u16 = 0x3F;

/// The addresses and ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) to: Ipv4Addr,
    /// The source port, or 0 if the packet has no ports.
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) is_udp: bool,
}

impl Default for Packet {
    fn default() -> Self {
        Packet { to: Ipv4Addr::UNSPECIFIED, source_port: 0, destination_port: 0, is_udp: true }
    }
}

impl Packet {
    /// Reads a packet. Returns none if it is not IPv4.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header = usize::from(bytes.first()? & 0xF) * 4;
        if bytes[0] >> 4 != 4 || header < HEADER || bytes.len() < header {
            return None;
        }
        let to: [u8; 4] = bytes[16..20].try_into().ok()?;
        let is_first = u16::from_be_bytes([bytes[6], bytes[7]]) & 0x1FFF == 0;
        let ports =
            bytes.get(header..header + 4).filter(|_| is_first && matches!(bytes[9], TCP | UDP));
        let port =
            |at: usize| ports.map_or(0, |ports| u16::from_be_bytes([ports[at], ports[at + 1]]));
        Some(Packet {
            to: to.into(),
            source_port: port(0),
            destination_port: port(2),
            is_udp: bytes[9] == UDP,
        })
    }

    /// A number that chooses among parallel links: the path of the source port, or a hash of the
    /// ports.
    pub(super) fn choice(self) -> usize {
        if self.is_udp && PATH_PORTS.contains(&self.source_port) {
            return usize::from(self.source_port & PATH_BITS);
        }
        usize::from(self.source_port ^ self.destination_port)
    }
}

/// Marks a packet that [`Packet::read`] takes. Returns false if the packet is not ECN-capable.
pub(super) fn mark(bytes: &mut [u8]) -> bool {
    let old = bytes[1];
    if old & ECN == 0 {
        return false;
    }
    bytes[1] = old | ECN;
    // RFC 1624, equation 3: the checksum of a header of which 16 bits have changed.
    let checksum = u16::from_be_bytes([bytes[10], bytes[11]]);
    let word = |low: u8| u32::from(u16::from_be_bytes([bytes[0], low]));
    let sum = u32::from(!checksum) + (!word(old) & 0xFFFF) + word(bytes[1]);
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let folded = ((folded & 0xFFFF) + (folded >> 16)) as u16;
    bytes[10..12].copy_from_slice(&(!folded).to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(header: &[u8]) -> u16 {
        let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        !(((sum & 0xFFFF) + (sum >> 16)) as u16)
    }

    fn udp(tos: u8, port: u16) -> Vec<u8> {
        let mut bytes =
            vec![0x45, tos, 0, 32, 1, 2, 0x40, 0, 64, 17, 0, 0, 10, 80, 0, 1, 10, 80, 0, 2];
        let sum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(port.to_be_bytes());
        bytes.extend([0x12, 0xB7, 0, 12, 0, 0, 1, 2, 3, 4]);
        bytes
    }

    #[test]
    fn a_marked_packet_keeps_a_right_checksum() {
        for tos in [1, 2, 0xB9] {
            let mut bytes = udp(tos, 0xC000);
            assert!(mark(&mut bytes));
            assert_eq!((bytes[1], checksum(&bytes[..20])), (tos | 3, 0), "tos {tos}");
        }
        let mut bytes = udp(0, 0xC000);
        assert!(!mark(&mut bytes));
        assert_eq!(bytes, udp(0, 0xC000));
    }

    #[test]
    fn a_path_port_chooses_and_fragments_have_no_port() {
        let packet = Packet::read(&udp(0, 0xC047)).expect("it is IPv4");
        assert_eq!((packet.to, packet.choice()), (Ipv4Addr::new(10, 80, 0, 2), 7));
        let other = Packet::read(&udp(0, 1000)).expect("it is IPv4");
        assert_eq!(other.choice(), 1000 ^ 0x12B7);
        let mut fragment = udp(0, 0xC047);
        fragment[7] = 1;
        assert_eq!(Packet::read(&fragment).expect("it is IPv4").source_port, 0);
    }

    #[test]
    fn what_is_no_packet_is_none() {
        let whole = udp(0, 0xC000);
        for cut in 0..20 {
            assert_eq!(Packet::read(&whole[..cut]), None, "{cut} bytes");
        }
        assert!(Packet::read(&whole[..22]).is_some_and(|packet| packet.source_port == 0));
        let mut six = whole.clone();
        six[0] = 0x65;
        assert_eq!(Packet::read(&six), None);
        six[0] = 0x44;
        assert_eq!(Packet::read(&six), None, "a header of 16 bytes");
    }
}
