//! Tests of connections over a device without hardware. The peer is simulated.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braid_transport::{Access, Followers, NicEpoch, PdId, Placement, Regions, SgList};
use braid_verbs::fake;
use braid_wire::{
    Crc, DataHeader, FRAME_LEN, Frame, NicAddress, Note, NoteBody, Opcode, PathId, QpId, RailId,
    Time, Token,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;

use super::Connections;
use crate::datapath::{Arrived, Closing, Owner, Partner, Readable, SegmentRun, Via};
use crate::verbs::device::Device;
use crate::verbs::segments::Segments;

const MTU: u16 = 1024;
const TOKEN: Token = Token(0x1234_5678);

/// A result of a poll.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Packet(Vec<u8>),
    Placed(PathId),
    Epoch(PathId, u32),
    Room(QpId),
    Refused,
}

struct Host {
    connections: Connections,
    fake: fake::Device,
    now: Time,
}

impl Host {
    fn new(paths: usize) -> Self {
        let fake = fake::Device::new();
        let device = Arc::new(Device::fake(&fake));
        let connections = Connections::new(device, RailId::FIRST, paths, Segments::new(MTU, None))
            .expect("it refuses nothing");
        Host { connections, fake, now: Time::from_nanos(1 << 40) }
    }

    /// Opens a connection whose peer has the same addresses. Returns its address.
    fn join(&mut self, id: u32) -> NicAddress {
        let id = QpId::new(id);
        let owner = Owner { id, token: TOKEN, pd: PdId(0), access: Access::ALL };
        let address = self.connections.open(owner).expect("it refuses nothing");
        let partner =
            Partner { id, token: TOKEN, ip: IpAddr::V4(Ipv4Addr::LOCALHOST), traffic_class: 0 };
        self.connections.join(id, partner, &address).expect("it refuses nothing");
        NicAddress::decode(&address).expect("it is ours")
    }

    /// The current number of a path's NIC queue pair.
    fn nic_qp(&self, id: u32, index: usize) -> Option<u32> {
        self.connections.connections[&QpId::new(id)].nic_qps[index].number()
    }

    fn poll(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut sink = |arrived: Arrived<'_>| {
            seen.push(match arrived {
                Arrived::Packets(packet) => Seen::Packet(packet.bytes.to_vec()),
                Arrived::Placed(path, _) => Seen::Placed(path),
                Arrived::Epoch(_, epoch) => Seen::Epoch(epoch.path, epoch.number),
                Arrived::Room(id) => Seen::Room(id),
                Arrived::Refused => Seen::Refused,
                Arrived::Sealed(_) | Arrived::Ahead(..) | Arrived::Routes(..) | Arrived::Failed => {
                    unreachable!("connections say none of these")
                }
            });
        };
        self.connections.poll(self.now, &Regions::new([0; 16]), &mut sink);
        seen
    }

    /// Polls until nothing arrives any more.
    fn drain(&mut self) {
        let mut poll = || self.connections.poll(self.now, &Regions::new([0; 16]), &mut |_| ());
        assert!((0..10_000).any(|_| poll() == 0), "it is never quiet");
    }

    /// Sends a segment without a payload if there is room. Returns whether there was.
    fn ship(&mut self, id: u32, path: PathId, again: bool) -> bool {
        let header = DataHeader { retransmission: again, ..some_header() };
        let (mut gather, regions) = (SgList::new(), Regions::new([0; 16]));
        let placement = Placement::Staged { closes: None };
        let has_room = self.connections.has_room(QpId::new(id));
        if has_room {
            let payload = Readable::check(&mut gather, (PdId(0), Access::ALL), &regions);
            let segment = SegmentRun {
                followers: Followers::default(),
                session: None,
                rail: RailId::FIRST,
                id: QpId::new(id),
                header: &header,
                payload: payload.expect("there is none"),
                to: SocketAddr::from(([127, 0, 0, 1], 1)).into(),
                path,
                via: Via::Path(path),
                crc: Crc::Off,
                oversize: false,
                placement,
            };
            self.connections.ship(self.now, &segment);
        }
        has_room
    }

    /// Sends segments until there is no room.
    fn fill(&mut self, id: u32, path: PathId, again: bool) {
        assert!((0..10_000).any(|_| !self.ship(id, path, again)), "there is room without end");
    }

    /// Delivers a message on the NIC queue pair of that number.
    fn deliver(&mut self, nic_qp: u32, frame: Frame, body: &[u8]) -> Vec<Seen> {
        assert!(self.fake.deliver(nic_qp, &message(frame, body)), "there is a receive");
        self.poll()
    }

    /// Delivers a packet on the safe NIC queue pair that closes this epoch of path 0.
    fn close(&mut self, address: &NicAddress, epoch: u32) -> Vec<Seen> {
        let safe = *address.nic_qps.last().expect("there is one");
        self.deliver(safe, Frame::packet(PathId::new(0), Some((PathId::new(0), epoch))), b"x")
    }

    fn note(&mut self, address: &NicAddress, id: u32, body: NoteBody) -> Vec<Seen> {
        let note = Note { qp: QpId::new(id), token: TOKEN, body };
        let mut datagram = vec![0; 40];
        datagram.extend(message(Frame::note(), &note.encode()));
        assert!(self.fake.deliver(address.control, &datagram), "there is a receive");
        self.poll()
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    fn made(&self) -> usize {
        self.fake.took("ibv_create_qp")
    }
}

