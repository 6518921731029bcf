//! The datagrams that the process which reads the port hands on to another one. Each packet of an
//! inbox holds datagrams of one sender that the kernel had merged (GRO), and their source.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use braid_transport::LocalAddr;
use nix::sys::socket::{MsgFlags, recv};

use super::unix::send;
use crate::link::Datagrams;

/// Bytes before the datagrams: IP address, scope, port, congestion mark, length of a datagram.
const HEADER: usize = 16 + 4 + 2 + 1 + 4;
/// Bytes of datagrams, at most.
const MAX_BYTES: usize = 1 << 16;
/// Bytes that wait in an inbox, at most, as far as the system grants them. Further ones are lost.
const BUFFER: usize = 4 << 20;

/// The receiving end. Both ends belong to the process, so that it can give the sending end to one
/// process after the other.
pub(super) struct Inbox {
    receiver: UnixDatagram,
    sender: UnixDatagram,
    bytes: Box<[u8]>,
}

impl Inbox {
    pub(super) fn open() -> io::Result<Self> {
        let (receiver, sender) = UnixDatagram::pair()?;
        let socket = socket2::SockRef::from(&sender);
        socket.set_send_buffer_size(BUFFER)?;
        // Without privilege the kernel grants less.
        let _ =
            nix::sys::socket::setsockopt(&sender, nix::sys::socket::sockopt::SndBufForce, &BUFFER);
        Ok(Inbox { receiver, sender, bytes: vec![0; HEADER + MAX_BYTES].into_boxed_slice() })
    }

    /// The end by which another process sends.
    pub(super) fn sender(&self) -> io::Result<OwnedFd> {
        self.sender.as_fd().try_clone_to_owned()
    }

    /// Hands the datagrams of a packet to `sink`. Returns their number, without blocking.
    pub(super) fn recv(&mut self, sink: &mut dyn FnMut(Datagrams<'_>)) -> io::Result<usize> {
        let fd = self.receiver.as_raw_fd();
        let len = match recv(fd, &mut self.bytes, MsgFlags::MSG_DONTWAIT) {
            Ok(len) => len,
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let Some(datagrams) = decode(&mut self.bytes[..len]) else { return Ok(0) };
        let count = datagrams.bytes.len().div_ceil(datagrams.segment_len.max(1));
        sink(datagrams);
        Ok(count.max(1))
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

/// Sends datagrams to an inbox, without blocking.
pub(super) fn forward(
    inbox: BorrowedFd<'_>,
    (from, congestion): (SocketAddr, bool),
    segment_len: usize,
    bytes: &[u8],
) -> io::Result<()> {
    let header = header(from, congestion, segment_len);
    let parts = [IoSlice::new(&header), IoSlice::new(bytes)];
    send(inbox, &parts, None, MsgFlags::MSG_DONTWAIT)
}

fn header(from: SocketAddr, congestion: bool, segment_len: usize) -> [u8; HEADER] {
    let (ip, scope) = match from {
        SocketAddr::V4(from) => (from.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(from) => (*from.ip(), from.scope_id()),
    };
    let mut header = [0; HEADER];
    header[..16].copy_from_slice(&ip.octets());
    header[16..20].copy_from_slice(&scope.to_be_bytes());
    header[20..22].copy_from_slice(&from.port().to_be_bytes());
    header[22] = congestion.into();
    header[23..].copy_from_slice(&(segment_len as u32).to_be_bytes());
    header
}

fn decode(packet: &mut [u8]) -> Option<Datagrams<'_>> {
    let (header, bytes) = packet.split_first_chunk_mut::<HEADER>()?;
    let ip = Ipv6Addr::from(*header.first_chunk::<16>()?);
    let [.., s0, s1, s2, s3, p0, p1, congestion, l0, l1, l2, l3] = *header;
    let (port, scope) = (u16::from_be_bytes([p0, p1]), u32::from_be_bytes([s0, s1, s2, s3]));
    let from = match ip.to_canonical() {
        IpAddr::V4(ip) => (ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
    };
    let segment_len = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let (called, congestion) = (LocalAddr::default(), congestion != 0);
    Some(Datagrams { from, called, congestion, segment_len, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_arrive_with_their_source_until_the_inbox_is_full() {
        let mut inbox = Inbox::open().unwrap();
        let sender = inbox.sender().unwrap();
        for from in ["192.0.2.1:4791", "[fe80::1%3]:50000"] {
            let from: SocketAddr = from.parse().unwrap();
            forward(sender.as_fd(), (from, true), 4, b"abcdefghij").unwrap();
            let count = inbox.recv(&mut |got| {
                assert_eq!((got.from, got.congestion, got.segment_len), (from, true, 4));
                assert_eq!(got.bytes, b"abcdefghij");
            });
            assert_eq!(count.unwrap(), 3);
            assert_eq!(inbox.recv(&mut |_| panic!("there is no second packet")).unwrap(), 0);
        }
        let from = "192.0.2.1:4791".parse().unwrap();
        let packet = vec![7; 60_000];
        let sent =
            (0..1000).take_while(|_| forward(sender.as_fd(), (from, false), 1000, &packet).is_ok());
        let sent = sent.count();
        assert!((2..1000).contains(&sent), "{sent}");
        let got = std::iter::from_fn(|| Some(inbox.recv(&mut |_| {}).unwrap()).filter(|n| *n > 0));
        assert_eq!(got.count(), sent);
    }

    #[test]
    fn malformed_packets_are_dropped() {
        let mut inbox = Inbox::open().unwrap();
        inbox.sender.send(&[1; HEADER - 1]).unwrap();
        assert_eq!(inbox.recv(&mut |_| panic!("it is too short")).unwrap(), 0);
        inbox.sender.send(&[0; HEADER]).unwrap();
        assert_eq!(inbox.recv(&mut |got| assert!(got.bytes.is_empty())).unwrap(), 1);
    }
}
