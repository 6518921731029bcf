//! The system calls that send.

use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::ptr;

use libc::c_int;
use socket2::SockAddr;

use super::packet_info::PacketInfo;
use crate::link::Slice;

/// Room for the control messages of a send: the segment size, the local address, and the traffic
/// class.
const CONTROL: usize = space::<u16>() + space::<libc::in6_pktinfo>() + space::<c_int>();

/// The ECN bits of the traffic class (RFC 3168, section 5).
pub(super) const ECN_BITS: u8 = 0b11;
/// ECN-capable transport, ECT(0).
pub(super) const ECT_0: u8 = 0b10;
/// No ECN-capable transport.
const NOT_ECT: u8 = 0;

/// Bytes that a control message with a value of this type takes.
const fn space<T>() -> usize {
    // SAFETY: CMSG_SPACE is arithmetic on its argument.
    unsafe { libc::CMSG_SPACE(mem::size_of::<T>() as u32) as usize }
}

/// Control messages, with the alignment that the kernel requires.
#[repr(C, align(8))]
struct SendControl {
    bytes: [u8; CONTROL],
    len: usize,
}

impl SendControl {
    /// The control messages of a batch that the kernel segments into datagrams of `segment` bytes.
    fn new(ends: &Addressing, segment: Option<u16>) -> Self {
        let mut control = SendControl { bytes: [0; CONTROL], len: 0 };
        if let Some(segment) = segment {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
        if let Some(from) = &ends.from {
            control.push_local(from);
        }
        let TrafficClass { is_ipv4, .. } = ends.traffic_class;
        // An IPv4 packet of an IPv6 socket takes the option of IPv4.
        let (level, kind) = match is_ipv4 {
            true => (libc::IPPROTO_IP, libc::IP_TOS),
            false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        if !ends.traffic_class.is_default() {
            control.push::<c_int>(level, kind, ends.traffic_class.byte().into());
        }
        control
    }

    /// Adds the local address.
    fn push_local(&mut self, from: &PacketInfo) {
        match *from {
            PacketInfo::V4(info) => self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, info),
            PacketInfo::V6(info) => self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info),
        }
    }

    /// Adds a control message.
    fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        assert!(self.len + space::<T>() <= CONTROL, "there is room for one message of each kind");
        // SAFETY: the header and its value take `space::<T>()` bytes from `len`, which is a
        // multiple of a header's alignment, and they have just been found to lie in the buffer.
        unsafe {
            let header = self.bytes.as_mut_ptr().add(self.len).cast::<libc::cmsghdr>();
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<T>() as u32) as _;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        }
        self.len += space::<T>();
    }

    /// Attaches the control messages to a message, which borrows them.
    fn attach_to(&mut self, message: &mut libc::msghdr) {
        if self.len > 0 {
            message.msg_control = self.bytes.as_mut_ptr().cast();
            message.msg_controllen = self.len as _;
        }
    }
}

/// The two ends of a datagram, as far as the socket does not have them.
pub(super) struct Addressing {
    /// `None`: the socket is connected.
    pub(super) to: Option<SockAddr>,
    /// `None`: the address that the socket is bound to.
    pub(super) from: Option<PacketInfo>,
    pub(super) traffic_class: TrafficClass,
}

/// The DSCP and the ECN bits of a datagram.
#[derive(Clone, Copy)]
pub(crate) struct TrafficClass {
    pub(in crate::link) is_ipv4: bool,
    /// The DSCP in the upper six bits.
    pub(in crate::link) dscp: u8,
    /// Whether the datagram leaves ECN-capable.
    pub(in crate::link) ecn: bool,
}

impl TrafficClass {
    /// Whether the socket's options say the same: ECN-capable, without DSCP.
    fn is_default(self) -> bool {
        self.ecn && self.dscp & !ECN_BITS == 0
    }

    /// The byte in the IP header.
    pub(in crate::link) fn byte(self) -> u8 {
        self.dscp & !ECN_BITS | if self.ecn { ECT_0 } else { NOT_ECT }
    }
}