fn message(frame: Frame, body: &[u8]) -> Vec<u8> {
    [&frame.encode()[..], body].concat()
}

fn taken() -> Vec<Seen> {
    vec![Seen::Packet(b"x".to_vec())]
}

#[test]
fn a_nic_qp_is_closed_before_its_packet_is_taken() {
    let mut host = Host::new(2);
    let address = host.join(5);
    let made = host.made();
    assert_eq!(host.close(&address, 0), taken());
    assert_ne!(host.nic_qp(5, 0), Some(address.nic_qps[0]));
    assert!(!host.fake.deliver(address.nic_qps[0], b"late"), "nothing lands there any more");
    assert_eq!(host.close(&address, 0), taken(), "told again");
    assert_eq!(host.made(), made + 1);
}

#[test]
fn an_epoch_that_nobody_was_told_of_is_refused() {
    let mut host = Host::new(2);
    let address = host.join(5);
    let made = host.made();
    for epoch in [1, 7, u32::MAX, u32::MAX] {
        assert_eq!(host.close(&address, epoch), [Seen::Refused], "{epoch}");
    }
    assert_eq!((host.made(), host.nic_qp(5, 0)), (made, Some(address.nic_qps[0])));
    assert_eq!(host.close(&address, 0), taken(), "what was told of still goes");
}

#[test]
fn a_peer_that_closes_all_it_is_told_of_has_nic_qps_made_now_and_then() {
    let mut host = Host::new(2);
    let address = host.join(5);
    let made = host.made();
    for _ in 0..50 {
        let epoch = host.connections.connections[&QpId::new(5)].nic_qps[0].epoch;
        assert_eq!(host.close(&address, epoch), taken(), "it is closed");
        host.pass(10);
    }
    assert_eq!(host.made() - made, 5, "in half a second");
}

#[test]
fn a_peer_that_renews_with_every_note_is_followed_now_and_then() {
    let mut host = Host::new(2);
    let address = host.join(5);
    let before = host.fake.took("ibv_modify_qp");
    let mut followed = 0;
    for epoch in 1..=50 {
        let path = PathId::new(epoch as u16 % 2);
        let body = NoteBody::NewEpoch { path, epoch, nic_qp: 9 };
        let seen = host.note(&address, 5, body);
        followed += seen.len();
        assert!(seen.is_empty() || seen == [Seen::Epoch(path, epoch)]);
        host.pass(10);
    }
    assert_eq!(followed, 10, "of both NIC queue pairs, in half a second");
    assert_eq!(host.fake.took("ibv_modify_qp") - before, 4 * followed);
    let body = NoteBody::NewEpoch { path: PathId::new(0), epoch: u32::MAX, nic_qp: 9 };
    host.pass(1_000);
    assert_eq!(host.note(&address, 5, body).len(), 1);
    assert_eq!(host.note(&address, 5, body).len(), 0, "it is no news");
}

