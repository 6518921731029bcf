//! The driver of the queue pairs of one receiving port, as a worker of the engine is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use braid_transport::{
    Accepted, Admit, Attempt, Completion, ConnectError, Disconnects, Egress, Ended, EndpointConfig,
    EventKind, Initiator, Initiators, OfferTerms, QpConfig, QpSlot, QpState, QueuePair, RecvWr,
    Remote, Request, SendWr, Step, Transmit, TransmitBody, Use,
};
use braid_wire::{
    Connect, Control, ControlKind, Crc, DataHeader, Offer, Packet, PathId, QpId, RailId, Routing,
    SOURCE_PORT_BASE, Setup, Time, Token,
};

use crate::kit::{self, Host};
use crate::memory::HostMemory;

const MTU: u16 = 256;
const PATHS: usize = 4;
const RETRY_TIMEOUT: Duration = Duration::from_secs(2);
const PEER_TIMEOUT: Duration = Duration::from_secs(1);

/// A queue pair and its connection.
struct Entry {
    token: Token,
    place: Place,
    accepted: Option<Accepted>,
    /// The piece of memory that it uses.
    piece: usize,
    /// The peer's end of the attempt that it is connected for, if it is.
    sender: u64,
}

enum Place {
    Unbound(Box<QueuePair>),
    Bound(Peer, QpSlot),
}

/// An instance of a program, and the port at which it receives.
type Peer = (u64, SocketAddr);

/// Queue pairs, and the endpoints that have taken in those which are connected.
#[derive(Default)]
struct Connections {
    entries: BTreeMap<QpId, Entry>,
    peers: BTreeMap<Peer, Host>,
}

impl Connections {
    fn known(&mut self, id: QpId) -> &mut Entry {
        self.entries.get_mut(&id).expect("a queue pair of this worker")
    }

    /// The connection of a queue pair.
    fn host(&mut self, id: QpId) -> Option<(&mut Host, QpSlot, &Entry)> {
        let entry = self.entries.get(&id)?;
        let Place::Bound(peer, slot) = entry.place else { return None };
        Some((self.peers.get_mut(&peer)?, slot, entry))
    }

    /// The connection that a packet is for, if its peer has sent it. `token`: none is asked for.
    fn bound(
        &mut self,
        from: SocketAddr,
        id: QpId,
        token: Option<Token>,
    ) -> Option<(&mut Host, QpSlot, &Entry)> {
        self.host(id).filter(|(_, _, entry)| {
            let is_peer =
                matches!(entry.place, Place::Bound((_, addr), _) if addr.ip() == from.ip());
            is_peer && token.is_none_or(|token| token == entry.token)
        })
    }

    fn bind(&mut self, now: Time, id: QpId, remote: Remote, peer: Peer) {
        let config = EndpointConfig {
            ping_interval: Duration::from_millis(100),
            peer_timeout: PEER_TIMEOUT,
            ..EndpointConfig::default()
        };
        let make = || Host::new(now, config, kit::paths(PATHS));
        let host = self.peers.entry(peer).or_insert_with(make);
        let entry = self.entries.get_mut(&id).expect("a queue pair of this worker");
        let Place::Unbound(qp) = &mut entry.place else { panic!("{id:?} is connected") };
        let vacant = QueuePair::new(QpId::default(), Token::default(), QpConfig::default());
        let slot = host.adopt(now, std::mem::replace(qp, vacant), remote);
        entry.place = Place::Bound(peer, slot);
    }
}

/// The end of an attempt: the port that the ACCEPT came from, and the ACCEPT.
pub(crate) type Outcome = Result<(SocketAddr, Connect), ConnectError>;

