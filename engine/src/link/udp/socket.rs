//! Opens sockets and sets them up.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::ptr;

use braid_wire::{PathId, SOURCE_PORT_BASE};
use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};

use super::canonical;

/// Bytes that a path's socket may have waiting in the device's queue.
const SEND_BUFFER: usize = 4 << 20;
/// ECN: this transport understands congestion marks (RFC 3168, section 5).
const ECT_0: u32 = 0b10;
/// `IPV6_ADDR_PREFERENCES` and `IPV6_PREFER_SRC_PUBLIC` of `linux/in6.h` (RFC 5014).
const ADDR_PREFERENCES: c_int = 72;
const PREFER_SRC_PUBLIC: c_int = 2;
/// What other ports a path may have, best first. The first lies above what Linux hands out to
/// sockets without a port of their own (32768-60999); no two paths share any.
const SPARE_PORTS: [u16; 3] = [0xF000, 0xE000, 0xD000];

/// Opens the receiving socket, for IPv4 alone if `addr` is `[::]` and the kernel has no IPv6.
pub(super) fn open_receiver(addr: SocketAddr, buffer: usize) -> io::Result<Socket> {
    let error = match bind_receiver(addr, buffer) {
        Ok(socket) => return Ok(socket),
        Err(error) => error,
    };
    let no_ipv6 = matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL));
    if no_ipv6 && addr.is_ipv6() && addr.ip().is_unspecified() {
        tracing::info!(%addr, %error, "this machine has no IPv6: listening on IPv4 alone");
        return open_receiver((Ipv4Addr::UNSPECIFIED, addr.port()).into(), buffer);
    }
    Err(io::Error::new(error.kind(), format!("cannot receive on UDP {addr}: {error}")))
}

fn bind_receiver(addr: SocketAddr, buffer: usize) -> io::Result<Socket> {
    let socket = open(addr)?;
    if addr.is_ipv6() {
        // One that also carries IPv4 obeys both sets of options, each for its packets.
        socket.set_only_v6(!addr.ip().is_unspecified())?;
    }
    let force = set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, as_int(buffer));
    if force.is_err() {
        // Without privilege; the kernel takes off silently what is above its limit.
        socket.set_recv_buffer_size(buffer)?;
    }
    let granted = socket.recv_buffer_size()? / 2;
    if granted < buffer {
        tracing::info!(
            wanted = buffer,
            granted,
            "receive buffer below what was asked for; raise sysctl net.core.rmem_max"
        );
    }
    // Kernels before 5.0 have no GRO here; then datagrams come one by one.
    let _ = set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    set(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    socket.set_recv_tos_v4(true)?;
    if addr.is_ipv6() {
        socket.set_recv_tclass_v6(true)?;
    }
    hear_all_errors(&socket, addr.is_ipv6());
    grow_send_buffer(&socket)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// Opens the sending socket of a path to hosts of one IP version; `local`: an address of that version, see [`of_version`].
pub(crate) fn open_path(local: SocketAddr, path: PathId) -> io::Result<Socket> {
    let own = path.source_port();
    match bind_path(local, own) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        other => return other,
    }
    for base in SPARE_PORTS {
        let port = base | path.get();
        match bind_path(local, port) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Ok(socket) => {
                tracing::info!(path = path.get(), own, port, "source port taken: using another");
                return Ok(socket);
            }
            Err(error) => return Err(error),
        }
    }
    let message = format!(
        "source port {own} and its substitutes in {SOURCE_PORT_BASE}-65535 are taken by other programs"
    );
    Err(io::Error::new(io::ErrorKind::AddrInUse, message))
}