#[test]
fn a_peer_that_asks_without_end_leaves_room_for_acknowledgements() {
    let mut host = Host::new(2);
    let (address, other) = (host.join(5), QpId::new(6));
    host.join(6);
    host.close(&address, 0);
    for _ in 0..300 {
        host.note(&address, 5, NoteBody::Ask { rkey: 1 });
        host.close(&address, 0);
    }
    let before = host.fake.took("post_send");
    (0..100)
        .for_each(|_| host.connections.send_packet(other, PathId::new(0), b"an acknowledgement"));
    assert_eq!(host.fake.took("post_send") - before, 100);
}

#[test]
fn a_nic_qp_that_cannot_be_closed_is_counted_once() {
    let mut host = Host::new(2);
    let address = host.join(5);
    let nic_qp =
        &mut host.connections.connections.get_mut(&QpId::new(5)).expect("it is there").nic_qps[0];
    (0..3).for_each(|_| _ = nic_qp.number_send(None));
    host.fake.set_failing(Some("ibv_modify_qp"));
    for _ in 0..3 {
        assert_eq!(host.close(&address, 0), [], "it might still land");
        assert_eq!(host.connections.outstanding(), 3);
    }
    host.fake.set_failing(None);
    assert_eq!(host.close(&address, 0), taken());
    assert_eq!(host.connections.outstanding(), 0);
    host.fake.set_failing(Some("ibv_modify_qp"));
    host.connections.close(QpId::new(5));
    assert_eq!(host.fake.alive().iter().filter(|what| **what == "qp").count(), 1, "the control's");
}

#[test]
fn no_completion_queue_gets_more_receives_than_it_has_room_for() {
    let mut host = Host::new(16);
    let addresses: Vec<_> = (0..12).map(|id| host.join(5 + id)).collect();
    assert!(!host.fake.is_overcommitted());
    // Packets from before a renewal take room as well.
    for _ in 0..3 {
        for (id, address) in (5..).zip(&addresses) {
            let nic_qp = host.nic_qp(id, 0).expect("it is open");
            while host.fake.deliver(nic_qp, &message(Frame::packet(PathId::new(0), None), b"y")) {}
            let epoch = host.connections.connections[&QpId::new(id)].nic_qps[0].epoch;
            host.close(address, epoch);
        }
        host.pass(1_000);
        host.drain();
    }
    assert!(!host.fake.is_overcommitted());
    let queues = |host: &Host| host.fake.took("ibv_create_cq");
    let before = queues(&host);
    for id in 5..17 {
        host.connections.close(QpId::new(id));
    }
    (0..12).for_each(|id| drop(host.join(105 + id)));
    assert_eq!(queues(&host), before, "room is used again");
    assert!(!host.fake.is_overcommitted());
}

#[test]
fn a_nic_qp_that_has_failed_keeps_nobody_busy() {
    let mut host = Host::new(2);
    let address = host.join(5);
    host.fake.flush(address.nic_qps[0]);
    host.drain();
    assert_eq!(host.close(&address, 0), taken());
    assert!(host.fake.deliver(host.nic_qp(5, 0).expect("it is open"), b"another has its place"));
}

#[test]
fn a_connection_whose_sends_do_not_end_holds_up_no_other() {
    let mut host = Host::new(2);
    (5..9).for_each(|id| drop(host.join(id)));
    let (made, path) = (host.made(), PathId::new(0));
    for id in 5..8 {
        host.fill(id, path, false);
        assert!(host.ship(id + 1, path, false), "the others have room");
        host.fill(id, path, true);
    }
    host.connections.flush();
    assert_eq!(host.made(), made, "no NIC queue pair was given more than it holds");
    assert!(!host.fake.is_overcommitted());
}

