//! The sockets: how they are opened, and the system calls that move bytes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

use braid_transport::{AddrPair, Sge};
use libc::c_int;
use smallvec::SmallVec;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::link::udp::{canonical, leave_by, sends_from};
use crate::link::{Slice, SocketError};

/// The longest queue of connections that the listener has not accepted. The system may grant less
/// (`net.core.somaxconn`).
const BACKLOG: c_int = 4096;
/// Time after which a connection ends whose bytes the peer's host does not acknowledge, as with a
/// cut cable. The engine takes a silent peer for dead after 3 s.
const USER_TIMEOUT: Duration = Duration::from_secs(3);
/// Silence after which the kernel asks whether the peer's host still knows the connection.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// The congestion control of the kernel, whatever the system's default is: bbr paces itself far
/// below the capacity of a path without a queue of its own.
const CONGESTION: &str = "cubic";
/// The longest slice list of `sendmsg` (`UIO_MAXIOV`).
pub(super) const MAX_SLICES: usize = 1024;

/// Opens the socket that accepts connections at `addr`. `[::]` takes both IP versions, or only IPv4
/// if the kernel has no IPv6.
pub(super) fn listen(addr: SocketAddr) -> io::Result<Socket> {
    let addr = canonical(addr);
    match listen_at(addr) {
        Err(error) if addr.ip().is_unspecified() && addr.is_ipv6() && lacks_ipv6(&error) => {
            listen_at(SocketAddr::from(([0, 0, 0, 0], addr.port())))
        }
        listening => listening,
    }
}

fn lacks_ipv6(error: &io::Error) -> bool {
    let known = SocketError::in_error(error).map(|known| known.source.raw_os_error());
    matches!(known, Some(Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)))
}

fn listen_at(addr: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(addr);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP));
    let socket = socket.map_err(|source| failed("socket(SOCK_STREAM)".to_owned(), source))?;
    if domain == Domain::IPV6 {
        let only = !addr.ip().is_unspecified();
        let set = socket.set_only_v6(only);
        set.map_err(|source| failed(format!("setsockopt(IPV6_V6ONLY, {only})"), source))?;
    }
    // TcpConnections of an earlier listener may still wait for their end.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into()).map_err(|source| failed(format!("bind({addr})"), source))?;
    socket.listen(BACKLOG).map_err(|source| failed(format!("listen({addr})"), source))?;
    Ok(socket)
}

fn failed(call: String, source: io::Error) -> io::Error {
    io::Error::new(source.kind(), SocketError { call, source })
}

/// The address that a socket is bound to.
pub(super) fn local_addr(socket: &Socket) -> io::Result<SocketAddr> {
    let addr = socket.local_addr()?.as_socket();
    addr.ok_or_else(|| io::Error::other("a TCP socket without an IP address"))
}

/// Begins to connect to `pair` from any free port of the address and interface from which a
/// listener at `bound` sends there.
pub(crate) fn dial(bound: SocketAddr, pair: AddrPair) -> io::Result<Socket> {
    let (to, mut from) = (pair.remote, sends_from(bound, &pair));
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    prepare(&socket, to, pair.local.traffic_class)?;
    if !from.ip().is_unspecified() {
        from.set_port(0);
        // The port is chosen when the connection is made, so that connections to different hosts
        // may share one.
        let _ = set(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
        socket.bind(&from.into())?;
    }
    leave_by(&socket, pair.local.interface);
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Takes the next connection. `None`: there is none.
pub(super) fn accept(listener: &Socket) -> io::Result<Option<(Socket, SocketAddr)>> {
    loop {
        match listener.accept4(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) {
            Ok((socket, from)) => match from.as_socket() {
                Some(from) => return Ok(Some((socket, canonical(from)))),
                None => continue,
            },
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN) => return Ok(None),
                // The connection has ended before it was taken.
                Some(libc::EINTR | libc::ECONNABORTED | libc::EPROTO) => continue,
                _ => return Err(error),
            },
        }
    }
}

/// Sets the options of a connection to `to`.
pub(super) fn prepare(socket: &Socket, to: SocketAddr, traffic_class: u8) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 5);
    socket.set_tcp_keepalive(&keepalive.with_retries(3))?;
    if let Err(error) = socket.set_tcp_congestion(CONGESTION.as_bytes()) {
        tracing::debug!(%to, %error, "the system's congestion control is used");
    }
    match (to, traffic_class) {
        (_, 0) => Ok(()),
        (SocketAddr::V4(_), class) => socket.set_tos_v4(class.into()),
        (SocketAddr::V6(_), class) => socket.set_tclass_v6(class.into()),
    }
}

/// Sends the beginning of `slices` without blocking. Returns the number of bytes; `None`: the
/// socket is full.
pub(super) fn send(fd: RawFd, slices: &[Slice<'_>]) -> io::Result<Option<usize>> {
    // SAFETY: `msghdr` is plain data of which zero is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // A slice has the layout of an `iovec`, and the kernel does not write to the list.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len().min(MAX_SLICES) as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: every slice is readable for its lifetime, and the call ends before that.
    retried(|| unsafe { libc::sendmsg(fd, ptr::from_ref(&message), flags) })
}

/// Receives into `room` without blocking. Returns the number of bytes, 0 at the end of the stream;
/// `None`: nothing has arrived.
pub(super) fn receive(socket: &Socket, room: &mut [u8]) -> io::Result<Option<usize>> {
    let fd = socket.as_raw_fd();
    // SAFETY: the kernel writes at most `room.len()` bytes to `room`.
    retried(|| unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) })
}

/// Receives into registered memory without blocking, from byte `from` of the pieces on, and into
/// `tail` behind it. Returns as [`receive`].
///
/// # Safety
/// The pieces must have been checked for writing against a snapshot of the region table that is
/// held.
pub(super) unsafe fn receive_into(
    socket: &Socket,
    pieces: &[Sge],
    from: usize,
    tail: &mut [u8],
) -> io::Result<Option<usize>> {
    let mut slices = SmallVec::<[libc::iovec; 4]>::new();
    let mut skipped = from;
    for piece in pieces {
        let (skip, len) = (skipped.min(piece.len as usize), piece.len as usize);
        skipped -= skip;
        if skip < len {
            let start = ptr::with_exposed_provenance_mut(piece.addr as usize + skip);
            slices.push(libc::iovec { iov_base: start, iov_len: len - skip });
        }
    }
    slices.push(libc::iovec { iov_base: tail.as_mut_ptr().cast(), iov_len: tail.len() });
    // SAFETY: `msghdr` is plain data of which zero is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices.as_mut_ptr();
    message.msg_iovlen = slices.len() as _;
    let fd = socket.as_raw_fd();
    // SAFETY: the caller vouches for the pieces, and `tail` is borrowed by nobody else.
    retried(|| unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) })
}

/// Makes a call again that a signal has interrupted.
fn retried(mut call: impl FnMut() -> isize) -> io::Result<Option<usize>> {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(Some(count));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN) => return Ok(None),
            Some(libc::EINTR) => continue,
            _ => return Err(error),
        }
    }
}

fn set(socket: &Socket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let len = std::mem::size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes at `value`, which is that long.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
