//! One call that sends.

use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::ptr;

use libc::c_int;
use socket2::SockAddr;

use crate::link::Slice;

/// Where a batch goes.
#[derive(Clone, Copy)]
pub(super) struct Address<'a> {
    /// `None` where the socket is connected.
    pub(super) to: Option<&'a SockAddr>,
    pub(super) is_ipv4: bool,
    /// The batch leaves with the ECN bits that the socket is set to; otherwise with none.
    pub(super) ecn: bool,
}

/// Room for the control messages of a batch, with the alignment that the kernel wants.
#[repr(C, align(8))]
struct Control {
    bytes: [u8; SEGMENT_SPACE + TOS_SPACE],
    used: usize,
}

// SAFETY: CMSG_SPACE is arithmetic on its argument.
const SEGMENT_SPACE: usize = unsafe { libc::CMSG_SPACE(mem::size_of::<u16>() as u32) } as usize;
// SAFETY: as above.
const TOS_SPACE: usize = unsafe { libc::CMSG_SPACE(mem::size_of::<c_int>() as u32) } as usize;

impl Control {
    /// Those of a batch to `address`, segmented into datagrams of `segment` bytes.
    fn new(address: Address<'_>, segment: Option<u16>) -> Self {
        let mut control = Control { bytes: [0; SEGMENT_SPACE + TOS_SPACE], used: 0 };
        if let Some(segment) = segment {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
        if !address.ecn {
            // An IPv4 packet of an IPv6 socket takes the option of IPv4.
            match address.is_ipv4 {
                true => control.push::<c_int>(libc::IPPROTO_IP, libc::IP_TOS, 0),
                false => control.push::<c_int>(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 0),
            }
        }
        control
    }

    /// Adds one. `T` is a plain integer.
    fn push<T: Copy>(&mut self, level: c_int, kind: c_int, value: T) {
        // SAFETY: CMSG_SPACE and CMSG_LEN are arithmetic on their arguments.
        let (space, len) = unsafe {
            let size = mem::size_of::<T>() as u32;
            (libc::CMSG_SPACE(size) as usize, libc::CMSG_LEN(size))
        };
        assert!(self.used + space <= self.bytes.len(), "a batch has two control messages at most");
        let header = self.bytes[self.used..].as_mut_ptr().cast::<libc::cmsghdr>();
        // SAFETY: `space` bytes from there on are ours, aligned as each part is a multiple of 8
        // long: room for exactly this header and its value.
        unsafe {
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = len as _;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
        }
        self.used += space;
    }

    /// Makes it part of a message, which it has to outlive.
    fn attach(&mut self, message: &mut libc::msghdr) {
        if self.used > 0 {
            message.msg_control = self.bytes.as_mut_ptr().cast();
            message.msg_controllen = self.used as _;
        }
    }
}

/// What a failed send says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// The socket's buffer or the device's queue is full.
    Full,
    /// There is no way to the destination just now: no route or neighbour, or a firewall (EPERM)
    /// or a route (EACCES) forbids it.
    Unreachable,
    /// The datagram is larger than the MTU.
    TooLarge,
    /// Perhaps: this kernel, device or route does not segment.
    Segmentation,
    /// Anything else.
    Other,
}

impl Refusal {
    pub(super) fn of(error: &io::Error) -> Refusal {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Refusal::Full,
            Some(
                libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENETDOWN
                | libc::EACCES
                | libc::EPERM,
            ) => Refusal::Unreachable,
            Some(libc::EMSGSIZE) => Refusal::TooLarge,
            // EIO: no checksum offload, or IPsec. EINVAL: a blackhole route, or in older kernels
            // what is EMSGSIZE today, among much else.
            Some(libc::EIO | libc::EINVAL | libc::ENOPROTOOPT) => Refusal::Segmentation,
            _ => Refusal::Other,
        }
    }
}

/// Sends `slices` as one datagram, or as datagrams of `segment` bytes each, without waiting.
pub(super) fn send_once(
    fd: RawFd,
    address: Address<'_>,
    slices: &[Slice<'_>],
    segment: Option<u16>,
) -> io::Result<()> {
    if let (None, [slice], None, true) = (address.to, slices, segment, address.ecn) {
        // The kernel copies no description of it: a tenth less for a short message.
        // SAFETY: the slice can be read for longer than this call.
        let send = || unsafe {
            libc::send(fd, slice.start().cast(), slice.len(), libc::MSG_DONTWAIT) as i64
        };
        return retry(send).map(|_| ());
    }
    let mut control = Control::new(address, segment);
    let mut message = message(address.to, slices);
    control.attach(&mut message);
    // SAFETY: all that `message` points to is borrowed for longer than this call, and the lengths beside
    // the pointers are theirs.
    retry(|| unsafe { libc::sendmsg(fd, ptr::from_ref(&message), libc::MSG_DONTWAIT) as i64 })
        .map(|_| ())
}

/// Sends datagrams, each made of its slices, with one call and without waiting. Returns how many have gone,
/// which is one at least, and less than all where the next was refused.
pub(super) fn send_each(
    fd: RawFd,
    address: Address<'_>,
    datagrams: &[&[Slice<'_>]],
) -> io::Result<usize> {
    let mut control = Control::new(address, None);
    let mut header = |slices: &&[Slice<'_>]| {
        let mut header = message(address.to, slices);
        control.attach(&mut header);
        libc::mmsghdr { msg_hdr: header, msg_len: 0 }
    };
    let mut messages: Vec<libc::mmsghdr> = datagrams.iter().map(&mut header).collect();
    let count = messages.len() as libc::c_uint;
    // SAFETY: as in `send_once`, for each of the `count` messages.
    retry(|| unsafe {
        libc::sendmmsg(fd, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _).into()
    })
    .map(|sent| sent as usize)
}

/// One datagram for the kernel, which borrows `to` and `slices`.
fn message(to: Option<&SockAddr>, slices: &[Slice<'_>]) -> libc::msghdr {
    // SAFETY: `msghdr` is plain data of which zero is a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    if let Some(to) = to {
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len();
    }
    // `Slice` has the layout of `iovec`, and sending only reads through it.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len() as _;
    message
}

/// Calls again what a signal has interrupted.
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
