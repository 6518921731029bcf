//! Tests of a worker's rails over devices without hardware. The peer is simulated.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braid_transport::{Access, PdId, Regions};
use braid_verbs::fake;
use braid_wire::{
    FRAME_LEN, Frame, FurtherRail, NicAddress, PathId, QpId, RailId, Routing, Time, Token,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;

use super::{Device, VerbsDatapath};
use crate::datapath::datagram::DatagramDatapath;
use crate::datapath::{Arrived, Datapath, JoinError, Owner, Partner};
use crate::link::mem::{MemFabric, MemLink};
use crate::worker::{LocalRails, PeerAddrs};

const TOKEN: Token = Token(7);
const PATHS: usize = 2;

/// An arrival at the worker.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    Packet(RailId, Vec<u8>),
    Refused,
    Other,
}

struct Host {
    rails: LocalRails,
    fake: fake::Device,
    now: Time,
}

impl Host {
    fn new(count: usize) -> Self {
        let fake = fake::Device::new();
        let fabric = MemFabric::new();
        let open = |rail: usize| -> Box<dyn Datapath> {
            let ip = IpAddr::from([127, 0, 0, rail as u8 + 1]);
            let link = MemLink::bind(&fabric, (ip, 0).into()).expect("nobody is there");
            let device = Arc::new(Device::fake(&fake));
            let socket = DatagramDatapath::new(Box::new(link), Arc::default());
            let rail = RailId::new(rail);
            let opened = VerbsDatapath::open(socket, &device, rail, PATHS, None, Arc::default());
            Box::new(opened.expect("it refuses nothing"))
        };
        let rails = LocalRails::new((0..count).map(open).collect());
        Host { rails, fake, now: Time::from_nanos(1 << 40) }
    }

    fn open(&mut self, id: u32) -> Routing {
        let id = QpId::new(id);
        let owner = Owner { id, token: TOKEN, pd: PdId(0), access: Access::ALL };
        self.rails.open(owner).expect("it refuses nothing")
    }

    /// Joins the host with a peer at these addresses.
    fn join(&mut self, id: u32, theirs: &Routing) -> Result<usize, JoinError> {
        let first = SocketAddr::from(([127, 0, 0, 1], 9));
        let addrs = PeerAddrs::agree(first, &theirs.rails, &self.rails.addrs());
        let id = QpId::new(id);
        let partner =
            Partner { id, token: TOKEN, ip: IpAddr::V4(Ipv4Addr::LOCALHOST), traffic_class: 0 };
        self.rails.join(id, partner, theirs, &addrs)?;
        Ok(addrs.len())
    }

    /// Opens a connection whose peer has the same addresses. Returns the NIC addresses by rail.
    fn connect(&mut self, id: u32) -> Vec<NicAddress> {
        let routing = self.open(id);
        self.join(id, &routing).expect("it refuses nothing");
        nics(&routing)
    }

    fn receive(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        let taken = self.rails.receive(self.now, &Regions::new([0; 16]), &mut |rail, arrived| {
            seen.push(match arrived {
                Arrived::Packets(packet) => Seen::Packet(rail, packet.bytes.to_vec()),
                Arrived::Refused => Seen::Refused,
                _ => Seen::Other,
            });
        });
        taken.expect("it fails never");
        seen
    }

    /// Delivers a packet on the safe NIC queue pair of one rail that closes an epoch of a path of
    /// any rail.
    fn close(&mut self, on: &NicAddress, path: PathId, epoch: u32) -> Vec<Seen> {
        let frame = Frame::packet(PathId::new(0), Some((path, epoch)));
        let safe = *on.nic_qps.last().expect("there is one");
        assert!(self.fake.deliver(safe, &[&frame.encode()[..], b"x"].concat()), "it is received");
        self.receive()
    }

    fn qps(&self) -> usize {
        self.fake.alive().iter().filter(|what| **what == "qp").count()
    }
}

fn nics(routing: &Routing) -> Vec<NicAddress> {
    let further = routing.rails.iter().map(|rail| &rail.nic);
    let all = std::iter::once(&routing.nic).chain(further);
    all.map(|nic| NicAddress::decode(nic).expect("it is ours")).collect()
}

fn path(rail: usize, number: u16) -> PathId {
    PathId::new(number).on(RailId::new(rail))
}

fn taken(rail: usize) -> Vec<Seen> {
    vec![Seen::Packet(RailId::new(rail), b"x".to_vec())]
}

#[test]
fn each_rail_has_nic_queue_pairs_of_its_own() {
    let mut host = Host::new(3);
    let nics = host.connect(5);
    let mut numbers: Vec<u32> = nics.iter().flat_map(|nic| nic.nic_qps.clone()).collect();
    numbers.extend(nics.iter().map(|nic| nic.control));
    let count = numbers.len();
    numbers.sort();
    numbers.dedup();
    assert_eq!((numbers.len(), count), (12, 12));
}

#[test]
fn an_epoch_of_another_rail_is_closed_before_the_packet_is_taken() {
    let mut host = Host::new(3);
    let nics = host.connect(5);
    for (by, of) in [(0, 1), (1, 0), (2, 1), (0, 2)] {
        let epoch = u32::from((by, of) == (2, 1));
        assert_eq!(host.close(&nics[by], path(of, 0), epoch), taken(by), "{by} has {of}'s closed");
        assert!(!host.fake.deliver(nics[of].nic_qps[0], b"late"), "nothing lands there any more");
        assert!(nics[of].nic_qps[1..].iter().all(|other| host.fake.deliver(*other, b"these stay")));
        host.now += Duration::from_secs(1);
        host.receive();
    }
}

