//! ICMP messages about datagrams that a socket has sent, from the socket's error queue in Linux.
//! [`super::enable_icmp_errors`] enables the queue.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::ptr;

use socket2::{SockAddr, SockAddrStorage, Socket};

/// Room for one control message: `sock_extended_err` and an IPv6 address behind a header take 64
/// bytes.
const CONTROL: usize = 256;
/// Bytes of a `sock_extended_err`. The address of the reporting host follows.
const EXTENDED_ERR: usize = mem::size_of::<libc::sock_extended_err>();

const ICMP_UNREACHABLE: u8 = 3;
const ICMP_PORT_UNREACHABLE: u8 = 3;
const ICMP_FRAGMENTATION_NEEDED: u8 = 4;
const ICMP_TIME_EXCEEDED: u8 = 11;
const ICMPV6_UNREACHABLE: u8 = 1;
const ICMPV6_PORT_UNREACHABLE: u8 = 4;
const ICMPV6_TIME_EXCEEDED: u8 = 3;
/// Code 0 of both: the time to live ended in transit. Code 1 means that a reassembly took too long.
const IN_TRANSIT: u8 = 0;

#[repr(C, align(8))]
struct ErrorControl([u8; CONTROL]);

/// The statement of an ICMP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Complaint {
    /// The time to live ended.
    Expired,
    /// The destination is unreachable.
    Unreachable,
    /// The port is closed, or a firewall pretends so.
    PortUnreachable,
}

/// An ICMP message. Any host that can reach this machine can write one, so the message is not
/// trusted until its quote matches a datagram that was sent.
pub(crate) struct Report {
    /// The destination of the quoted datagram.
    pub(crate) to: Option<SocketAddr>,
    /// The reporting host and its statement. `None`: the message does not concern the path.
    pub(crate) complaint: Option<(IpAddr, Complaint)>,
    /// Bytes of the quoted datagram's payload, at the front of the buffer.
    pub(crate) quoted: usize,
}

/// Takes the oldest entry of the queue. `None`: the queue is empty.
pub(crate) fn next(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<Report>> {
    let mut to = SockAddrStorage::zeroed();
    let mut control = ErrorControl([0; CONTROL]);
    let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: `msghdr` is plain data of which zero is a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = ptr::from_mut(&mut to).cast();
    message.msg_namelen = to.size_of();
    message.msg_iov = ptr::from_mut(&mut slice);
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `message` describes buffers that outlive the call, with their lengths.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), ptr::from_mut(&mut message), flags) };
    let Ok(quoted) = usize::try_from(len) else {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    };
    // SAFETY: the kernel wrote an address of `msg_namelen` bytes there.
    let to = unsafe { SockAddr::new(to, message.msg_namelen) };
    Ok(Some(Report { to: to.as_socket(), complaint: find_complaint(&message), quoted }))
}

fn find_complaint(message: &libc::msghdr) -> Option<(IpAddr, Complaint)> {
    // SAFETY: the kernel has filled the control buffer and set its length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(ptr::from_ref(message)) };
    // SAFETY: FIRSTHDR and NXTHDR return null or a whole header inside the control buffer.
    while let Some(header) = unsafe { next.as_ref() } {
        if let (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) =
            (header.cmsg_level, header.cmsg_type)
        {
            // SAFETY: CMSG_LEN is arithmetic on its argument.
            let head = unsafe { libc::CMSG_LEN(0) };
            let len = header.cmsg_len.saturating_sub(head as _);
            // SAFETY: `cmsg_len` counts the header and the bytes that follow it in the same buffer.
            let note = unsafe { std::slice::from_raw_parts(libc::CMSG_DATA(next), len as _) };
            return parse(note);
        }
        // SAFETY: as above; `next` is one of this message's headers.
        next = unsafe { libc::CMSG_NXTHDR(ptr::from_ref(message), next) };
    }
    None
}

