//! A UDP socket that reports the local address of each datagram (`ip(7)`, `IP_PKTINFO`) and sends
//! from any local address. It also reads the errors that the network reports about single datagrams
//! (`IP_RECVERR`).

use std::ffi::c_int;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use socket2::{Domain, Socket, Type};

use super::datagram::MAX_DATAGRAM;

/// A datagram, or the rest of one that could not be delivered.
pub(super) struct Received {
    bytes: [u8; MAX_DATAGRAM + 1],
    len: usize,
}

impl Received {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A bound socket.
pub(super) struct Udp {
    socket: Socket,
    is_v6: bool,
    addr: SocketAddr,
}

impl Udp {
    /// Binds to an address and port. With `is_shared` another socket that shares may have the port.
    pub(super) fn bind(addr: SocketAddr, is_only_v6: bool, is_shared: bool) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(is_shared)?;
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
        match addr {
            SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => {
                socket.set_only_v6(is_only_v6)?;
                setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
                setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            }
        }
        socket.bind(&addr.into())?;
        let addr = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidData)?;
        Ok(Udp { socket, is_v6: addr.is_ipv6(), addr })
    }

    /// The bound address and port.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets whether other sockets that share may have the port.
    pub(super) fn set_shared(&self, is_shared: bool) -> io::Result<()> {
        self.socket.set_reuse_address(is_shared)
    }

    /// Restricts the socket to datagrams from this address.
    pub(super) fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(&to.into())
    }

    /// Sets the type of service of all datagrams.
    pub(super) fn set_tos(&self, tos: u8) -> io::Result<()> {
        if self.is_v6 {
            self.socket.set_tclass_v6(tos.into())?;
        }
        // An IPv6 socket needs this for the IPv4 datagrams that it sends.
        self.socket.set_tos_v4(tos.into())
    }

    /// Sends a datagram from an address of this host. It is lost if the socket has no room.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn send(&self, bytes: &[u8], from: IpAddr, to: SocketAddr) -> io::Result<()> {
        // The first attempt may report the error of an earlier datagram, which is in the error
        // queue too.
        let sent = self.send_once(bytes, from, to);
        match sent.or_else(|_| self.send_once(bytes, from, to)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    fn send_once(&self, bytes: &[u8], from: IpAddr, to: SocketAddr) -> io::Result<()> {
        let to = if self.is_v6 { mapped(to) } else { to };
        let (v4, v6);
        let info = match (self.is_v6, from) {
            _ if from.is_unspecified() => None,
            (false, IpAddr::V4(ip)) => {
                v4 = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from(ip).to_be() },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                Some(ControlMessage::Ipv4PacketInfo(&v4))
            }
            (false, IpAddr::V6(_)) => None,
            (true, ip) => {
                let s6_addr = match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                let ipi6_addr = libc::in6_addr { s6_addr };
                v6 = libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 };
                Some(ControlMessage::Ipv6PacketInfo(&v6))
            }
        };
        let (fd, bytes) = (self.socket.as_raw_fd(), [IoSlice::new(bytes)]);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        sendmsg(fd, &bytes, info.as_slice(), flags, Some(&SockaddrStorage::from(to)))?;
        Ok(())
    }

    /// The next datagram, with the address of the sender and its local address. `None`: there is
    /// none.
    pub(super) fn recv(&self) -> Option<(Received, SocketAddr, IpAddr)> {
        loop {
            let mut to = self.addr.ip();
            let received = self.recv_with(MsgFlags::MSG_DONTWAIT, |message| match message {
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    to = Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr)).into();
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    to = IpAddr::from(info.ipi6_addr.s6_addr).to_canonical();
                }
                _ => {}
            });
            match received {
                Ok((received, Some(from))) => return Some((received, canonical(from), to)),
                // The error of a datagram is reported here too.
                Ok((_, None)) => {}
                Err(nix::Error::EAGAIN | nix::Error::EBADF) => return None,
                Err(_) => {}
            }
        }
    }

    /// The next error of a datagram, with the part of it that the network has returned. `None`:
    /// there is none.
    pub(super) fn recv_error(&self) -> Option<(Received, c_int)> {
        let mut errno = 0;
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let received = self.recv_with(flags, |message| match message {
            ControlMessageOwned::Ipv4RecvErr(error, _)
            | ControlMessageOwned::Ipv6RecvErr(error, _) => errno = error.ee_errno as c_int,
            _ => {}
        });
        received.ok().map(|(received, _)| (received, errno))
    }

    fn recv_with(
        &self,
        flags: MsgFlags,
        mut control: impl FnMut(ControlMessageOwned),
    ) -> nix::Result<(Received, Option<SocketAddr>)> {
        let mut received = Received { bytes: [0; MAX_DATAGRAM + 1], len: 0 };
        let mut space = cmsg_space!(
            libc::in_pktinfo,
            libc::in6_pktinfo,
            libc::sock_extended_err,
            libc::sockaddr_in6
        );
        let mut slices = [IoSliceMut::new(&mut received.bytes)];
        let fd = self.socket.as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut space), flags)?;
        message.cmsgs()?.for_each(&mut control);
        let (len, from) = (message.bytes, message.address.and_then(|from| socket_addr(&from)));
        received.len = len;
        Ok((received, from))
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn socket_addr(addr: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = addr.as_sockaddr_in().map(|addr| SocketAddr::V4((*addr).into()));
    v4.or_else(|| addr.as_sockaddr_in6().map(|addr| SocketAddr::V6((*addr).into())))
}

/// Converts an IPv4 address that is mapped into IPv6 to IPv4.
pub(super) fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), addr.port()),
        IpAddr::V6(_) => addr,
    }
}

fn mapped(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into(),
        SocketAddr::V6(_) => addr,
    }
}