#[test]
fn a_packet_waits_for_a_device_that_does_not_close() {
    let mut host = Host::new(2);
    let nics = host.connect(5);
    host.fake.set_failing(Some("ibv_modify_qp"));
    assert_eq!(host.close(&nics[1], path(0, 0), 0), [], "it might still land");
    host.fake.set_failing(None);
    assert_eq!(host.close(&nics[1], path(0, 0), 0), taken(1));
}

#[test]
fn lies_about_other_rails_close_nothing_and_are_refused() {
    let mut host = Host::new(2);
    let nics = host.connect(5);
    let made = host.fake.took("ibv_create_qp");
    for (rail, number, epoch) in
        [(1, 0, 1), (1, 0, u32::MAX), (1, 2, 0), (1, 4095, 0), (2, 0, 0), (7, 0, 0)]
    {
        let what = format!("epoch {epoch} of path {number} on rail {rail}");
        assert_eq!(host.close(&nics[0], path(rail, number), epoch), [Seen::Refused], "{what}");
    }
    assert_eq!(host.fake.took("ibv_create_qp"), made);
    assert!(nics.iter().flat_map(|nic| &nic.nic_qps).all(|nic_qp| host.fake.deliver(*nic_qp, b"")));
}

#[test]
fn a_connection_has_no_nic_queue_pairs_on_rails_that_the_peer_has_not() {
    let mut host = Host::new(3);
    let before = host.qps();
    let mut routing = host.open(5);
    routing.rails.truncate(1);
    assert_eq!(host.join(5, &routing).expect("two rails are left"), 2);
    assert_eq!(host.qps() - before, 2 * (PATHS + 1));
    let nics = nics(&routing);
    assert_eq!(host.close(&nics[0], path(2, 0), 0), [Seen::Refused], "it was not given this rail");
}

#[test]
fn addresses_that_cannot_be_are_refused_with_their_rail() {
    let mut host = Host::new(2);
    let before = host.qps();
    let mut refused = |change: &dyn Fn(&mut Routing)| {
        let mut routing = host.open(5);
        change(&mut routing);
        let error = host.join(5, &routing).expect_err("it cannot be");
        assert_eq!(host.qps(), before, "nothing is left joined on any rail");
        error.to_string()
    };
    let no_nic = refused(&|routing| routing.rails[0].nic.clear());
    assert!(no_nic.starts_with("rail 1: the peer sends over UDP"), "{no_nic}");
    let short = refused(&|routing| routing.rails[0].nic.truncate(40));
    assert!(short.starts_with("rail 1: the peer's description"), "{short}");
    let paths = refused(&|routing| routing.rails[0].nic.extend([0; 3]));
    assert!(paths.starts_with("rail 1: the peer has 3 paths"), "{paths}");
    let mtu = refused(&|routing| routing.rails[0].nic[3] ^= 1);
    assert!(mtu.starts_with("rail 1: the peer's RDMA port has an MTU"), "{mtu}");
}

#[test]
fn more_rails_than_offered_and_repeated_addresses_harm_nobody() {
    let mut host = Host::new(2);
    let mut routing = host.open(5);
    let same = FurtherRail { nic: routing.nic.clone(), ..routing.rails[0].clone() };
    routing.rails = vec![same; 7];
    assert_eq!(host.join(5, &routing).expect("it is the peer's own affair"), 2);
    let other = host.connect(6);
    assert_eq!(host.close(&other[1], path(0, 0), 0), taken(1));
}

#[test]
fn whatever_a_connected_peer_sends_on_any_rail_harms_nobody_else() {
    for seed in 0..8 {
        let mut host = Host::new(3);
        let mut random = Pcg32::seed_from_u64(seed);
        let (nics, other) = (host.connect(5), host.connect(6));
        let made = host.qps();
        for _ in 0..1_000 {
            let on = &nics[random.random_range(0..nics.len())];
            let nic_qp = on.nic_qps[random.random_range(0..on.nic_qps.len())];
            let of = path(random.random_range(0..8), random.random_range(0..4));
            let closes = random.random_bool(0.7).then(|| (of, random.random_range(0..3)));
            let mut frame = Frame::packet(PathId::new(random.random_range(0..4)), closes);
            if random.random_bool(0.3) {
                frame = frame.part(random.random_range(0..3), random.random_range(0..2), 2);
            }
            let len = random.random_range(0..1024 - FRAME_LEN);
            // A closed NIC queue pair has no receive buffers.
            let _ = host.fake.deliver(nic_qp, &[&frame.encode()[..], &vec![7; len]].concat());
            host.now += Duration::from_millis(random.random_range(0..30));
            if random.random_bool(0.3) {
                host.receive();
            }
        }
        while !host.receive().is_empty() {}
        for (by, of) in [(0, 1), (1, 2), (2, 0)] {
            let seen = host.close(&other[by], path(of, 0), 0);
            assert_eq!(seen, taken(by), "seed {seed}: another connection goes on");
        }
        assert!(!host.fake.is_overcommitted(), "seed {seed}");
        assert!(host.qps() <= made, "seed {seed}");
    }
}