/// Reads a `sock_extended_err` and the address behind it (`ip(7)`, IP_RECVERR).
pub(crate) fn parse(note: &[u8]) -> Option<(IpAddr, Complaint)> {
    let (error, offender) = note.split_at_checked(EXTENDED_ERR)?;
    let (origin, kind, code) = (error[4], error[5], error[6]);
    let complaint = match (origin, kind) {
        (libc::SO_EE_ORIGIN_ICMP, ICMP_TIME_EXCEEDED)
        | (libc::SO_EE_ORIGIN_ICMP6, ICMPV6_TIME_EXCEEDED)
            if code == IN_TRANSIT =>
        {
            Complaint::Expired
        }
        (libc::SO_EE_ORIGIN_ICMP, ICMP_UNREACHABLE) if code == ICMP_PORT_UNREACHABLE => {
            Complaint::PortUnreachable
        }
        (libc::SO_EE_ORIGIN_ICMP6, ICMPV6_UNREACHABLE) if code == ICMPV6_PORT_UNREACHABLE => {
            Complaint::PortUnreachable
        }
        (libc::SO_EE_ORIGIN_ICMP, ICMP_UNREACHABLE) if code != ICMP_FRAGMENTATION_NEEDED => {
            Complaint::Unreachable
        }
        (libc::SO_EE_ORIGIN_ICMP6, ICMPV6_UNREACHABLE) => Complaint::Unreachable,
        _ => return None,
    };
    Some((address(offender)?, complaint))
}

/// The IP address in a `sockaddr_in` or `sockaddr_in6`, IPv4 as IPv4.
fn address(sockaddr: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(*sockaddr.first_chunk()?);
    match i32::from(family) {
        libc::AF_INET => {
            let octets: [u8; 4] = *sockaddr.get(4..)?.first_chunk()?;
            Some(octets.into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = *sockaddr.get(8..)?.first_chunk()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of Linux: errno, origin, type, code, padding, info, data, then the reporting
    /// host.
    fn note(origin: u8, kind: u8, code: u8, offender: &[u8]) -> Vec<u8> {
        let mut note = 113u32.to_ne_bytes().to_vec();
        note.extend([origin, kind, code, 0]);
        note.extend([0; 8]);
        note.extend(offender);
        note
    }

    fn v4(ip: [u8; 4]) -> Vec<u8> {
        let mut sockaddr = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        sockaddr.extend([0, 0]);
        sockaddr.extend(ip);
        sockaddr.extend([0; 8]);
        sockaddr
    }

    fn v6(ip: &str) -> Vec<u8> {
        let mut sockaddr = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
        sockaddr.extend([0; 6]);
        sockaddr.extend(ip.parse::<Ipv6Addr>().unwrap().octets());
        sockaddr.extend([0; 4]);
        sockaddr
    }

    #[test]
    fn icmp_is_read() {
        let router = IpAddr::from([10, 0, 0, 1]);
        let read = |kind, code| parse(&note(2, kind, code, &v4([10, 0, 0, 1])));
        assert_eq!(read(11, 0), Some((router, Complaint::Expired)));
        assert_eq!(read(11, 1), None, "a reassembly that timed out");
        for code in [0, 1, 9, 13] {
            assert_eq!(read(3, code), Some((router, Complaint::Unreachable)));
        }
        assert_eq!(read(3, 3), Some((router, Complaint::PortUnreachable)));
        assert_eq!(read(3, 4), None, "fragmentation needed");
        assert_eq!(read(8, 0), None);
    }

    #[test]
    fn icmpv6_is_read() {
        let router = "fd00::1".parse().unwrap();
        let read = |kind, code| parse(&note(3, kind, code, &v6("fd00::1")));
        assert_eq!(read(3, 0), Some((router, Complaint::Expired)));
        assert_eq!(read(3, 1), None);
        assert_eq!(read(1, 0), Some((router, Complaint::Unreachable)));
        assert_eq!(read(1, 4), Some((router, Complaint::PortUnreachable)));
        assert_eq!(read(2, 0), None, "packet too big");
    }

    #[test]
    fn ipv4_on_a_socket_for_both_is_ipv4() {
        let read = parse(&note(2, 11, 0, &v6("::ffff:10.0.0.1")));
        assert_eq!(read, Some((IpAddr::from([10, 0, 0, 1]), Complaint::Expired)));
    }

    #[test]
    fn short_and_foreign_entries_are_skipped() {
        assert_eq!(parse(&note(1, 11, 0, &v4([10, 0, 0, 1]))), None, "of local origin");
        assert_eq!(parse(&note(2, 11, 0, &[0; 16])), None, "AF_UNSPEC");
        for whole in [note(2, 11, 0, &v4([1; 4])[..8]), note(3, 3, 0, &v6("::2")[..24])] {
            assert!(parse(&whole).is_some());
            for len in 0..whole.len() {
                assert_eq!(parse(&whole[..len]), None, "{len} bytes");
            }
        }
    }
}