#[test]
fn a_path_whose_sends_do_not_end_leaves_room_for_what_takes_the_safe_nic_qp() {
    let mut host = Host::new(2);
    host.join(5);
    let outstanding = |host: &Host, index: usize| {
        host.connections.connections[&QpId::new(5)].nic_qps[index].outstanding()
    };
    (0..200).for_each(|_| assert!(host.ship(5, PathId::new(1), false)));
    host.connections.flush();
    let path = outstanding(&host, 1);
    assert_eq!((path + outstanding(&host, 2), outstanding(&host, 0)), (200, 0));
    assert!((100..200).contains(&path), "{path} took its own");
    assert!(host.ship(5, PathId::new(0), true));
}

#[test]
fn a_full_connection_is_named_once_it_takes_segments_again() {
    let mut host = Host::new(2);
    host.join(5);
    host.join(6);
    host.fill(5, PathId::new(0), false);
    assert!(host.ship(6, PathId::new(0), false));
    assert_eq!(host.poll(), [], "it is still full");
    host.connections.flush();
    host.fake.finish_sends();
    assert_eq!(host.poll(), [Seen::Room(QpId::new(5))]);
    assert!(host.ship(5, PathId::new(0), false));
    assert_eq!(host.poll(), [], "it is told once");
    host.fill(5, PathId::new(0), false);
    host.connections.close(QpId::new(5));
    assert_eq!(host.poll(), [], "it has ended");
}

#[test]
fn a_device_that_is_gone_says_nothing_although_it_still_could() {
    let mut host = Host::new(2);
    let address = host.join(5);
    host.connections.abandon();
    let before = host.fake.took("post_send");
    host.connections.send_packet(QpId::new(5), PathId::new(0), b"a sign of life");
    assert_eq!(host.note(&address, 5, NoteBody::Ask { rkey: 1 }), []);
    assert!(host.ship(5, PathId::new(0), false), "it is lost, and sent again by another rail");
    host.connections.flush();
    assert_eq!(host.fake.took("post_send"), before);
    let epoch = NicEpoch { path: PathId::new(0), number: 0 };
    let closed = host.connections.close_epoch(host.now, QpId::new(5), epoch);
    assert_eq!(closed, Closing::Done, "nothing lands there");
}

/// A hostile peer of an established connection. All its checks are valid.
struct Liar {
    random: Pcg32,
}

impl Liar {
    fn below(&mut self, end: u32) -> u32 {
        self.random.random_range(0..end)
    }

    /// A number that is usually small, and sometimes at the end of the range.
    fn number(&mut self, small: u32) -> u32 {
        match self.below(8) {
            0 => u32::MAX - self.below(2),
            1 => self.random.random(),
            _ => self.below(small),
        }
    }

    fn path(&mut self, nic_qps: usize) -> PathId {
        PathId::new(self.number(nic_qps as u32 + 1) as u16)
    }