/// The meaning of a failed send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The socket's buffer is full.
    Full,
    /// The device's queue is full, or a rule of traffic control drops the datagram. The system
    /// reports that only with `IP_RECVERR` (ip(7)).
    Dropped,
    /// There is no route or neighbour now, or a firewall (EPERM) or a route (EACCES) forbids
    /// sending.
    Unreachable,
    /// The datagram is larger than the MTU.
    TooLarge,
    /// Possibly, this kernel, device or route does not segment.
    Segmentation,
    /// Anything else.
    Other,
}

impl Refusal {
    pub(super) fn of(error: &io::Error) -> Refusal {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOMEM) => Refusal::Full,
            Some(libc::ENOBUFS) => Refusal::Dropped,
            Some(
                libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENETDOWN
                | libc::ENODEV
                | libc::ENXIO
                | libc::EACCES
                | libc::EPERM,
            ) => Refusal::Unreachable,
            Some(libc::EMSGSIZE) => Refusal::TooLarge,
            // EIO: no checksum offload, or IPsec. EINVAL: a blackhole route, and in older kernels
            // also today's EMSGSIZE, among others.
            Some(libc::EIO | libc::EINVAL | libc::ENOPROTOOPT) => Refusal::Segmentation,
            _ => Refusal::Other,
        }
    }
}

/// Sends `slices` as one datagram, or as datagrams of `segment` bytes each, without blocking.
pub(super) fn send_once(
    fd: RawFd,
    ends: &Addressing,
    slices: &[Slice<'_>],
    segment: Option<u16>,
) -> io::Result<()> {
    let says_nothing = ends.from.is_none() && ends.traffic_class.is_default();
    if let (None, true, [slice], None) = (&ends.to, says_nothing, slices, segment) {
        // The kernel copies no description of it: a tenth less for a short message.
        // SAFETY: the slice can be read for longer than this call.
        let send = || unsafe {
            libc::send(fd, slice.start().cast(), slice.len(), libc::MSG_DONTWAIT) as i64
        };
        return retry(send).map(|_| ());
    }
    let mut control = SendControl::new(ends, segment);
    let mut message = message(ends, slices);
    control.attach_to(&mut message);
    // SAFETY: all that `message` points to is borrowed for longer than this call, and the lengths
    // beside the pointers are theirs.
    retry(|| unsafe { libc::sendmsg(fd, ptr::from_ref(&message), libc::MSG_DONTWAIT) as i64 })
        .map(|_| ())
}

/// Sends datagrams, each made of its slices, with one call and without blocking. Returns the number
/// that have left: at least one, and fewer than all if the next was refused.
pub(super) fn send_each(
    fd: RawFd,
    ends: &Addressing,
    datagrams: &[&[Slice<'_>]],
) -> io::Result<usize> {
    let mut control = SendControl::new(ends, None);
    let mut header = |slices: &&[Slice<'_>]| {
        let mut message = message(ends, slices);
        control.attach_to(&mut message);
        libc::mmsghdr { msg_hdr: message, msg_len: 0 }
    };
    let mut messages: Vec<libc::mmsghdr> = datagrams.iter().map(&mut header).collect();
    let count = messages.len() as libc::c_uint;
    // SAFETY: as in `send_once`, for each of the `count` messages.
    retry(|| unsafe {
        libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _).into()
    })
    .map(|sent| sent as usize)
}

/// A datagram for the kernel, which borrows `ends` and `slices`.
fn message(ends: &Addressing, slices: &[Slice<'_>]) -> libc::msghdr {
    // SAFETY: `msghdr` is plain data of which zero is a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    if let Some(to) = &ends.to {
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len();
    }
    // `Slice` has the layout of `iovec`, and sending only reads through it.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len() as _;
    message
}

/// Repeats a call that a signal has interrupted.
fn retry(mut call: impl FnMut() -> i64) -> io::Result<i64> {
    loop {
        let done = call();
        if done >= 0 {
            return Ok(done);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
