//! What drives the queue pairs of one receiving port, as a worker of the engine does.

use std::net::SocketAddr;
use std::time::Duration;

use braid_lb::{LbPolicy, PathSet, Rails};
use braid_transport::{
    Accepted, Admit, Arrival, Attempt, Completion, ConnectError, Disconnects, Egress, Ended,
    Endpoint, EndpointConfig, EventKind, Initiator, Initiators, Landing, OfferTerms, QpConfig,
    QpSlot, QpState, QueuePair, RecvWr, Remote, Request, SendWr, Step, TransmitBody, Use,
};
use braid_wire::{
    Connect, Control, ControlKind, Crc, DataHeader, Offer, Packet, PathId, QpId, RailId, Routing,
    SOURCE_PORT_BASE, Setup, Time, Token,
};

use crate::memory::HostMemory;

const MTU: u16 = 256;
pub(crate) const PATHS: usize = 4;
/// How long a queue pair tries before it gives up.
pub(crate) const RETRY_TIMEOUT: Duration = Duration::from_secs(2);
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(1);

/// A queue pair, and what its application has to know of it.
pub(crate) struct Entry {
    pub(crate) id: QpId,
    token: Token,
    place: Place,
    accepted: Option<Accepted>,
    addr: Option<SocketAddr>,
    /// Its memory.
    pub(crate) piece: usize,
    /// The peer's end of the attempt that it is connected for, if it is.
    pub(crate) sender: u64,
}

enum Place {
    Unbound(Box<QueuePair>),
    Bound { peer: usize, slot: QpSlot },
}

struct Peer {
    instance: u64,
    addr: SocketAddr,
    endpoint: Endpoint,
    rails: Rails,
}

/// How an attempt ended: where the ACCEPT came from, and what it says.
pub(crate) type Outcome = Result<(SocketAddr, Connect), ConnectError>;