pub(crate) struct Worker {
    pub(crate) addr: SocketAddr,
    instance: u64,
    connections: Connections,
    initiators: Initiators<()>,
    disconnects: Disconnects<SocketAddr>,
    /// Datagrams that leave next.
    pub(crate) out: Vec<(SocketAddr, Egress, Vec<u8>)>,
    pub(crate) completions: Vec<Completion>,
    /// Queue pairs that went into ERR by themselves.
    pub(crate) failed: Vec<QpId>,
    /// ACCEPTs that came for attempts that were over.
    pub(crate) declined: u64,
}

impl Worker {
    pub(crate) fn new(addr: SocketAddr, instance: u64) -> Self {
        Worker {
            addr,
            instance,
            connections: Connections::default(),
            initiators: Initiators::default(),
            disconnects: Disconnects::new(PATHS),
            out: Vec::new(),
            completions: Vec::new(),
            failed: Vec::new(),
            declined: 0,
        }
    }

    /// Makes a queue pair in RESET that uses this piece of memory.
    pub(crate) fn create(&mut self, id: QpId, piece: usize) {
        let config = QpConfig {
            max_rto: Duration::from_millis(50),
            retry_timeout: RETRY_TIMEOUT,
            ..QpConfig::default()
        };
        let place = Place::Unbound(Box::new(QueuePair::new(id, Token(0), config)));
        let entry = Entry { token: Token(0), place, accepted: None, piece, sender: 0 };
        self.connections.entries.insert(id, entry);
    }

    /// Names the peer's end of the attempt that a queue pair stands for from now on.
    pub(crate) fn set_sender(&mut self, id: QpId, sender: u64) {
        self.connections.known(id).sender = sender;
    }

    fn offer(&mut self, id: QpId, random: u64) -> Offer {
        let terms = OfferTerms {
            instance: self.instance,
            mtu: MTU,
            receive_buffer: 1 << 20,
            crc: Crc::Off,
        };
        let entry = self.connections.known(id);
        let Place::Unbound(qp) = &mut entry.place else { panic!("{id:?} is connected") };
        // Of few PSNs, so that tokens alone tell attempts apart.
        let psn = 0xFF_FFF0 + (random >> 32) as u32 % 16;
        let offer = qp.offer(Token(random as u32), psn, &terms).expect("INIT");
        entry.token = offer.token;
        offer
    }

    pub(crate) fn connect(
        &mut self,
        now: Time,
        id: QpId,
        to: SocketAddr,
        private_data: Vec<u8>,
        timeout: Duration,
        [nonce, spare_nonce, random]: [u64; 3],
    ) {
        let ours = self.offer(id, random);
        let initiator = Initiator::new(now, nonce, ours, private_data, timeout);
        self.initiators.begin(Attempt::new(now, ours, to, initiator, spare_nonce, ()));
    }

    pub(crate) fn accept(
        &mut self,
        now: Time,
        id: QpId,
        request: &Request,
        private_data: Vec<u8>,
        random: u64,
    ) {
        let ours = self.offer(id, random);
        let theirs = &request.connect.offer;
        let peer = (theirs.instance, request.from.remote);
        self.connections.bind(now, id, Remote::agree(&ours, theirs), peer);
        self.connections.known(id).accepted =
            Some(Accepted::new(request, ours, private_data, Routing::default()));
        self.answer_connect(id);
    }

    /// Answers the CONNECT that a queue pair was accepted for, also when it is repeated.
    pub(crate) fn answer_connect(&mut self, id: QpId) {
        let receives = self.state(id).receives();
        let Some(accepted) = &self.connections.known(id).accepted else { return };
        let (to, answer) = (accepted.attempt().from.remote, accepted.answer(receives));
        self.send_setup(to, &answer);
    }

    pub(crate) fn send_setup(&mut self, to: SocketAddr, setup: &Setup) {
        let mut bytes = Vec::new();
        setup.encode(&mut bytes);
        self.out.push((to, Egress::Port(RailId::FIRST), bytes));
    }

    fn send_control(&mut self, to: SocketAddr, egress: Egress, control: Control) {
        let bytes = kit::encode(&TransmitBody::Control(control), &[]);
        self.out.push((to, egress, bytes));
    }

