//! Congestion marks of plain RoCEv2: ECN bits of packets that leave, and the answers to marks.

use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use braid::{QpId, RoceMtu, RoceRemote, wr};
use braid_wire::{ICRC_LEN, IcrcEnds, RcHeader, RcOpcode, RcPacket};

use crate::faults::every_operation_arrives;
use crate::pair::{Pair, Side, local};

const ECN_CAPABLE: u8 = 2;
const MARKED: u8 = 3;
/// DSCP 48.
const CNP_CLASS: u8 = 0xC0;
const PEER_QP: QpId = QpId::new(0x99);

/// A peer that a test plays by hand.
struct Peer {
    socket: UdpSocket,
    engine: SocketAddr,
    qp: QpId,
}

impl Peer {
    fn new(side: &Side, dcqcn: Option<&str>) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket2::SockRef::from(&socket).set_recv_tos_v4(true).unwrap();
        let mut remote = RoceRemote::new("127.0.0.1".parse().unwrap(), PEER_QP);
        remote.port = socket.local_addr().unwrap().port();
        (remote.recv_psn, remote.mtu) = (100, Some(RoceMtu::B1024));
        remote.ack_timeout = Duration::from_secs(100);
        remote.dcqcn = dcqcn.map(|text| text.parse().unwrap());
        side.qp.connect_roce(&remote).unwrap();
        Peer { socket, engine: side.engine.local_addr(), qp: side.qp.number() }
    }

    fn send(&self, header: &RcHeader, traffic_class: u8) {
        socket2::SockRef::from(&self.socket).set_tos_v4(traffic_class.into()).unwrap();
        let mut bytes = Vec::new();
        header.encode(0, &mut bytes);
        let from = self.socket.local_addr().unwrap();
        IcrcEnds { from, to: self.engine }.append(&mut bytes, 0);
        self.socket.send_to(&bytes, self.engine).unwrap();
    }

    /// Returns the opcode of the next packet, its PSN and its traffic class.
    fn receive(&self) -> (RcOpcode, u32, u8) {
        let mut bytes = [0; 2048];
        let (len, class) = receive(&self.socket, &mut bytes);
        let ends = IcrcEnds { from: self.engine, to: self.socket.local_addr().unwrap() };
        assert!(ends.check(&bytes[..len], 0).is_some(), "a wrong ICRC");
        let header = RcPacket::decode(&bytes[..len]).unwrap().header;
        assert_eq!(header.qp, PEER_QP);
        if header.opcode == RcOpcode::CongestionNotification {
            assert_eq!((len, bytes[4]), (12 + 16 + ICRC_LEN, 0x40), "BECN");
        }
        (header.opcode, header.psn, class)
    }
}

/// Receives a datagram. Returns its length and traffic class.
fn receive(socket: &UdpSocket, bytes: &mut [u8]) -> (usize, u8) {
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut slice = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: zero is a valid value of plain data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
    (message.msg_control, message.msg_controllen) = ((&raw mut control).cast(), 64);
    // SAFETY: the message describes live buffers of these lengths.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let len = usize::try_from(len).expect("a datagram arrives");
    // SAFETY: the kernel has filled the control buffer, and the value of IP_TOS is a byte.
    let class = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null(), "the socket asks for the traffic class");
        *libc::CMSG_DATA(header)
    };
    (len, class)
}

#[test]
fn requests_leave_ecn_capable_with_dcqcn_only() {
    for (dcqcn, expected) in [(None, 0), (Some("10G"), ECN_CAPABLE)] {
        let side = Side::new(&local(), |_| {});
        let peer = Peer::new(&side, dcqcn);
        let piece = side.memory.slice(..10).unwrap();
        side.qp.post_send(wr::write(1, [piece], side.memory.remote().at(0))).unwrap();
        let (opcode, _, class) = peer.receive();
        assert_eq!((opcode, class), (RcOpcode::WriteOnly, expected));
    }
}

