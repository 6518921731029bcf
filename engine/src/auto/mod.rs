//! The datapath with two carriers: UDP, and TCP for peers that UDP does not reach. See
//! `docs/tcp.md`.
//!
//! Both carriers receive at the same port number. The worker chooses one for each connection
//! during set-up and names it in the local address of all packets, so nothing is chosen here.

mod silence;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use braid_transport::{AddrPair, Carrier, LocalAddr, Regions};
use braid_wire::{BASE_DATAGRAM, QpId, Time};

use self::silence::Silence;
use crate::datapath::datagram::DatagramDatapath;
use crate::datapath::{
    Arrived, Caps, CarrierTrouble, Datapath, DatapathSetup, Envelope, JoinError, Losses, Owner,
    Partner, PathInfo, PortRefused, Reach, Received, Room, SegmentRun, Sent, Taken, Via,
};
use crate::degradation::Degradation;
use crate::link::roce_batch::RoceBatch;
use crate::paths_to::PathRoute;
use crate::tcp::TcpDatapath;

/// The carrier of connections over TCP. The first carrier is UDP.
const TCP: Carrier = Carrier(1);
/// A carrier without peers is looked at once in so many receive calls, because an empty look costs
/// a system call.
const SELDOM: u32 = 16;

/// Time in which connections to a peer begin over TCP after UDP was found not to pass.
const TCP_FIRST: Duration = Duration::from_secs(10);

/// A watched peer.
struct Watched {
    /// The reason why the peer over TCP is not reached by UDP, if this end has chosen.
    why_tcp: Option<String>,
    /// The time at which UDP was found not to pass, or at which the peer was first watched.
    since: Instant,
    /// The silence of the peer over UDP.
    silence: Option<Silence>,
}

impl Default for Watched {
    fn default() -> Self {
        Watched { why_tcp: None, since: Instant::now(), silence: None }
    }
}

/// The datapath over UDP and TCP.
pub(crate) struct AutoDatapath {
    udp: DatagramDatapath,
    tcp: TcpDatapath,
    peers: HashMap<AddrPair, Watched>,
    /// The number of watched peers over UDP and over TCP.
    counts: [usize; 2],
    /// Receive calls until both carriers are looked at.
    skips: u32,
}

impl AutoDatapath {
    pub(crate) fn new(udp: DatagramDatapath, tcp: TcpDatapath) -> Self {
        AutoDatapath { udp, tcp, peers: HashMap::new(), counts: [0; 2], skips: 0 }
    }

    /// The carrier of packets to this address.
    fn carrier(&mut self, to: AddrPair) -> &mut dyn Datapath {
        if is_tcp(to) { &mut self.tcp } else { &mut self.udp }
    }

    fn known(&self, to: AddrPair) -> &dyn Datapath {
        if is_tcp(to) { &self.tcp } else { &self.udp }
    }

    /// Counts the watched peers.
    fn recount(&mut self) {
        let tcp = self.peers.keys().filter(|to| is_tcp(**to)).count();
        self.counts = [self.peers.len() - tcp, tcp];
    }

    /// Whether UDP and TCP are looked at in this receive call.
    fn looks(&mut self) -> [bool; 2] {
        let [udp, tcp] = self.counts.map(|count| count > 0);
        if self.skips == 0 || udp == tcp {
            self.skips = SELDOM;
            return [true; 2];
        }
        self.skips -= 1;
        [udp, tcp]
    }
}

fn is_tcp(to: AddrPair) -> bool {
    to.local.carrier == TCP
}