/// Has the kernel tell this socket of ICMP messages about what it sends to `to`, those of routers among them.
pub(crate) fn hear_errors(socket: &Socket, to: SocketAddr) -> io::Result<()> {
    match to {
        SocketAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        SocketAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

/// The same of what it sends to anybody. An IPv6 socket may carry IPv4, too. Where the system has
/// no such messages, a peer that has died is noticed later.
pub(super) fn hear_all_errors(socket: &Socket, is_ipv6: bool) {
    let options = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
    for (level, name) in options.into_iter().take(1 + usize::from(is_ipv6)) {
        if let Err(error) = set(socket, level, name, 1) {
            tracing::info!(%error, "no ICMP messages: a peer that has died is noticed as late as a silent one");
        }
    }
}

/// Where a link that receives at `local` sends to hosts of `to`'s version from. `[::]` receives from both, and sends to each
/// from sockets of its own version: to IPv4 the kernel looks up the route for every batch of an IPv6 socket, connected or not.
pub(crate) fn of_version(local: SocketAddr, to: IpAddr) -> SocketAddr {
    match local.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() && to.is_ipv4() => {
            (Ipv4Addr::UNSPECIFIED, local.port()).into()
        }
        _ => local,
    }
}

fn bind_path(local: SocketAddr, port: u16) -> io::Result<Socket> {
    let addr = SocketAddr::new(local.ip(), port);
    let socket = open(local)?;
    if local.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Every Braid process of the host sends from the same ports, and nothing is received there.
    socket.set_reuse_address(true)?;
    socket.set_recv_buffer_size(0)?;
    grow_send_buffer(&socket)?;
    let addr = match local {
        SocketAddr::V4(_) => addr,
        // Keeps the scope of a link-local address.
        SocketAddr::V6(mut local) => {
            local.set_port(port);
            local.into()
        }
    };
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// What both kinds of socket have in common.
fn open(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    // Paths must carry whole datagrams, so the DF bit is set. PROBE and not DO: DO lowers the MTU
    // when an ICMP message says so, and anyone may have written that. It also makes the kernel
    // send IP id 0 from an unconnected socket, which a RoCEv2 ICRC needs to be known.
    set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    socket.set_tos_v4(ECT_0)?;
    if addr.is_ipv6() {
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        socket.set_tclass_v6(ECT_0)?;
        // A peer knows a connection by its address: a temporary one (RFC 8981) would change under it.
        set(&socket, libc::IPPROTO_IPV6, ADDR_PREFERENCES, PREFER_SRC_PUBLIC)?;
    }
    Ok(socket)
}

fn grow_send_buffer(socket: &Socket) -> io::Result<()> {
    match set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, as_int(SEND_BUFFER)) {
        Ok(()) => Ok(()),
        Err(_) => socket.set_send_buffer_size(SEND_BUFFER),
    }
}

/// The address that a socket is bound to.
pub(super) fn local_addr(socket: &Socket) -> io::Result<SocketAddr> {
    let addr = socket.local_addr()?.as_socket();
    addr.ok_or_else(|| io::Error::other("a UDP socket without an IP address"))
}

/// Whether this kernel has `UDP_SEGMENT` (Linux 4.18). Older ones do not refuse it: they ignore it.
pub(super) fn knows_gso(socket: &Socket) -> bool {
    get(socket, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
}

/// Bytes of the largest IP packet that the route from `local` to `to` takes.
pub(super) fn route_mtu(local: SocketAddr, to: SocketAddr) -> io::Result<usize> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    if !local.ip().is_unspecified() {
        let mut from = canonical(local);
        from.set_port(0);
        socket.bind(&from.into())?;
    }
    socket
        .connect(&to.into())
        .map_err(|error| io::Error::new(error.kind(), format!("no route to {to}: {error}")))?;
    let mtu = match to {
        SocketAddr::V4(_) => get(&socket, libc::IPPROTO_IP, libc::IP_MTU)?,
        SocketAddr::V6(_) => get(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)?,
    };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

fn as_int(bytes: usize) -> c_int {
    // The kernel doubles it into the same type.
    bytes.min(c_int::MAX as usize / 2) as c_int
}

fn set(socket: &Socket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let len = mem::size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes at `value`, which is that long.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get(socket: &Socket, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = mem::size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes at `value`, which is that long.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_mut(&mut value).cast(),
            ptr::from_mut(&mut len),
        )
    };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
