//! The invariant CRC of a packet (ICRC; IBTA vol. 1, 7.8.1, and annex A17.3.3).
//!
//! The ICRC covers the IP and UDP headers, which a socket does not see. All their fields follow
//! from the two addresses and the length, except the identification of an IPv4 packet. A sender's
//! is 0 where its socket is not connected and does not fragment. In a batch that the kernel
//! segments it is the index of the packet. A receiver does not know it and solves for it: the CRC
//! is linear, so one identification at most explains the difference. The check of a packet with an
//! unknown identification is therefore as strong as a CRC of 16 bits.

use std::net::{IpAddr, SocketAddr};

use crc32fast::Hasher;

/// Length of the ICRC in bytes.
pub const ICRC_LEN: usize = 4;

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const BTH_LEN: usize = 12;
/// Bytes of ones in the place of the local route header.
const LRH_LEN: usize = 8;
const UDP: u8 = 17;
/// Flags and fragment offset of an IPv4 packet that must not be fragmented.
const DONT_FRAGMENT: [u8; 2] = [0x40, 0];

/// The addresses of the sender and the receiver of packets, which their ICRCs cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IcrcEnds {
    /// The address and the port that the packets leave from.
    pub from: SocketAddr,
    /// The address and the port that they go to.
    pub to: SocketAddr,
}

impl IcrcEnds {
    /// Continues a CRC.
    pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(crc);
        hasher.update(bytes);
        hasher.finalize()
    }

    /// Returns the CRC of everything up to the BTH of a packet of `len` bytes, ICRC included, which
    /// begins with `bth`. A CRC of the remaining bytes continues it.
    ///
    /// # Panics
    /// Panics if `bth` is shorter than a BTH.
    pub fn begin(&self, bth: &[u8], len: usize, id: u16) -> u32 {
        let mut bytes = [0xFF; LRH_LEN + IPV6_LEN + UDP_LEN + BTH_LEN];
        let is_ipv4 = self.from.is_ipv4();
        let ip_len = if is_ipv4 { IPV4_LEN } else { IPV6_LEN };
        let end = LRH_LEN + ip_len + UDP_LEN + BTH_LEN;
        let (ip, rest) = bytes[LRH_LEN..end].split_at_mut(ip_len);
        let udp_len = (UDP_LEN + len) as u16;
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                // Type of service, time to live and checksum stay ones.
                ip[0] = 0x45;
                ip[2..4].copy_from_slice(&(IPV4_LEN as u16 + udp_len).to_be_bytes());
                ip[4..6].copy_from_slice(&id.to_be_bytes());
                ip[6..8].copy_from_slice(&DONT_FRAGMENT);
                ip[9] = UDP;
                ip[12..16].copy_from_slice(&from.octets());
                ip[16..20].copy_from_slice(&to.octets());
            }
            (from, to) => {
                // Traffic class, flow label and hop limit stay ones.
                ip[0] = 0x6F;
                ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
                ip[6] = UDP;
                ip[8..24].copy_from_slice(&octets(from));
                ip[24..40].copy_from_slice(&octets(to));
            }
        }
        let (udp, head) = rest.split_at_mut(UDP_LEN);
        udp[..2].copy_from_slice(&self.from.port().to_be_bytes());
        udp[2..4].copy_from_slice(&self.to.port().to_be_bytes());
        udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
        head.copy_from_slice(&bth[..BTH_LEN]);
        head[4] = 0xFF;
        let mut hasher = Hasher::new();
        hasher.update(&bytes[..end]);
        hasher.finalize()
    }

    /// Appends the ICRC to a packet without one. `id`: the identification of its IPv4 packet.
    ///
    /// # Panics
    /// Panics if `packet` is shorter than a BTH.
    pub fn append(&self, packet: &mut Vec<u8>, id: u16) {
        let crc = self.begin(packet, packet.len() + ICRC_LEN, id);
        let crc = Self::extend(crc, &packet[BTH_LEN..]);
        packet.extend_from_slice(&crc.to_le_bytes());
    }

    /// Checks the ICRC at the end of a packet. Its identification, over IPv4, is probably
    /// `likely_id`. Returns the identification that it has. `None`: the packet is damaged.
    pub fn check(&self, packet: &[u8], likely_id: u16) -> Option<u16> {
        let (body, icrc) = packet.split_last_chunk::<ICRC_LEN>()?;
        let behind = body.get(BTH_LEN..)?;
        let crc = Self::extend(self.begin(packet, packet.len(), likely_id), behind);
        let difference = crc ^ u32::from_le_bytes(*icrc);
        if difference == 0 {
            return Some(likely_id);
        }
        if !self.from.is_ipv4() {
            return None;
        }
        // The identification is followed by this many bytes.
        let behind = IPV4_LEN - 6 + UDP_LEN + body.len();
        let bits = rewind(difference, behind + 2);
        let bits = u16::try_from(bits).ok()?;
        Some(likely_id ^ bits.swap_bytes())
    }
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// The polynomial of CRC-32, bit-reflected.
const POLYNOMIAL: u32 = 0xEDB8_8320;
/// Bits of the length of a packet.
const LEN_BITS: usize = 16;
/// The factors that take a remainder back by 1, 2, 4, .. bytes.
static BACK: [u32; LEN_BITS] = back_by_bytes();

/// Returns the remainder that becomes `remainder` after `bytes` zero bytes.
fn rewind(remainder: u32, bytes: usize) -> u32 {
    let steps = BACK.iter().enumerate().filter(|(bit, _)| bytes >> bit & 1 == 1);
    steps.fold(remainder, |remainder, (_, factor)| multiply(remainder, *factor))
}

/// The product of two polynomials modulo CRC-32's, bit-reflected: bit 31 is the constant term.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 1_u32 << 31);
    while bit > 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 == 1 { b >> 1 ^ POLYNOMIAL } else { b >> 1 };
        bit >>= 1;
    }
    product
}

const fn back_by_bytes() -> [u32; LEN_BITS] {
    // x^-1: one step back from the constant 1. Its remainder after one bit is 1.
    let one = 1_u32 << 31;
    let mut factor = (one ^ POLYNOMIAL) << 1 | 1;
    let mut squarings = 0;
    while squarings < 3 {
        factor = multiply(factor, factor);
        squarings += 1;
    }
    let mut factors = [0; LEN_BITS];
    let mut bit = 0;
    while bit < LEN_BITS {
        factors[bit] = factor;
        factor = multiply(factor, factor);
        bit += 1;
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remainder_is_taken_back() {
        // Equal lengths: the difference of two CRCs is that of the bytes, advanced.
        for behind in [0, 1, 2, 63, 1024, 4136, 65_000] {
            let crc = |byte: u8| {
                let mut bytes = vec![7; behind + 1];
                bytes[0] = byte;
                crc32fast::hash(&bytes)
            };
            assert_eq!(rewind(crc(0x5A) ^ crc(0), behind + 1), 0x5A, "{behind}");
        }
    }
}