    pub(crate) fn state(&self, id: QpId) -> QpState {
        let Connections { entries, peers } = &self.connections;
        match &entries[&id].place {
            Place::Unbound(qp) => qp.state(),
            Place::Bound(peer, slot) => peers[peer].state(*slot),
        }
    }

    pub(crate) fn post_send(&mut self, now: Time, id: QpId, wr: SendWr) {
        let (host, slot, _) = self.connections.host(id).expect("it is connected");
        host.endpoint.post_send(now, slot, wr).expect("there is room");
    }

    /// Posts a receive before the queue pair is connected.
    pub(crate) fn post_recv(&mut self, id: QpId, wr: RecvWr) {
        let entry = self.connections.known(id);
        let Place::Unbound(qp) = &mut entry.place else { panic!("{id:?} is connected") };
        if qp.state() == QpState::Reset {
            qp.modify(QpState::Init).expect("RESET goes to INIT");
        }
        qp.post_recv(wr).expect("there is room");
    }

    /// Ends a queue pair: whatever is outstanding completes. Returns the attempt that it was
    /// accepted for.
    pub(crate) fn destroy(&mut self, now: Time, id: QpId) -> Option<Accepted> {
        self.initiators.cancel(id);
        self.initiators.forget(id);
        let Connections { entries, peers } = &mut self.connections;
        let entry = entries.remove(&id).expect("a queue pair of this worker");
        match entry.place {
            Place::Bound(peer, slot) => {
                let host = peers.get_mut(&peer).expect("its peer");
                host.end(now, slot);
                host.begin_disconnects(now, &peer.1, &mut self.disconnects);
                self.completions.extend(host.completions());
                assert_eq!(host.release(now, slot).poll_ended(), None, "a completion is left");
                if host.endpoint.is_empty() {
                    peers.remove(&peer);
                }
            }
            Place::Unbound(mut qp) => {
                qp.modify(QpState::Error).expect("every queue pair can go to ERR");
                let flushed = std::iter::from_fn(|| qp.poll_ended());
                self.completions.extend(flushed.filter_map(Ended::reported));
            }
        }
        entry.accepted
    }

    /// Takes a packet, which is neither a HELLO nor a CONNECT.
    pub(crate) fn take(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: Packet<'_>,
        memory: &mut HostMemory,
    ) {
        let left_by = match from.port() >= SOURCE_PORT_BASE {
            true => Egress::Path(PathId::new(from.port())),
            false => Egress::Port(RailId::FIRST),
        };
        match packet {
            Packet::Data(header, payload) => self.data(now, from, &header, payload, memory),
            Packet::Ack(ack) => {
                if let Some((host, slot, _)) = self.connections.bound(from, ack.qp, Some(ack.token))
                {
                    host.on_ack(now, slot, &ack);
                }
            }
            Packet::Credit(_) => panic!("nobody requests credit"),
            Packet::Control(control) => self.on_control(now, from, left_by, &control),
            Packet::Probe(probe) => {
                let bound = self.connections.bound(from, probe.qp, Some(probe.token));
                if let Some((host, slot, _)) = bound {
                    host.endpoint.on_probe(now, slot, RailId::FIRST, &probe);
                }
            }
            Packet::Setup(answer) => {
                if let Use::Declined(control) = self.initiators.on_answer(now, from, &answer) {
                    self.declined += 1;
                    self.send_control(from, Egress::Port(RailId::FIRST), control);
                }
            }
            Packet::Part(..) | Packet::Sealed(_) => panic!("nobody sends any"),
        }
    }

