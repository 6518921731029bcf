//! The system call that receives, and its control messages.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::RawFd;
use std::ptr;

use super::packet_info::{called_v4, called_v6};
use super::send::ECN_BITS;
use super::send::Refusal;
use crate::link::{Datagrams, LocalAddr};

/// Room for the requested control messages: segment size, TOS, traffic class and drops take 24
/// bytes each, the address 40.
const CONTROL: usize = 192;
/// Both ECN bits: congestion experienced (RFC 3168, section 5).
const CE: u8 = ECN_BITS;

#[repr(C, align(8))]
struct ReceiveControl(MaybeUninit<[u8; CONTROL]>);

/// Datagrams of one sender that the kernel has merged (GRO), or a single one.
pub(super) struct ReceivedBatch {
    len: usize,
    from: SocketAddr,
    notes: Notes,
    /// Whether the bytes or the control messages were truncated. Such a batch must not be used.
    pub(super) truncated: bool,
    /// The socket's total number of dropped datagrams when this batch arrived. It wraps.
    pub(super) kernel_drops: Option<u32>,
}

#[derive(Default)]
struct Notes {
    /// Bytes of each datagram but the last. 0: there is only one.
    segment: usize,
    congestion: bool,
    drops: Option<u32>,
    called: LocalAddr,
}

impl ReceivedBatch {
    /// Hands the datagrams in `bounce` to `sink`. Returns their number.
    pub(super) fn hand_out(&self, bounce: &mut [u8], sink: &mut dyn FnMut(Datagrams<'_>)) -> usize {
        let Notes { congestion, called, .. } = self.notes;
        let from = self.from;
        let bytes = &mut bounce[..self.len];
        let segment_len = if self.notes.segment == 0 { self.len } else { self.notes.segment };
        let datagrams = self.len.div_ceil(segment_len.max(1)).max(1);
        sink(Datagrams { from, called, congestion, segment_len, bytes });
        datagrams
    }
}

/// Takes the next batch out of the socket. `None`: none has arrived.
pub(super) fn recv_batch(fd: RawFd, bounce: &mut [u8]) -> io::Result<Option<ReceivedBatch>> {
    // SAFETY: zero is a valid value: family 0, which is no family of addresses.
    let mut from: libc::sockaddr_in6 = unsafe { mem::zeroed() };
    let mut control = ReceiveControl(MaybeUninit::uninit());
    let mut slice = libc::iovec { iov_base: bounce.as_mut_ptr().cast(), iov_len: bounce.len() };
    // SAFETY: `msghdr` is plain data of which zero is a valid value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = ptr::from_mut(&mut from).cast();
    message.msg_namelen = mem::size_of_val(&from) as _;
    message.msg_iov = ptr::from_mut(&mut slice);
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    let Some(len) = receive(fd, &mut message)? else { return Ok(None) };
    let Some(from) = sender(&from) else {
        return Err(io::Error::other("a datagram came without a sender's address"));
    };
    let notes = read_notes(&message);
    Ok(Some(ReceivedBatch {
        len,
        from,
        truncated: message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
        kernel_drops: notes.drops,
        notes,
    }))
}

/// The address that the kernel has written. An IPv4 address embedded in IPv6 is returned as IPv4.
fn sender(name: &libc::sockaddr_in6) -> Option<SocketAddr> {
    match libc::c_int::from(name.sin6_family) {
        libc::AF_INET6 => {
            let (ip, port) = (Ipv6Addr::from(name.sin6_addr.s6_addr), u16::from_be(name.sin6_port));
            Some(match ip.to_ipv4_mapped() {
                Some(ip) => SocketAddr::from((ip, port)),
                None => SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id).into(),
            })
        }
        libc::AF_INET => {
            // SAFETY: the family says that this is what it is; it is shorter, and plain data.
            let name = unsafe { ptr::from_ref(name).cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from_bits(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(name.sin_port))))
        }
        _ => None,
    }
}

/// Calls `recvmsg` without blocking. Returns the number of bytes. `message` must describe live
/// buffers.
fn receive(fd: RawFd, message: &mut libc::msghdr) -> io::Result<Option<usize>> {
    loop {
        // SAFETY: the one caller has filled `message` with buffers of its own and their lengths.
        let len = unsafe { libc::recvmsg(fd, ptr::from_mut(message), libc::MSG_DONTWAIT) };
        if let Ok(len) = usize::try_from(len) {
            return Ok(Some(len));
        }
        let error = io::Error::last_os_error();
        match Refusal::of(&error) {
            Refusal::Full => return Ok(None),
            _ if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

fn read_notes(message: &libc::msghdr) -> Notes {
    let mut notes = Notes::default();
    // SAFETY: the kernel has filled the control buffer and set its length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(ptr::from_ref(message)) };
    // SAFETY: FIRSTHDR and NXTHDR return null or a whole header inside the control buffer.
    while let Some(header) = unsafe { next.as_ref() } {
        match (header.cmsg_level, header.cmsg_type) {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                notes.segment = value::<i32>(header).map_or(0, |size| size.max(0) as usize);
            }
            // The IPv4 value is one byte, unlike the IPv6 value.
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                notes.congestion |= value::<u8>(header).is_some_and(|tos| tos & CE == CE);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                notes.congestion |=
                    value::<i32>(header).is_some_and(|class| class as u8 & CE == CE);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                notes.called = value(header).map(called_v4).unwrap_or_default();
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                notes.called = value(header).map(called_v6).unwrap_or_default();
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => notes.drops = value::<u32>(header),
            _ => {}
        }
        // SAFETY: as above; `next` is one of this message's headers.
        next = unsafe { libc::CMSG_NXTHDR(ptr::from_ref(message), next) };
    }
    notes
}

/// The value behind a header. `None`: it is shorter than `T`. `T` is plain data.
fn value<T: Copy>(header: &libc::cmsghdr) -> Option<T> {
    // SAFETY: CMSG_LEN is arithmetic on its argument.
    let needed = unsafe { libc::CMSG_LEN(mem::size_of::<T>() as u32) } as usize;
    if header.cmsg_len < needed as _ {
        return None;
    }
    // SAFETY: `cmsg_len` says that at least `T`'s bytes follow the header in the same buffer.
    Some(unsafe { libc::CMSG_DATA(ptr::from_ref(header)).cast::<T>().read_unaligned() })
}