/// Marks an arrival as one over TCP, so that answers leave by the same carrier.
fn over_tcp(arrived: Arrived<'_>) -> Arrived<'_> {
    let mark = |called| LocalAddr { carrier: TCP, ..called };
    match arrived {
        Arrived::Packets(it) => Arrived::Packets(Received { called: mark(it.called), ..it }),
        Arrived::Sealed(it) => Arrived::Sealed(Envelope { called: mark(it.called), ..it }),
        other => other,
    }
}

/// The reason why a peer is reached over TCP.
fn describe(to: SocketAddr, trouble: &CarrierTrouble) -> String {
    let (ip, port) = (to.ip(), to.port());
    match &trouble.refused {
        Some(why) => format!(
            "UDP port {port} of {ip} cannot be reached ({why}); let it pass, or open it there \
             with the datapath `auto` or `udp`"
        ),
        None => format!(
            "{} set-up packets of {BASE_DATAGRAM} bytes to UDP port {port} of {ip} were not \
             answered; let UDP port {port} and UDP source ports 49152-65535 of both hosts pass",
            trouble.unanswered
        ),
    }
}

impl Datapath for AutoDatapath {
    /// While UDP has no room, peers over TCP wait as well, because there is one answer for a rail.
    fn make_room(&mut self) -> Room {
        match (self.udp.make_room(), self.tcp.make_room()) {
            (Room::Open, room) => room,
            (room, _) => room,
        }
    }

    fn send_segments(&mut self, now: Time, segments: &mut SegmentRun<'_>) -> Sent {
        match is_tcp(segments.to) {
            true => self.tcp.send_segments(now, segments),
            false => self.udp.send_segments(now, segments),
        }
    }

    fn send_packet(&mut self, id: QpId, to: AddrPair, via: Via, packet: &[u8]) {
        self.carrier(to).send_packet(id, to, via, packet);
    }

    fn send_datagram(&mut self, to: AddrPair, via: Via, packet: &[u8]) {
        self.carrier(to).send_datagram(to, via, packet);
    }

    fn send_alone(&mut self, to: AddrPair, via: Via, packets: &mut Vec<u8>, segment_len: usize) {
        self.carrier(to).send_alone(to, via, packets, segment_len);
    }

    fn send_roce(&mut self, to: AddrPair, packets: &mut Vec<u8>, segment_len: usize, ecn: bool) {
        self.udp.send_roce(to, packets, segment_len, ecn);
    }

    fn flush(&mut self) -> bool {
        let is_empty = self.udp.flush();
        self.tcp.flush() && is_empty
    }

    fn receive(
        &mut self,
        now: Time,
        regions: &Regions,
        sink: &mut dyn FnMut(Arrived<'_>),
    ) -> io::Result<Taken> {
        let [udp, tcp] = self.looks();
        let mut all = Taken::default();
        if udp {
            all = self.udp.receive(now, regions, sink)?;
        }
        if tcp {
            let taken = self.tcp.receive(now, regions, &mut |arrived| sink(over_tcp(arrived)))?;
            all.packets += taken.packets;
            all.is_more |= taken.is_more;
        }
        Ok(all)
    }

    fn readiness(&self) -> Option<Vec<BorrowedFd<'_>>> {
        let (udp, tcp) = (self.udp.readiness()?, self.tcp.readiness()?);
        Some(udp.into_iter().chain(tcp).collect())
    }

    fn arm(&mut self) -> bool {
        // The next receive call follows a wake-up by either carrier.
        self.skips = 0;
        self.udp.arm() | self.tcp.arm()
    }

    fn next_due(&self) -> Option<Instant> {
        self.udp.next_due().into_iter().chain(self.tcp.next_due()).min()
    }
}

impl DatapathSetup for AutoDatapath {
    fn caps(&self) -> Caps {
        self.udp.caps()
    }

    fn further_carriers(&self) -> Vec<Caps> {
        vec![self.tcp.caps()]
    }

    fn local_addr(&self) -> SocketAddr {
        self.udp.local_addr()
    }

    fn pair(&self, to: SocketAddr) -> AddrPair {
        self.udp.pair(to)
    }

    fn open(&mut self, owner: Owner) -> Result<Vec<u8>, JoinError> {
        self.udp.open(owner)
    }

    fn join(&mut self, id: QpId, partner: Partner, routing: &[u8]) -> Result<u32, JoinError> {
        self.udp.join(id, partner, routing)
    }

    fn retire(&mut self, _: QpId) {}

    fn close(&mut self, _: QpId) {}

    fn carrier_to(&self, to: SocketAddr) -> Carrier {
        let mut there = self.peers.iter().filter(|(peer, _)| peer.remote == to);
        let begins_over_tcp = |(peer, watched): (&AddrPair, &Watched)| match is_tcp(*peer) {
            true => watched.since.elapsed() < TCP_FIRST,
            false => watched.silence.as_ref().is_some_and(|it| it.was_within(TCP_FIRST)),
        };
        if there.any(begins_over_tcp) { TCP } else { Carrier::default() }
    }

    fn roce_batch(&self, to: SocketAddr) -> Option<RoceBatch> {
        self.udp.roce_batch(to)
    }

    fn fell_back(&mut self, to: AddrPair, trouble: &CarrierTrouble) {
        // A later connection that begins over TCP finds nothing out.
        if trouble.unanswered > 0 {
            let watched = self.peers.entry(to).or_default();
            watched.why_tcp = Some(describe(to.remote, trouble));
            watched.since = Instant::now();
        }
    }

    fn forget_memory(&mut self) {
        self.udp.forget_memory();
        self.tcp.forget_memory();
    }
}

impl PathInfo for AutoDatapath {
    fn max_datagram(&self, to: AddrPair) -> io::Result<usize> {
        self.known(to).max_datagram(to)
    }

    fn reach(&self, to: AddrPair) -> Option<Reach> {
        self.known(to).reach(to)
    }

    fn watch(&mut self, to: AddrPair) {
        self.peers.entry(to).or_default();
        self.recount();
        self.carrier(to).watch(to);
    }

    fn unwatch(&mut self, to: AddrPair) {
        self.peers.remove(&to);
        self.recount();
        self.carrier(to).unwatch(to);
    }

    fn use_ecn(&mut self, to: SocketAddr, ecn: bool) {
        self.udp.use_ecn(to, ecn);
    }

    fn on_silence(&mut self, to: AddrPair, is_silent: bool) {
        let bound = self.tcp.local_addr();
        let Some(watched) = self.peers.get_mut(&to).filter(|_| !is_tcp(to)) else { return };
        match is_silent {
            true => watched.silence.get_or_insert_with(|| Silence::begin(bound, to)).look(),
            false => watched.silence = None,
        }
    }

    fn take_refused(&mut self, sink: &mut dyn FnMut(Carrier, PortRefused)) {
        self.udp.take_refused(sink);
        self.tcp.take_refused(&mut |_, refused| sink(TCP, refused));
    }

    fn losses(&self) -> Losses {
        let (udp, tcp) = (self.udp.losses(), self.tcp.losses());
        Losses { unreachable: udp.unreachable + tcp.unreachable, ..udp }
    }

    fn routes(&self, all: &mut Vec<PathRoute>) {
        self.tcp.routes(all);
    }

    fn degradations(&self, rail: usize, to: AddrPair, all: &mut Vec<Degradation>) {
        if is_tcp(to) {
            let theirs = || {
                "the peer has chosen TCP, as its datapath is `tcp` or UDP does not pass from there"
                    .to_owned()
            };
            let known = self.peers.get(&to).and_then(|watched| watched.why_tcp.clone());
            let (wanted, used, cause) = ("UDP", "TCP", known.unwrap_or_else(theirs));
            all.push(Degradation::DatapathUnavailable { rail, wanted, used, cause });
        }
        let silence = self.peers.get(&to).and_then(|watched| watched.silence.as_ref());
        if silence.is_some_and(Silence::accepts_tcp) {
            let (to, used, other) = (to.remote, "UDP", "TCP");
            all.push(Degradation::DatapathSilent { rail, to, used, other });
        }
        self.known(to).degradations(rail, to, all);
    }
}