pub(crate) struct Worker {
    pub(crate) addr: SocketAddr,
    instance: u64,
    pub(crate) entries: Vec<Entry>,
    peers: Vec<Option<Peer>>,
    pub(crate) initiators: Initiators<()>,
    pub(crate) disconnects: Disconnects<SocketAddr>,
    /// What is to be sent.
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
            entries: Vec::new(),
            peers: Vec::new(),
            initiators: Initiators::default(),
            disconnects: Disconnects::new(PATHS),
            out: Vec::new(),
            completions: Vec::new(),
            failed: Vec::new(),
            declined: 0,
        }
    }

    /// A queue pair in RESET that uses this piece of memory.
    pub(crate) fn create(&mut self, id: QpId, piece: usize) {
        let config = QpConfig {
            max_rto: Duration::from_millis(50),
            retry_timeout: RETRY_TIMEOUT,
            ..QpConfig::default()
        };
        let place = Place::Unbound(Box::new(QueuePair::new(id, Token(0), config)));
        let (token, accepted, addr, sender) = (Token(0), None, None, 0);
        self.entries.push(Entry { id, token, place, accepted, addr, piece, sender });
    }

    pub(crate) fn entry(&mut self, id: QpId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    fn known(&mut self, id: QpId) -> &mut Entry {
        self.entry(id).expect("a queue pair of this worker")
    }

    fn offer(&mut self, id: QpId, random: u64) -> Offer {
        let terms = OfferTerms {
            instance: self.instance,
            mtu: MTU,
            receive_buffer: 1 << 20,
            crc: Crc::Off,
        };
        let entry = self.known(id);
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
        let remote = Remote::agree(&ours, &request.connect.offer);
        self.bind(now, id, remote, request.connect.offer.instance, request.from.remote);
        self.known(id).accepted =
            Some(Accepted::new(request, ours, private_data, Routing::default()));
        self.answer_connect(id);
    }

    /// Answers the CONNECT that a queue pair was accepted for, also when it is repeated.
    pub(crate) fn answer_connect(&mut self, id: QpId) {
        let receives = self.state(id).receives();
        let Some(accepted) = &self.known(id).accepted else { return };
        let (to, answer) = (accepted.attempt().from.remote, accepted.answer(receives));
        self.say(to, &answer);
    }

    pub(crate) fn say(&mut self, to: SocketAddr, setup: &Setup) {
        let mut bytes = Vec::new();
        setup.encode(&mut bytes);
        self.out.push((to, Egress::Port(RailId::FIRST), bytes));
    }

    fn control(&mut self, to: SocketAddr, egress: Egress, control: &Control) {
        let mut bytes = Vec::new();
        control.encode(&mut bytes);
        self.out.push((to, egress, bytes));
    }

    fn bind(&mut self, now: Time, id: QpId, remote: Remote, instance: u64, addr: SocketAddr) {
        let peer = self.find_or_make(now, instance, addr);
        let vacant = QueuePair::new(QpId::default(), Token::default(), QpConfig::default());
        let entry = self.known(id);
        let place = std::mem::replace(&mut entry.place, Place::Unbound(Box::new(vacant)));
        let Place::Unbound(qp) = place else { panic!("{id:?} is connected") };
        entry.addr = Some(addr);
        let Peer { endpoint, rails, .. } = self.peers[peer].as_mut().expect("just made");
        let slot = endpoint.adopt(now, *qp, remote, rails);
        self.known(id).place = Place::Bound { peer, slot };
    }

    fn find_or_make(&mut self, now: Time, instance: u64, addr: SocketAddr) -> usize {
        let is_it = |peer: &Peer| peer.instance == instance && peer.addr == addr;
        if let Some(index) = self.peers.iter().position(|peer| peer.as_ref().is_some_and(is_it)) {
            return index;
        }
        let config = EndpointConfig {
            ping_interval: Duration::from_millis(100),
            peer_timeout: PEER_TIMEOUT,
            ..EndpointConfig::default()
        };
        let rails = Rails::from(PathSet::new(LbPolicy::ROUND_ROBIN, PATHS, 1).expect("paths"));
        let peer = Peer { instance, addr, endpoint: Endpoint::new(now, config), rails };
        let index = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
        if index == self.peers.len() {
            self.peers.push(None);
        }
        self.peers[index] = Some(peer);
        index
    }

    pub(crate) fn state(&mut self, id: QpId) -> QpState {
        match &self.known(id).place {
            Place::Unbound(qp) => qp.state(),
            Place::Bound { peer, slot } => {
                let (peer, slot) = (*peer, *slot);
                self.peers[peer].as_ref().expect("its peer").endpoint.qp(slot).state()
            }
        }
    }

    pub(crate) fn post_send(&mut self, now: Time, id: QpId, wr: SendWr) {
        let Place::Bound { peer, slot } = self.known(id).place else { panic!("{id:?}") };
        let endpoint = &mut self.peers[peer].as_mut().expect("its peer").endpoint;
        endpoint.post_send(now, slot, wr).expect("there is room");
    }

    /// Before it is connected.
    pub(crate) fn post_recv(&mut self, id: QpId, wr: RecvWr) {
        let Place::Unbound(qp) = &mut self.known(id).place else { panic!("{id:?}") };
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
        if let Place::Bound { peer, slot } = self.known(id).place {
            let Peer { endpoint, rails, addr, .. } = self.peers[peer].as_mut().expect("its peer");
            endpoint.modify(now, slot, QpState::Error).expect("every queue pair can go to ERR");
            while let Some(disconnect) = endpoint.poll_disconnect() {
                self.disconnects.insert(now, *addr, disconnect);
            }
            self.completions.extend(std::iter::from_fn(|| endpoint.poll_completion()));
            let mut qp = endpoint.release(now, slot, rails);
            assert_eq!(qp.poll_ended(), None, "a completion is left behind");
            let is_empty = endpoint.is_empty();
            self.peers[peer].take_if(|_| is_empty);
        } else if let Place::Unbound(qp) = &mut self.known(id).place {
            qp.modify(QpState::Error).expect("every queue pair can go to ERR");
            let flushed: Vec<Completion> =
                std::iter::from_fn(|| qp.poll_ended()).filter_map(Ended::reported).collect();
            self.completions.extend(flushed);
        }
        let index = self.entries.iter().position(|entry| entry.id == id).expect("it was there");
        self.entries.swap_remove(index).accepted
    }

    /// Everything but a HELLO or a CONNECT has come.
    pub(crate) fn take(
        &mut self,
        now: Time,
        from: SocketAddr,
        packet: Packet<'_>,
        memory: &mut HostMemory,
    ) {
        let path = PathId::new(from.port());
        let left_by = match from.port() >= SOURCE_PORT_BASE {
            true => Egress::Path(path),
            false => Egress::Port(RailId::FIRST),
        };
        match packet {
            Packet::Data(header, payload) => self.data(now, from, path, &header, payload, memory),
            Packet::Ack(ack) => {
                if let Some((peer, slot, _)) = self.bound(from, ack.qp, Some(ack.token)) {
                    let Peer { endpoint, rails, .. } = self.peers[peer].as_mut().expect("its peer");
                    endpoint.on_ack(now, slot, &ack, rails);
                }
            }
            Packet::Control(control) => self.on_control(now, from, left_by, &control),
            Packet::Probe(probe) => {
                if let Some((peer, slot, _)) = self.bound(from, probe.qp, Some(probe.token)) {
                    let peer = self.peers[peer].as_mut().expect("its peer");
                    peer.endpoint.on_probe(now, slot, RailId::FIRST, &probe);
                }
            }
            Packet::Setup(answer) => {
                if let Use::Declined(control) = self.initiators.on_answer(now, from, &answer) {
                    self.declined += 1;
                    self.control(from, Egress::Port(RailId::FIRST), &control);
                }
            }
            Packet::Part(..) | Packet::Sealed(_) => panic!("nobody sends any"),
        }
    }

    /// The connection that a packet is for, if its peer has sent it. `token`: none is asked for.
    fn bound(
        &mut self,
        from: SocketAddr,
        id: QpId,
        token: Option<Token>,
    ) -> Option<(usize, QpSlot, (usize, u64))> {
        let entry = self.entry(id)?;
        let Place::Bound { peer, slot } = entry.place else { return None };
        let is_its = token.is_none_or(|token| token == entry.token);
        let is_peer = entry.addr.is_some_and(|addr| addr.ip() == from.ip());
        (is_its && is_peer).then_some((peer, slot, (entry.piece, entry.sender)))
    }

    fn data(
        &mut self,
        now: Time,
        from: SocketAddr,
        path: PathId,
        header: &DataHeader,
        payload: &[u8],
        memory: &mut HostMemory,
    ) {
        let bound = self.bound(from, header.qp, Some(header.token));
        let Some((peer, slot, (piece, sender))) = bound else { return };
        let endpoint = &mut self.peers[peer].as_mut().expect("its peer").endpoint;
        let arrival = Arrival { header, path, congestion: false, may_be_replied_to: false };
        let Admit::Take(landing) = endpoint.on_arrival(now, slot, &arrival, memory) else { return };
        if let Landing::Payload(pieces) = &landing {
            let mut rest = payload;
            for sge in pieces {
                let part = rest.split_off(..sge.len as usize).expect("pieces fit the payload");
                memory.place(sge, part, piece, sender);
            }
        }
        endpoint.placed(now, slot, memory);
    }

    fn on_control(&mut self, now: Time, from: SocketAddr, left_by: Egress, control: &Control) {
        if control.kind == ControlKind::Confirm {
            self.disconnects.confirm(control, |peer| peer.ip() == from.ip());
            return;
        }
        let (id, token) = (control.qp, Some(control.token));
        let token = token.filter(|_| control.kind != ControlKind::Unknown);
        if let Some((peer, slot, _)) = self.bound(from, id, token) {
            let Peer { endpoint, rails, .. } = self.peers[peer].as_mut().expect("its peer");
            if endpoint.on_control(now, slot, control, left_by, rails) {
                self.disconnects.on_peer_ended(control, |peer| peer.ip() == from.ip());
            }
            return;
        }
        let is_its = self.entry(id).is_some_and(|entry| token.is_none_or(|t| t == entry.token));
        if is_its && self.initiators.is_connecting(id) {
            return;
        }
        let is_from = |peer: &SocketAddr| peer.ip() == from.ip();
        if let Some(answer) = self.disconnects.on_stray(now, control, is_from) {
            let to = answer.to.unwrap_or(from);
            self.control(to, Egress::Port(RailId::FIRST), &answer.control);
        }
    }

    /// Lets the time pass and says what there is to say. Returns the attempts that have ended.
    pub(crate) fn run(&mut self, now: Time, memory: &HostMemory) -> Vec<(QpId, Outcome)> {
        let ended = self.run_initiators(now);
        for index in 0..self.peers.len() {
            self.run_peer(now, index, memory);
        }
        while let Some(due) = self.disconnects.poll_transmit(now) {
            self.control(due.to, due.egress, &due.control);
        }
        ended
    }

    fn run_initiators(&mut self, now: Time) -> Vec<(QpId, Outcome)> {
        let mut ended = Vec::new();
        while let Some(step) = self.initiators.poll(now) {
            match step {
                Step::Send(_, to, setup) => self.say(to, &setup),
                Step::Ended(attempt, Err(error)) => ended.push((attempt.ours.qp, Err(error))),
                Step::Ended(attempt, Ok(accept)) => {
                    let (id, from) = (attempt.ours.qp, attempt.accepted_from.remote);
                    let remote = Remote::agree(&attempt.ours, &accept.offer);
                    self.bind(now, id, remote, accept.offer.instance, from);
                    self.initiators.connected(&attempt);
                    ended.push((id, Ok((from, accept))));
                }
            }
        }
        ended
    }

    fn run_peer(&mut self, now: Time, index: usize, memory: &HostMemory) {
        let Some(Peer { endpoint, rails, addr, .. }) = &mut self.peers[index] else { return };
        if endpoint.next_timeout(rails).is_some_and(|at| at <= now) {
            endpoint.on_timeout(now, rails);
        }
        while let Some(transmit) = endpoint.poll_transmit(now, rails) {
            let mut bytes = Vec::new();
            match transmit.body {
                TransmitBody::Segment { header, gather, .. } => {
                    header.encode(&mut bytes);
                    bytes.extend(memory.gather(&gather));
                }
                TransmitBody::Ack(ack) => ack.encode(&mut bytes),
                TransmitBody::Control(control) => control.encode(&mut bytes),
                TransmitBody::Probe(probe) => probe.encode(&mut bytes),
            }
            self.out.push((*addr, transmit.egress, bytes));
        }
        while let Some(disconnect) = endpoint.poll_disconnect() {
            self.disconnects.insert(now, *addr, disconnect);
        }
        while let Some(event) = endpoint.poll_event() {
            if matches!(event.kind, EventKind::Ended(_)) {
                self.failed.push(event.qp);
            }
        }
        self.completions.extend(std::iter::from_fn(|| endpoint.poll_completion()));
    }

    pub(crate) fn next_timeout(&self) -> Time {
        let peers = self.peers.iter().flatten();
        let peers = peers.filter_map(|peer| peer.endpoint.next_timeout(&peer.rails));
        let own = [self.initiators.next_timeout(), self.disconnects.next_timeout()];
        own.into_iter().flatten().chain(peers).min().unwrap_or(Time::FAR_FUTURE)
    }

    /// What is left of connections: queue pairs, peers, attempts, and ends that are not confirmed.
    pub(crate) fn left(&self) -> [usize; 4] {
        let peers = self.peers.iter().flatten().count();
        let tables = [self.initiators.is_empty(), self.disconnects.is_empty()];
        let [attempts, unconfirmed] = tables.map(|is_empty| usize::from(!is_empty));
        [self.entries.len(), peers, attempts, unconfirmed]
    }
}
