//! Ethernet frames with IPv4 and UDP (RFC 894, 791, 768): writing and reading their headers.
//!
//! The headers match those of the sockets: don't fragment with identification 0, an ECN-capable
//! transport (ECT(0)), and a UDP checksum.

use std::net::{Ipv4Addr, SocketAddrV4};

pub(super) use crate::link::rtnetlink::{MAC_LEN, Mac};
use crate::link::udp::TrafficClass;
use crate::link::{Datagrams, LocalAddr};

pub(super) const ETHERNET: usize = 2 * MAC_LEN + 2;
const IPV4: usize = 20;
const UDP: usize = 8;
/// Bytes in front of a datagram.
pub(super) const HEADERS: usize = ETHERNET + IPV4 + UDP;

/// The EtherType of IPv4.
pub(super) const TYPE_IPV4: u16 = 0x0800;
/// Version 4, and a header without options.
pub(super) const VERSION_AND_LENGTH: u8 = 0x45;
/// IP's number of UDP.
pub(super) const PROTOCOL_UDP: u8 = 17;
/// The bits of flags and fragment offset that a fragment has: more fragments, or an offset.
pub(super) const FRAGMENT: u16 = 0x3fff;
const DONT_FRAGMENT: u16 = 0x4000;
const TTL: u8 = 64;
/// Congestion experienced: both bits (RFC 3168, section 5).
const CE: u8 = 0b11;

/// The two ends of a datagram at each layer.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) source_mac: Mac,
    /// The Ethernet address of the next hop.
    pub(super) target_mac: Mac,
    pub(super) source: SocketAddrV4,
    pub(super) target: SocketAddrV4,
    pub(super) traffic_class: TrafficClass,
}

/// Writes the headers in front of a datagram, which fills the frame from [`HEADERS`] on.
///
/// # Panics
/// Panics if the frame is shorter than the headers or longer than an IP packet.
pub(super) fn write_headers(frame: &mut [u8], ends: &Ends) {
    let udp_len = u16::try_from(frame.len() - ETHERNET - IPV4).expect("short datagrams only");
    let (ethernet, packet) = frame.split_at_mut(ETHERNET);
    ethernet[..MAC_LEN].copy_from_slice(&ends.target_mac);
    ethernet[MAC_LEN..2 * MAC_LEN].copy_from_slice(&ends.source_mac);
    ethernet[2 * MAC_LEN..].copy_from_slice(&TYPE_IPV4.to_be_bytes());
    let (ip, udp) = packet.split_at_mut(IPV4);
    ip[..2].copy_from_slice(&[VERSION_AND_LENGTH, ends.traffic_class.byte()]);
    ip[2..4].copy_from_slice(&(udp_len + IPV4 as u16).to_be_bytes());
    ip[4..6].fill(0);
    ip[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
    ip[8..12].copy_from_slice(&[TTL, PROTOCOL_UDP, 0, 0]);
    ip[12..16].copy_from_slice(&ends.source.ip().octets());
    ip[16..20].copy_from_slice(&ends.target.ip().octets());
    let check = checksum(sum(ip));
    ip[10..12].copy_from_slice(&check.to_ne_bytes());
    udp[..2].copy_from_slice(&ends.source.port().to_be_bytes());
    udp[2..4].copy_from_slice(&ends.target.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    udp[6..8].fill(0);
    // A value of 0 means that there is no checksum. A checksum of 0 has the other form.
    let check = match checksum(pseudo_header(ip, udp_len) + sum(udp)) {
        0 => u16::MAX,
        check => check,
    };
    udp[6..8].copy_from_slice(&check.to_ne_bytes());
}

/// The datagram for `to` in a frame. `None`: the frame carries none, or is malformed.
pub(super) fn read(frame: &mut [u8], to: SocketAddrV4) -> Option<Datagrams<'_>> {
    let (ethernet, packet) = frame.split_at_mut_checked(ETHERNET)?;
    let (ip, rest) = packet.split_at_mut_checked(IPV4)?;
    let short = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let is_ours = short(ethernet, 2 * MAC_LEN) == TYPE_IPV4
        && ip[0] == VERSION_AND_LENGTH
        && short(ip, 6) & FRAGMENT == 0
        && ip[9] == PROTOCOL_UDP
        && ip[16..20] == to.ip().octets();
    let len = usize::from(short(ip, 2)).checked_sub(IPV4)?;
    // A frame has at least 60 bytes. The bytes behind the packet are padding.
    let udp = rest.get_mut(..len)?;
    let is_whole = len >= UDP && usize::from(short(udp, 4)) == len;
    if !is_ours || !is_whole || short(udp, 2) != to.port() || checksum(sum(ip)) != 0 {
        return None;
    }
    let is_damaged = checksum(pseudo_header(ip, len as u16) + sum(udp)) != 0;
    if is_damaged || short(udp, 6) == 0 {
        return None;
    }
    let source = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
    if !is_another_host(source, *to.ip()) {
        return None;
    }
    let from = SocketAddrV4::new(source, short(udp, 0)).into();
    let called = LocalAddr::default();
    let bytes = &mut udp[UDP..];
    let (congestion, segment_len) = (ip[1] & CE == CE, bytes.len());
    Some(Datagrams { from, called, congestion, segment_len, bytes })
}

/// Corrects the checksums of a frame that has all headers, as far as its lengths allow.
#[cfg(fuzzing)]
pub(super) fn repair(frame: &mut [u8]) {
    let (ip, udp) = frame[ETHERNET..].split_at_mut(IPV4);
    ip[10..12].fill(0);
    let check = checksum(sum(ip));
    ip[10..12].copy_from_slice(&check.to_ne_bytes());
    let len = u16::from_be_bytes([ip[2], ip[3]]).saturating_sub(IPV4 as u16);
    if let Some(udp) = udp.get_mut(..usize::from(len)).filter(|udp| udp.len() >= UDP) {
        udp[6..8].fill(0);
        let check = checksum(pseudo_header(ip, len) + sum(udp));
        udp[6..8].copy_from_slice(&check.to_ne_bytes());
    }
}

/// Whether a packet for `own` can come from this source. The network stack would drop others (RFC
/// 1812, section 5.3.7).
fn is_another_host(source: Ipv4Addr, own: Ipv4Addr) -> bool {
    let is_none = source.is_unspecified() || source.is_broadcast() || source.is_multicast();
    !is_none && !source.is_loopback() && source != own
}

/// The pseudo-header that UDP's checksum covers (RFC 768).
fn pseudo_header(ip: &[u8], udp_len: u16) -> u64 {
    sum(&ip[12..20]) + u64::from(u16::from(PROTOCOL_UDP).to_be()) + u64::from(udp_len.to_be())
}

/// The unfolded sum of 16-bit words in the machine's byte order, which a ones' complement sum
/// permits (RFC 1071, section 2B).
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let whole: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    whole + u64::from(u32::from_ne_bytes(last))
}

/// The checksum for this sum. Over bytes that include their checksum it is 0.
fn checksum(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
