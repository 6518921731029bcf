//! Opens and configures sockets.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::ptr;

use braid_wire::{PathId, SOURCE_PORT_BASE};
use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};

use super::addresses::{canonical, of_version};
use super::fallbacks::RefusedOptions;
use super::send::ECT_0;
use crate::link::{AddrPair, LocalAddr, SocketError};

/// Bytes that a path's socket may have in the device's queue.
const SEND_BUFFER: usize = 4 << 20;
/// `IPV6_ADDR_PREFERENCES` and `IPV6_PREFER_SRC_PUBLIC` of `linux/in6.h` (RFC 5014).
const ADDR_PREFERENCES: c_int = 72;
const PREFER_SRC_PUBLIC: c_int = 2;
/// `UDP_NO_CHECK6_RX` of `linux/udp.h`.
const NO_CHECK6_RX: c_int = 102;
/// Alternative port ranges of paths, best first. The first lies above Linux's range for sockets
/// without a port of their own (32768-60999). No two paths share a port.
const SPARE_PORTS: [u16; 3] = [0xF000, 0xE000, 0xD000];

/// Opens the receiving socket. If `addr` is `[::]` and the kernel has no IPv6, it is for IPv4 only.
pub(super) fn open_receiver(
    addr: SocketAddr,
    buffer: usize,
    refused: &mut RefusedOptions,
) -> io::Result<Socket> {
    let error = match bind_receiver(addr, buffer, refused) {
        Ok(socket) => return Ok(socket),
        Err(error) => error,
    };
    let no_ipv6 = matches!(errno(&error), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL));
    if no_ipv6 && addr.is_ipv6() && addr.ip().is_unspecified() {
        tracing::info!(%addr, %error, "this machine has no IPv6: listening on IPv4 alone");
        return open_receiver((Ipv4Addr::UNSPECIFIED, addr.port()).into(), buffer, refused);
    }
    Err(error)
}

fn bind_receiver(
    addr: SocketAddr,
    buffer: usize,
    refused: &mut RefusedOptions,
) -> io::Result<Socket> {
    let socket = open(addr, refused)?;
    let mut options = Options { socket: &socket, refused };
    if addr.is_ipv6() {
        // A socket that also carries IPv4 obeys both sets of options, each for its packets.
        options.need_only_v6(!addr.ip().is_unspecified())?;
    }
    let force = set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, as_int(buffer));
    if force.is_err() {
        // Without privilege the kernel silently reduces the size to its limit.
        let effect = "the receive buffer keeps the system's size";
        options.want("SO_RCVBUF", (libc::SOL_SOCKET, libc::SO_RCVBUF), as_int(buffer), effect);
    }
    let granted = socket.recv_buffer_size()? / 2;
    if granted < buffer {
        tracing::info!(
            wanted = buffer,
            granted,
            "receive buffer below what was asked for; raise sysctl net.core.rmem_max"
        );
    }
    // Kernels before 5.0 have no GRO here. Datagrams then arrive one by one.
    let _ = set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    let uncounted = "datagrams dropped for want of buffer are not counted";
    options.want("SO_RXQ_OVFL", (libc::SOL_SOCKET, libc::SO_RXQ_OVFL), 1, uncounted);
    let unseen = "congestion marks of the network are not seen";
    options.want("IP_RECVTOS", (libc::IPPROTO_IP, libc::IP_RECVTOS), 1, unseen);
    if addr.is_ipv6() {
        let name = (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS);
        options.want("IPV6_RECVTCLASS", name, 1, unseen);
    }
    if addr.ip().is_unspecified() {
        // A peer that has called an address of this host is answered from that address.
        let effect = "peers are answered from the address that the routing table prefers, not from \
                      the one that they have called";
        let (name, option) = match addr {
            SocketAddr::V4(_) => ("IP_PKTINFO", (libc::IPPROTO_IP, libc::IP_PKTINFO)),
            SocketAddr::V6(_) => ("IPV6_RECVPKTINFO", (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)),
        };
        options.want(name, option, 1, effect);
    }
    enable_all_icmp_errors(&socket, addr.is_ipv6());
    options.grow_send_buffer();
    socket.bind(&addr.into()).map_err(|source| failed(format!("bind({addr})"), source))?;
    Ok(socket)
}

/// Accepts datagrams without a UDP checksum over IPv6 (RFC 6935), which Linux drops otherwise.
pub(super) fn accept_unchecked(socket: &Socket, refused: &mut RefusedOptions) {
    let effect = "RoCEv2 packets without a UDP checksum are dropped, as rxe sends them over IPv6";
    let name = (libc::SOL_UDP, NO_CHECK6_RX);
    Options { socket, refused }.want("UDP_NO_CHECK6_RX", name, 1, effect);
}