    fn header(&mut self) -> Vec<u8> {
        let len = [0, 1, MTU, u16::MAX][self.below(4) as usize];
        let header = DataHeader {
            opcode: [Opcode::Write, Opcode::WriteImm, Opcode::Send][self.below(3) as usize],
            qp: QpId::new(self.number(8)),
            len,
            message_len: len.into(),
            last: true,
            address: u64::from(self.number(9)) << self.below(33),
            ..some_header()
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes
    }

    fn frame(&mut self, nic_qps: usize) -> Frame {
        let path = self.path(nic_qps);
        let closes = (self.below(3) == 0).then(|| (self.path(nic_qps), self.number(4)));
        let (serial, count) = (self.number(4), self.number(20) as u8);
        match self.below(5) {
            0 => Frame::packet(path, closes),
            1 => Frame { closes, ..Frame::headers(serial, count) },
            2 => Frame { closes, ..Frame::note() },
            _ => Frame::packet(path, closes).part(serial, self.number(20) as u8, count),
        }
    }

    fn body(&mut self) -> Vec<u8> {
        match self.below(4) {
            0 => self.header(),
            1 => (0..self.below(20)).flat_map(|_| self.header()).collect(),
            2 => vec![7; usize::from(MTU) - FRAME_LEN],
            _ => vec![7; self.below(3_000) as usize],
        }
    }

    fn note(&mut self, nic_qps: usize) -> Vec<u8> {
        let rkey = self.number(9);
        let body = match self.below(3) {
            0 => NoteBody::Ask { rkey },
            1 => {
                let (addr, len) = (self.number(9).into(), self.number(9).into());
                NoteBody::Tell { rkey, nic_rkey: self.number(9), addr, len }
            }
            _ => NoteBody::NewEpoch {
                path: self.path(nic_qps),
                epoch: self.number(4),
                nic_qp: self.number(9),
            },
        };
        let note = Note { qp: QpId::new([5, 99][self.below(2) as usize]), token: TOKEN, body };
        message(Frame::note(), &note.encode())
    }
}

fn some_header() -> DataHeader {
    DataHeader {
        opcode: Opcode::Write,
        solicited: false,
        ack_request: false,
        qp: QpId::new(5),
        token: TOKEN,
        psn: 0,
        number: 0,
        len: 0,
        last: true,
        retransmission: false,
        address: 0,
        rkey: 0,
        message_len: 0,
        offset: 0,
        imm: 0,
        stamp: 0,
        payload_crc: 0,
        operands: None,
    }
}

#[test]
fn whatever_a_connected_peer_sends_harms_nobody_else() {
    for seed in 0..12 {
        let mut host = Host::new(3);
        let (address, other) = (host.join(5), host.join(6));
        let mut liar = Liar { random: Pcg32::seed_from_u64(seed) };
        let nic_qps = address.nic_qps.len();
        for _ in 0..1_500 {
            let index = liar.below(nic_qps as u32) as usize;
            let nic_qp = host.nic_qp(5, index);
            match (liar.below(10), nic_qp) {
                (0, Some(nic_qp)) => {
                    _ = host.fake.deliver_imm(nic_qp, liar.number(1 << 12), liar.number(5_000));
                }
                (1, _) => {
                    let is_note = liar.below(4) > 0;
                    let datagram = match is_note {
                        true => liar.note(nic_qps),
                        false => message(liar.frame(nic_qps), &liar.header()),
                    };
                    _ = host.fake.deliver(address.control, &[&[0; 40][..], &datagram].concat());
                }
                (2, Some(nic_qp)) if liar.below(50) == 0 => host.fake.flush(nic_qp),
                (3, _) => host.fake.finish_sends(),
                (4, _) => _ = host.ship(5, liar.path(nic_qps), liar.below(2) == 0),
                (5, _) => host.connections.flush(),
                (_, Some(nic_qp)) => {
                    let bytes = message(liar.frame(nic_qps), &liar.body());
                    _ = host.fake.deliver(nic_qp, &bytes);
                }
                _ => {}
            }
            host.pass(liar.below(30).into());
            if liar.below(4) == 0 {
                host.poll();
            }
        }
        host.drain();
        let seen = host.close(&other, 0);
        assert_eq!(seen, taken(), "seed {seed}: another connection goes on");
        assert!(!host.fake.is_overcommitted(), "seed {seed}");
        let nic_qps = host.fake.alive().iter().filter(|what| **what == "qp").count();
        assert!(nic_qps <= 1 + 2 * address.nic_qps.len(), "seed {seed}: {nic_qps} NIC queue pairs");
        host.connections.flush();
        host.fake.finish_sends();
        host.connections.quiesce();
        assert_eq!(host.connections.outstanding(), 0, "seed {seed}");
        for connection in host.connections.connections.values() {
            assert_eq!(connection.pool.room(), 256, "seed {seed}: send buffers");
        }
        host.connections.close(QpId::new(5));
        host.connections.close(QpId::new(6));
    }
}