    fn data(
        &mut self,
        now: Time,
        from: SocketAddr,
        header: &DataHeader,
        payload: &[u8],
        memory: &mut HostMemory,
    ) {
        let bound = self.connections.bound(from, header.qp, Some(header.token));
        let Some((host, slot, entry)) = bound else { return };
        let arrival = kit::arrival(header, PathId::new(from.port()));
        if let Admit::Take(landing) = host.endpoint.on_arrival(now, slot, &arrival, memory) {
            kit::land(&landing, payload, |sge, part| {
                memory.place(sge, part, entry.piece, entry.sender);
            });
            host.endpoint.placed(now, slot, memory);
        }
    }

    fn on_control(&mut self, now: Time, from: SocketAddr, left_by: Egress, control: &Control) {
        let (id, token) = (control.qp, Some(control.token));
        let token = token.filter(|_| control.kind != ControlKind::Unknown);
        let is_connecting = self.initiators.is_connecting(id)
            && token.is_none_or(|token| token == self.connections.known(id).token);
        let qp = self.connections.bound(from, id, token).map(|(host, slot, _)| (host, slot));
        if qp.is_none() && is_connecting && control.kind != ControlKind::Confirm {
            return;
        }
        let is_from = |peer: &SocketAddr| peer.ip() == from.ip();
        let packet = (control, left_by);
        if let Some(answer) = kit::on_control(now, qp, packet, &mut self.disconnects, is_from) {
            let to = answer.to.unwrap_or(from);
            self.send_control(to, Egress::Port(RailId::FIRST), answer.control);
        }
    }

    /// Lets the time pass and sends what is due. Returns the attempts that have ended.
    pub(crate) fn run(&mut self, now: Time, memory: &HostMemory) -> Vec<(QpId, Outcome)> {
        let ended = self.run_initiators(now);
        for (&(_, addr), host) in &mut self.connections.peers {
            host.run_timers(now);
            for Transmit { egress, body, .. } in host.transmit(now) {
                let payload = match &body {
                    TransmitBody::Segment { gather, .. } => memory.gather(gather),
                    _ => Vec::new(),
                };
                self.out.push((addr, egress, kit::encode(&body, &payload)));
            }
            host.begin_disconnects(now, &addr, &mut self.disconnects);
            while let Some(event) = host.endpoint.poll_event() {
                if matches!(event.kind, EventKind::Ended(_)) {
                    self.failed.push(event.qp);
                }
            }
            self.completions.extend(host.completions());
        }
        while let Some(due) = self.disconnects.poll_transmit(now) {
            self.send_control(due.to, due.egress, due.control);
        }
        ended
    }

    fn run_initiators(&mut self, now: Time) -> Vec<(QpId, Outcome)> {
        let mut ended = Vec::new();
        while let Some(step) = self.initiators.poll(now) {
            match step {
                Step::Send(_, to, setup) => self.send_setup(to.remote, &setup),
                Step::Ended(attempt, Err(error)) => ended.push((attempt.ours.qp, Err(error))),
                Step::Ended(attempt, Ok(accept)) => {
                    let (id, from) = (attempt.ours.qp, attempt.accepted_from.remote);
                    let remote = Remote::agree(&attempt.ours, &accept.offer);
                    self.connections.bind(now, id, remote, (accept.offer.instance, from));
                    self.initiators.connected(&attempt);
                    ended.push((id, Ok((from, accept))));
                }
            }
        }
        ended
    }

    pub(crate) fn next_timeout(&self) -> Time {
        let peers = self.connections.peers.values().filter_map(Host::next_timeout);
        let own = [self.initiators.next_timeout(), self.disconnects.next_timeout()];
        own.into_iter().flatten().chain(peers).min().unwrap_or(Time::FAR_FUTURE)
    }

    /// Counts the rest of connections: queue pairs, peers, attempts, and ends that are not
    /// confirmed.
    pub(crate) fn left(&self) -> [usize; 4] {
        let Connections { entries, peers } = &self.connections;
        let tables = [self.initiators.is_empty(), self.disconnects.is_empty()];
        let [attempts, unconfirmed] = tables.map(|is_empty| usize::from(!is_empty));
        [entries.len(), peers.len(), attempts, unconfirmed]
    }
}