/// Opens the sending socket of a path to hosts of one IP version. `local` is an address of that
/// version, see [`of_version`].
pub(crate) fn open_path(local: SocketAddr, path: PathId) -> io::Result<Socket> {
    open_path_noting(local, path, &mut RefusedOptions::default())
}

/// Opens the sending socket of a path and records the options that the system refuses.
pub(super) fn open_path_noting(
    local: SocketAddr,
    path: PathId,
    refused: &mut RefusedOptions,
) -> io::Result<Socket> {
    let own = path.source_port();
    match bind_path(local, own, refused) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        other => return other,
    }
    for base in SPARE_PORTS {
        let port = base | path.get();
        match bind_path(local, port, refused) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Ok(socket) => {
                tracing::info!(path = path.get(), own, port, "source port taken: using another");
                return Ok(socket);
            }
            Err(error) => return Err(error),
        }
    }
    let call = format!("bind(source port {own} and its substitutes in {SOURCE_PORT_BASE}-65535)");
    Err(failed(call, io::Error::from_raw_os_error(libc::EADDRINUSE)))
}

/// Enables ICMP messages about datagrams that this socket sends to `to`, those of routers included.
pub(crate) fn enable_icmp_errors(socket: &Socket, to: SocketAddr) -> io::Result<()> {
    match to {
        SocketAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        SocketAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

/// Enables ICMP messages about all datagrams of the socket. An IPv6 socket may carry IPv4, too. If
/// the system has no such messages, a dead peer is detected later.
pub(super) fn enable_all_icmp_errors(socket: &Socket, is_ipv6: bool) {
    let options = [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)];
    for (level, name) in options.into_iter().take(1 + usize::from(is_ipv6)) {
        if let Err(error) = set(socket, level, name, 1) {
            tracing::info!(
                %error,
                "no ICMP messages: a peer that has died is noticed as late as a silent one"
            );
        }
    }
}

fn bind_path(local: SocketAddr, port: u16, refused: &mut RefusedOptions) -> io::Result<Socket> {
    let addr = SocketAddr::new(local.ip(), port);
    let socket = open(local, refused)?;
    let mut options = Options { socket: &socket, refused };
    if local.is_ipv6() {
        options.need_only_v6(true)?;
    }
    // Every Braid process of the host sends from the same ports, and none receives there.
    let name = (libc::SOL_SOCKET, libc::SO_REUSEADDR);
    options.want("SO_REUSEADDR", name, 1, "other processes cannot send from the same ports");
    // Datagrams of strangers find no room. Without this they would occupy memory.
    let _ = set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 0);
    options.grow_send_buffer();
    let addr = match local {
        SocketAddr::V4(_) => addr,
        // Keeps the scope of a link-local address.
        SocketAddr::V6(mut local) => {
            local.set_port(port);
            local.into()
        }
    };
    socket.bind(&addr.into()).map_err(|source| failed(format!("bind({addr:?})"), source))?;
    Ok(socket)
}

/// Opens a socket of either kind.
fn open(addr: SocketAddr, refused: &mut RefusedOptions) -> io::Result<Socket> {
    let domain = if addr.is_ipv4() { "AF_INET" } else { "AF_INET6" };
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))
        .map_err(|source| failed(format!("socket({domain}, SOCK_DGRAM)"), source))?;
    let mut options = Options { socket: &socket, refused };
    // Paths must carry whole datagrams, so the DF bit is set. PROBE is used because DO lowers the
    // MTU when an ICMP message says so, and such messages can be forged. PROBE also makes the
    // kernel send IP id 0 from an unconnected socket, and a RoCEv2 ICRC needs a known id.
    let fragmented = "datagrams that are too long for a path may be fragmented";
    let discover = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
    options.want("IP_MTU_DISCOVER", discover, libc::IP_PMTUDISC_PROBE, fragmented);
    let unmarked = "packets carry no ECN bits, and congestion shows by loss alone";
    options.want("IP_TOS", (libc::IPPROTO_IP, libc::IP_TOS), ECT_0.into(), unmarked);
    if addr.is_ipv6() {
        let discover = (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
        options.want("IPV6_MTU_DISCOVER", discover, libc::IPV6_PMTUDISC_PROBE, fragmented);
        options.want(
            "IPV6_TCLASS",
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            ECT_0.into(),
            unmarked,
        );
        // A peer identifies a connection by its address, and a temporary address (RFC 8981) would
        // change during the connection.
        let name = (libc::IPPROTO_IPV6, ADDR_PREFERENCES);
        let changing = "a temporary source address may be taken, and change";
        options.want("IPV6_ADDR_PREFERENCES", name, PREFER_SRC_PUBLIC, changing);
    }
    Ok(socket)
}

