//! The ICRC of captured packets (IBTA vol. 1, 7.8.1, and annex A17.3.3), computed from their bytes.
//!
//! tshark shows the ICRC and does not check it. `braid-wire` makes up the headers of IP and UDP,
//! which a socket does not see; here they are the captured ones.

use braid_wire::IcrcEnds;

const ETHERNET_LEN: usize = 14;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const BTH_LEN: usize = 12;
const ICRC_LEN: usize = 4;
/// Bytes of ones in the place of the local route header.
const LRH: [u8; 8] = [0xFF; 8];
/// Length of the header of a capture, and of that of each packet
/// (https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/).
const PCAP_LENS: [usize; 2] = [24, 16];

/// The frames of a capture. `None`: it is no capture by this machine in pcap's format.
pub(super) fn frames(pcap: &[u8]) -> Option<Vec<&[u8]>> {
    let (header, mut rest) = pcap.split_at_checked(PCAP_LENS[0])?;
    if !header.starts_with(&0xA1B2_C3D4_u32.to_le_bytes()) {
        return None;
    }
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (header, behind) = rest.split_at_checked(PCAP_LENS[1])?;
        let len = u32::from_le_bytes(header[8..12].try_into().ok()?);
        let (frame, behind) = behind.split_at_checked(usize::try_from(len).ok()?)?;
        frames.push(frame);
        rest = behind;
    }
    Some(frames)
}

/// Whether the ICRC of an Ethernet frame with a packet of RoCEv2 is right. `None`: it is no such
/// frame.
pub(super) fn is_right(frame: &[u8]) -> Option<bool> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET_LEN)?;
    // The fields that switches and routers change count as ones.
    let (ip_len, len, masked): (usize, usize, &[usize]) = match &ethernet[12..] {
        // Type of service, time to live, checksum.
        [0x08, 0x00] => {
            let ip_len = usize::from(packet.first()? & 0xF) * 4;
            (ip_len, usize::from(word(packet, 2)?), &[1, 8, 10, 11])
        }
        // Traffic class and flow label, beside the version; hop limit.
        [0x86, 0xDD] => (IPV6_LEN, IPV6_LEN + usize::from(word(packet, 4)?), &[1, 2, 3, 7]),
        _ => return None,
    };
    let (covered, icrc) = packet.get(..len)?.split_last_chunk::<ICRC_LEN>()?;
    let mut covered = covered.to_vec();
    if covered.len() < ip_len + UDP_LEN + BTH_LEN {
        return None;
    }
    if ip_len == IPV6_LEN {
        covered[0] |= 0xF;
    }
    let udp_checksum = [ip_len + 6, ip_len + 7];
    let reserved = ip_len + UDP_LEN + 4;
    for &at in masked.iter().chain(&udp_checksum).chain([&reserved]) {
        covered[at] = 0xFF;
    }
    let crc = IcrcEnds::extend(IcrcEnds::extend(0, &LRH), &covered);
    Some(crc == u32::from_le_bytes(*icrc))
}

fn word(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Acknowledgements that rxe of Linux 6.1 has sent over IPv4 and IPv6, with Ethernet's header.
    const RXE: [&str; 2] = [
        "525400770101525400770102080045000030eb19400040113907\
         0a4d01020a4d0101c0d412b7001c0000\
         1100ffff00c5000100f36a7c1f00000179a5f643",
        "52540077010152540077010286dd60000000001c1140\
         fd770000000000010000000000000002fd770000000000010000000000000001\
         d0a512b7001c0000\
         1100ffff0064d001003b2b731f000001f70e4302",
    ];

    fn frame(hex: &str) -> Vec<u8> {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("a byte");
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    /// A right packet.
    pub(in crate::softroce) fn rxe_frame() -> Vec<u8> {
        frame(RXE[0])
    }

    #[test]
    fn packets_of_rxe_are_right_until_a_covered_byte_changes() {
        for (hex, ip_len, masked) in [(RXE[0], 20, [1, 8, 10]), (RXE[1], IPV6_LEN, [1, 3, 7])] {
            let frame = frame(hex);
            assert_eq!(is_right(&frame), Some(true));
            let udp = ETHERNET_LEN + ip_len;
            let bth = udp + UDP_LEN;
            // The last byte of the source address; its port; opcode, queue pair and PSN; AETH.
            let address = ETHERNET_LEN + if ip_len == IPV6_LEN { 23 } else { 15 };
            for at in [address, udp, bth, bth + 7, bth + 11, bth + 12] {
                assert_eq!(is_right(&changed(&frame, at)), Some(false), "byte {at}");
            }
            let changing = masked.map(|at| ETHERNET_LEN + at);
            for at in changing.into_iter().chain([0, udp + 6, bth + 4]) {
                assert_eq!(is_right(&changed(&frame, at)), Some(true), "byte {at}");
            }
            assert_eq!(is_right(&frame[..bth]), None);
        }
    }

    fn changed(frame: &[u8], at: usize) -> Vec<u8> {
        let mut changed = frame.to_vec();
        changed[at] ^= 1;
        changed
    }

    #[test]
    fn frames_of_a_capture_are_as_long_as_it_says() {
        let mut file = 0xA1B2_C3D4_u32.to_le_bytes().to_vec();
        file.extend([0; 20]);
        file.extend([0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 7, 8, 9]);
        assert_eq!(frames(&file), Some(vec![&[7, 8, 9][..]]));
        assert_eq!(frames(&file[..file.len() - 1]), None);
        assert_eq!(frames(&[0x0A; 60]), None);
    }
}
