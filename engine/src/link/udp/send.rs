//! One call that sends.

use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::ptr;

use socket2::SockAddr;

use crate::link::Slice;

/// Bytes of the one control message that a batch needs, with the alignment that the kernel wants.
#[repr(C, align(8))]
struct Control([u8; SEGMENT_SPACE]);

// SAFETY: CMSG_SPACE is arithmetic on its argument.
const SEGMENT_SPACE: usize = unsafe { libc::CMSG_SPACE(mem::size_of::<u16>() as u32) } as usize;

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

/// Sends `slices` as one datagram, or as datagrams of `segment` bytes each, without waiting. `to`: `None`
/// where the socket is connected.
pub(super) fn send_once(
    fd: RawFd,
    to: Option<&SockAddr>,
    slices: &[Slice<'_>],
    segment: Option<u16>,
) -> io::Result<()> {
    if let (None, [slice], None) = (to, slices, segment) {
        // The kernel copies no description of it: a tenth less for a short message.
        // SAFETY: the slice can be read for longer than this call.
        let send = || unsafe {
            libc::send(fd, slice.start().cast(), slice.len(), libc::MSG_DONTWAIT) as i64
        };
        return retry(send).map(|_| ());
    }
    let mut control = Control([0; SEGMENT_SPACE]);
    let mut message = message(to, slices);
    if let Some(segment) = segment {
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = SEGMENT_SPACE as _;
        write_segment(&message, segment);
    }
    // SAFETY: all that `message` points to is borrowed for longer than this call, and the lengths beside
    // the pointers are theirs.
    retry(|| unsafe { libc::sendmsg(fd, ptr::from_ref(&message), libc::MSG_DONTWAIT) as i64 })
        .map(|_| ())
}

/// Sends datagrams, each made of its slices, with one call and without waiting. Returns how many have gone,
/// which is one at least, and less than all where the next was refused.
pub(super) fn send_each(
    fd: RawFd,
    to: Option<&SockAddr>,
    datagrams: &[&[Slice<'_>]],
) -> io::Result<usize> {
    let header = |slices: &&[Slice<'_>]| libc::mmsghdr { msg_hdr: message(to, slices), msg_len: 0 };
    let mut messages: Vec<libc::mmsghdr> = datagrams.iter().map(header).collect();
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

/// Fills the message's control buffer of [`SEGMENT_SPACE`] bytes.
fn write_segment(message: &libc::msghdr, segment: u16) {
    // SAFETY: `msg_control` points to SEGMENT_SPACE bytes, aligned for a `cmsghdr`: room for
    // exactly this header and its `u16`.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(ptr::from_ref(message));
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment);
    }
}