/// Sets the options of a socket.
struct Options<'a> {
    socket: &'a Socket,
    /// The options that were refused.
    refused: &'a mut RefusedOptions,
}

impl Options<'_> {
    /// Sets an option by its level and number. `effect` is the consequence of its absence.
    fn want(
        &mut self,
        name: &'static str,
        (level, number): (c_int, c_int),
        value: c_int,
        effect: &'static str,
    ) {
        if let Err(error) = set(self.socket, level, number, value) {
            self.refused.record(name, &error, effect);
        }
    }

    fn need_only_v6(&self, only: bool) -> io::Result<()> {
        let set = self.socket.set_only_v6(only);
        set.map_err(|source| failed(format!("setsockopt(IPV6_V6ONLY, {})", u8::from(only)), source))
    }

    fn grow_send_buffer(&mut self) {
        let size = as_int(SEND_BUFFER);
        if set(self.socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, size).is_err() {
            let effect = "the send buffer keeps the system's size";
            self.want("SO_SNDBUF", (libc::SOL_SOCKET, libc::SO_SNDBUF), size, effect);
        }
    }
}

/// The error of a failed call as a [`SocketError`].
fn failed(call: String, source: io::Error) -> io::Error {
    io::Error::new(source.kind(), SocketError { call, source })
}

/// The errno of a failed call.
pub(super) fn errno(error: &io::Error) -> Option<i32> {
    SocketError::in_error(error).map_or(error.raw_os_error(), |known| known.source.raw_os_error())
}

/// The address that a socket is bound to.
pub(super) fn local_addr(socket: &Socket) -> io::Result<SocketAddr> {
    let addr = socket.local_addr()?.as_socket();
    addr.ok_or_else(|| io::Error::other("a UDP socket without an IP address"))
}

/// Whether this kernel has `UDP_SEGMENT` (Linux 4.18). Older kernels ignore it without an error.
pub(super) fn knows_gso(socket: &Socket) -> bool {
    get(socket, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok()
}

/// Bytes of the largest IP packet on the route of a link that receives at `bound`.
pub(crate) fn route_mtu(bound: SocketAddr, pair: AddrPair) -> io::Result<usize> {
    let to = pair.remote;
    let socket = open_from(bound, pair)?;
    socket
        .connect(&to.into())
        .map_err(|error| io::Error::new(error.kind(), format!("no route to {to}: {error}")))?;
    let mtu = match to {
        SocketAddr::V4(_) => get(&socket, libc::IPPROTO_IP, libc::IP_MTU)?,
        SocketAddr::V6(_) => get(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)?,
    };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// Opens a socket for one destination, with the address and interface from which a link at `bound`
/// sends there, and on any port.
pub(super) fn open_from(bound: SocketAddr, pair: AddrPair) -> io::Result<Socket> {
    let (to, mut from) = (pair.remote, sends_from(bound, &pair));
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    if !from.ip().is_unspecified() {
        from.set_port(0);
        socket.bind(&from.into())?;
    }
    // If this fails, at least the routing table's choice is known.
    leave_by(&socket, pair.local.interface);
    Ok(socket)
}

/// The address from which a link at `bound` sends to this destination, in the destination's IP
/// version.
pub(crate) fn sends_from(bound: SocketAddr, pair: &AddrPair) -> SocketAddr {
    let LocalAddr { ip, interface, .. } = pair.local;
    match ip {
        None => canonical(of_version(bound, pair.remote.ip())),
        Some(IpAddr::V4(ip)) => (ip, bound.port()).into(),
        Some(IpAddr::V6(ip)) => SocketAddrV6::new(ip, bound.port(), 0, interface).into(),
    }
}

/// Makes all datagrams of a socket leave by this interface. For a connected socket that costs
/// nothing. Datagrams that arrive by another interface are dropped from then on. Returns `false` if
/// the system refuses; Linux before 5.7 requires a privilege. 0: the routing table's choice.
pub(crate) fn leave_by(socket: &Socket, interface: u32) -> bool {
    let index = interface as c_int;
    interface == 0 || set(socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, index).is_ok()
}

fn as_int(bytes: usize) -> c_int {
    // The kernel doubles the value in the same type.
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