#[test]
fn marked_packets_are_counted_and_answered_by_a_cnp() {
    let side = Side::new(&local(), |_| {});
    let peer = Peer::new(&side, None);
    // Requests that were carried out before are acknowledged again.
    let duplicate = RcHeader::new(RcOpcode::SendOnly, peer.qp, 99);
    peer.send(&duplicate, ECN_CAPABLE);
    assert_eq!(peer.receive(), (RcOpcode::Acknowledge, 99, 0));
    assert_eq!(side.engine.counters().marks_received, 0);
    peer.send(&duplicate, MARKED);
    assert_eq!(peer.receive(), (RcOpcode::CongestionNotification, 0, CNP_CLASS));
    assert_eq!(peer.receive(), (RcOpcode::Acknowledge, 99, 0));
    let counters = side.qp.counters();
    assert_eq!((counters.marks_received, counters.cnps_sent), (1, 1));
    assert_eq!(side.engine.counters().marks_received, 1);
    // A CNP is counted, with the option off, too.
    peer.send(&RcHeader::new(RcOpcode::CongestionNotification, peer.qp, 0), CNP_CLASS);
    peer.send(&duplicate, 0);
    assert_eq!(peer.receive(), (RcOpcode::Acknowledge, 99, 0));
    assert_eq!(side.qp.counters().cnps_received, 1);
}

/// The kernel merges the packets again when they arrive (GRO).
#[test]
fn each_packet_of_a_batch_counts() {
    let side = Side::new(&local(), |_| {});
    let peer = Peer::new(&side, None);
    let from = peer.socket.local_addr().unwrap();
    let mut batch = Vec::new();
    for id in 0..4 {
        let mut packet = Vec::new();
        RcHeader::new(RcOpcode::SendOnly, peer.qp, 99).encode(0, &mut packet);
        IcrcEnds { from, to: peer.engine }.append(&mut packet, id);
        batch.extend_from_slice(&packet);
    }
    let len = batch.len() as libc::c_int / 4;
    // SAFETY: the value is an int, as the option has it.
    let set = unsafe {
        let fd = peer.socket.as_raw_fd();
        let value = (&raw const len).cast();
        libc::setsockopt(fd, libc::SOL_UDP, libc::UDP_SEGMENT, value, size_of_val(&len) as _)
    };
    assert_eq!(set, 0);
    socket2::SockRef::from(&peer.socket).set_tos_v4(MARKED.into()).unwrap();
    peer.socket.send_to(&batch, peer.engine).unwrap();
    assert_eq!(peer.receive().0, RcOpcode::CongestionNotification);
    assert_eq!(peer.receive().0, RcOpcode::Acknowledge);
    let counters = side.qp.counters();
    assert_eq!((counters.marks_received, counters.cnps_sent), (4, 1));
    assert_eq!(side.engine.counters().marks_received, 4);
}

#[test]
fn every_operation_arrives_with_dcqcn() {
    for mtu in [RoceMtu::B256, RoceMtu::B4096] {
        let sides = [Side::new(&local(), |_| {}), Side::new(&local(), |_| {})];
        for (own, peer) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
            let addr = peer.engine.local_addr();
            let mut remote = RoceRemote::new(addr.ip(), peer.qp.number());
            (remote.port, remote.mtu) = (addr.port(), Some(mtu));
            remote.dcqcn = Some("10G".parse().unwrap());
            own.qp.connect_roce(&remote).unwrap();
        }
        let [a, b] = sides;
        let remote = b.memory.remote();
        let pair = Pair { a, b, remote };
        every_operation_arrives(&pair);
        let metrics = pair.a.engine.metrics();
        let rates: Vec<_> = metrics.queue_pairs[0]
            .subflows
            .iter()
            .map(|subflow| (subflow.bits_per_second, subflow.in_flight))
            .collect();
        assert_eq!(rates, [(Some(10_000_000_000), 0)]);
    }
}
