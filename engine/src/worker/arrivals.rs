//! Arrived datagrams: decode, find the queue pair, check, ask the core, place.

use std::iter;
use std::net::SocketAddr;
use std::slice::Chunks;

use braid_keys::{Binding, KeyId, Refused};
use braid_transport::{
    AddrPair, Admit, Arrival, Confirmation, Disconnects, EndCause, Initiators, NicEpoch, QpSlot,
    SgList, StrayAnswer, Use,
};
use braid_wire::{
    Ack, Control, ControlKind, Crc, Credit, DataHeader, DataRun, DecodeError, Packet, Part, PathId,
    Probe, QpId, RailId, SealedOffer, Setup, Time, Token,
};
use smallvec::SmallVec;

use super::attempt::AttemptState;
use super::device;
use super::landing::ArrivalMemory;
use super::listening::ListenState;
use super::outbox::Outbox;
use super::peers::Peers;
use super::qps::QpTable;
use super::rails::egress;
use super::sessions::{Addressee, DisconnectAddress, Sessions};
use crate::counters::WorkerCounters;
use crate::cuda::{self, Deferral};
use crate::datapath::{Arrived, Envelope, Received, Via};
use crate::events::AsyncEvents;
use crate::memory::payload_crc;

/// Segments of a run, at most. The kernel merges up to 64 datagrams.
const MAX_RUN: usize = 64;

/// The parts of a worker that arriving datagrams touch: all but the datapath.
pub(crate) struct Arrivals<'a> {
    pub(crate) now: Time,
    /// Whether the application polls, so that it may reply at once.
    pub(crate) may_be_replied_to: bool,
    pub(crate) source: ArrivalSource,
    pub(crate) qps: &'a mut QpTable,
    pub(crate) peers: &'a mut Peers,
    pub(crate) listening: &'a mut ListenState,
    pub(crate) initiators: &'a mut Initiators<AttemptState>,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) disconnects: &'a mut Disconnects<DisconnectAddress>,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) memory: ArrivalMemory<'a>,
    pub(crate) counters: &'a WorkerCounters,
    pub(crate) events: &'a AsyncEvents,
    pub(crate) effects: ArrivalEffects,
}

/// The source of the current arrival.
#[derive(Default)]
pub(crate) struct ArrivalSource {
    rail: RailId,
    /// The connection whose keys have decrypted the packet. `None`: the packet was not encrypted.
    envelope: Option<Addressee>,
}

/// The effects of arrivals on the worker that takes them.
#[derive(Clone, Copy, Default)]
pub(crate) struct ArrivalEffects {
    /// Whether an acknowledgement should leave before the application learns of the arrivals.
    pub(crate) is_ack_due: bool,
    /// Whether a rail has failed.
    pub(crate) has_failed: bool,
}

/// The origin of segments.
#[derive(Clone, Copy)]
struct SegmentOrigin {
    from: Option<SocketAddr>,
    path: PathId,
    congestion: bool,
}

/// Segments that continue each other, and their payloads.
struct ArrivedRun<'a> {
    run: DataRun<'a>,
    /// The bytes of the first packet.
    first: &'a [u8],
    /// Empty if the payload is already placed.
    payloads: SmallVec<[&'a [u8]; MAX_RUN]>,
}

impl<'a> ArrivedRun<'a> {
    fn new(bytes: &'a [u8], header: DataHeader, payload: &'a [u8]) -> Self {
        let mut payloads = SmallVec::new();
        payloads.push(payload);
        ArrivedRun { run: DataRun::new(bytes, header), first: bytes, payloads }
    }

    /// A segment whose payload is already placed.
    fn placed(header: DataHeader) -> Self {
        ArrivedRun { run: DataRun::new(&[], header), first: &[], payloads: SmallVec::new() }
    }

    /// Whether the first payload, unless it is already placed, has its CRC.
    fn is_intact(&self) -> bool {
        let expected = self.run.header().payload_crc;
        self.payloads.first().is_none_or(|payload| payload_crc(payload) == expected)
    }

    /// Moves packets that continue the run here, up to the first damaged payload.
    fn extend(&mut self, packets: &mut Chunks<'a, u8>, crc: Crc) {
        while self.payloads.len() < MAX_RUN
            && let Some(segment) = packets.clone().next().and_then(|next| self.run.next(next))
            && (crc == Crc::Off || payload_crc(segment.payload) == segment.payload_crc)
        {
            self.run.push(&segment);
            self.payloads.push(segment.payload);
            packets.next();
        }
    }
}

fn no_packets() -> Chunks<'static, u8> {
    [].chunks(1)
}

impl Arrivals<'_> {
    /// Takes an arrival of a rail.
    pub(crate) fn take(&mut self, rail: RailId, arrived: Arrived<'_>) {
        self.source.rail = rail;
        match arrived {
            Arrived::Packets(received) => self.packets(&received),
            Arrived::Sealed(envelope) => self.sealed(envelope),
            Arrived::Placed(path, header) => {
                let origin = SegmentOrigin { from: None, path: path.on(rail), congestion: false };
                self.segments(origin, ArrivedRun::placed(*header), &mut no_packets());
            }
            Arrived::Ahead(from, path, header, place) => {
                *place = self.place_ahead(from, path.on(rail), header);
            }
            Arrived::Refused => self.counters.refused.add(1),
            Arrived::Routes(to, map) => {
                self.peers.use_ways(rail, to, map);
                self.counters.ways_learnt.add(1);
            }
            Arrived::Failed => self.effects.has_failed = true,
            Arrived::Epoch(id, epoch) => {
                if let Some((peer, slot)) = self.place_of(id) {
                    let epoch = NicEpoch { path: epoch.path.on(rail), ..epoch };
                    self.peers.endpoint_mut(peer).begin_epoch(slot, epoch);
                }
            }
            Arrived::Room(id) => {
                let Some(entry) = self.qps.get(id) else { return };
                entry.full_rails.remove(rail);
                if let (true, Some((peer, slot))) = (entry.full_rails.is_empty(), entry.bound()) {
                    self.peers.endpoint_mut(peer).resume(slot);
                }
            }
        }
    }

    /// The place of a connected queue pair.
    fn place_of(&mut self, id: QpId) -> Option<(usize, QpSlot)> {
        self.qps.get(id).and_then(|entry| entry.bound())
    }

    /// Decrypts a packet and takes its content like an unencrypted packet, but for its own
    /// connection only.
    fn sealed(&mut self, envelope: Envelope<'_>) {
        let Envelope { from, called, via, congestion, bytes } = envelope;
        let header = match Packet::decode(bytes) {
            Ok(Packet::Sealed(header)) => header,
            Err(DecodeError::Version(_)) => return self.counters.version.add(1),
            _ => return self.counters.malformed.add(1),
        };
        let end = (header.qp, header.token);
        // This check precedes the anti-replay check. Otherwise an attacker who repeats a packet
        // from elsewhere could cause the packet itself to be dropped.
        if let Some(entry) = self.qps.addressed(header.qp, header.token)
            && !entry.is_peer(Some(from), self.source.rail)
        {
            return self.counters.wrong_source.add(1);
        }
        let Some(session) = self.sessions.get_mut(end) else { return self.stray(header.qp) };
        match session.open(self.source.rail, header.number, bytes) {
            Ok(bytes) => {
                self.source.envelope = Some(end);
                let (from, closes, segment_len) = (Some(from), None, bytes.len());
                self.packets(&Received {
                    from,
                    called,
                    via,
                    congestion,
                    closes,
                    segment_len,
                    bytes,
                });
                self.source.envelope = None;
            }
            Err(Refused::Forged) => self.counters.forged.add(1),
            Err(Refused::Repeated) => self.counters.replayed.add(1),
        }
    }

    /// Takes packets that have arrived together, those that continue each other as one run.
    fn packets(&mut self, received: &Received<'_>) {
        if received.bytes.is_empty() {
            return self.counters.malformed.add(1);
        }
        let mut packets = received.packets();
        while let Some(bytes) = packets.next() {
            self.packet(received, bytes, &mut packets);
        }
    }

    /// Takes a packet, and those of `rest` that continue it.
    fn packet<'a>(&mut self, received: &Received<'_>, bytes: &'a [u8], rest: &mut Chunks<'a, u8>) {
        let Received { from, via, called, .. } = *received;
        let pair = from.map(|remote| AddrPair { remote, local: called });
        match Packet::decode(bytes) {
            Ok(Packet::Data(header, payload)) => {
                self.segments(self.origin(received), ArrivedRun::new(bytes, header, payload), rest);
            }
            Ok(Packet::Ack(ack)) => self.ack(from, &ack),
            Ok(Packet::Credit(credit)) => self.credit(from, &credit),
            Ok(Packet::Control(control)) => self.control(pair, via, &control),
            Ok(Packet::Setup(setup)) if self.source.envelope.is_none() => self.setup(pair, &setup),
            Ok(Packet::Probe(probe)) => self.probe(from, &probe),
            Ok(Packet::Part(part, bytes)) => self.part(received, &part, bytes),
            Ok(Packet::Setup(_) | Packet::Sealed(_)) => self.counters.malformed.add(1),
            Err(DecodeError::Opcode(_)) if self.source.envelope.is_none() => {
                let place = received.packets().len() - rest.len() - 1;
                self.roce(received, bytes, place);
            }
            Err(error) => self.undecodable(pair, bytes, error),
        }
    }

    fn origin(&self, received: &Received<'_>) -> SegmentOrigin {
        let Received { from, via, congestion, .. } = *received;
        let rail = self.source.rail;
        let path = egress(via, rail).path().unwrap_or(PathId::default().on(rail));
        SegmentOrigin { from, path, congestion }
    }

    /// Takes segments, and the packets of `rest` that continue them. All payloads are checked
    /// before the first is placed.
    fn segments<'a>(
        &mut self,
        origin: SegmentOrigin,
        mut segments: ArrivedRun<'a>,
        rest: &mut Chunks<'a, u8>,
    ) {
        let SegmentOrigin { from, path, congestion } = origin;
        let header = segments.run.header();
        let Some(entry) = self.qps.addressed(header.qp, header.token) else {
            return self.stray(header.qp);
        };
        // The queue pair has no peer yet: the peer has accepted, and its data has overtaken the
        // ACCEPT. The peer sends the segment again.
        let Some((peer, slot)) = entry.bound() else { return };
        if !entry.is_peer(from, self.source.rail) {
            return self.counters.wrong_source.add(1);
        }
        if !may_be_for(entry.keyed(), self.source.envelope, self.counters) {
            return;
        }
        if entry.crc == Crc::On && !segments.is_intact() {
            return self.counters.payload_check.add(1);
        }
        let others = rest.clone();
        segments.extend(rest, entry.crc);
        let run = &segments.run;
        let arrival = Arrival {
            header: run.header(),
            segments: run.segments(),
            stamp: run.stamp(),
            path,
            congestion,
            may_be_replied_to: self.may_be_replied_to,
        };
        if entry.shared.srq.is_some() {
            entry.take_shared_receives(self.now, &arrival, self.peers, self.events);
        }
        self.peers.credit.on_arrival(self.now, self.source.rail);
        let endpoint = self.peers.endpoint_mut(peer);
        if let Some(lane) = self.memory.lane.as_deref_mut() {
            let place = (entry.shared.id, peer, slot);
            let offered = (&arrival, &segments.payloads[..]);
            match lane.offer(self.now, place, endpoint, offered, &self.memory.checked) {
                Deferral::NotNeeded => {}
                Deferral::Taken => return,
                Deferral::Singly => return self.singly(origin, &segments, others),
                Deferral::Duplicate => return self.counters.duplicates.add(1),
                Deferral::NoRoom => return self.counters.refused.add(1),
            }
        }
        let mut may_owe_ack = true;
        match endpoint.on_arrival(self.now, slot, &arrival, &self.memory.checked) {
            Admit::Take(landing) => {
                if let Err(error) = self.memory.land(&landing, &segments.payloads) {
                    device::log(entry.shared.id, &error);
                    return endpoint.end(slot, EndCause::DeviceMemory);
                }
                endpoint.placed(self.now, slot, &self.memory.checked);
                if let Some(lane) = self.memory.lane.as_deref_mut() {
                    lane.find_reads(endpoint, entry.shared.id, (peer, slot));
                }
                may_owe_ack = arrival.header.ack_request;
            }
            Admit::Singly => return self.singly(origin, &segments, others),
            Admit::Duplicate => self.counters.duplicates.add(1),
            Admit::Refuse(_) => self.counters.refused.add(1),
        }
        self.effects.is_ack_due |= may_owe_ack && endpoint.is_ack_due_at_once(self.now, slot);
    }

    /// Takes each segment of a run by itself. `others`: the packets behind the first.
    #[cold]
    fn singly<'a>(&mut self, origin: SegmentOrigin, run: &ArrivedRun<'a>, others: Chunks<'a, u8>) {
        let packets = iter::once(run.first).chain(others);
        for bytes in packets.take(run.payloads.len()) {
            if let Ok(Packet::Data(header, payload)) = Packet::decode(bytes) {
                let segments = ArrivedRun::new(bytes, header, payload);
                self.segments(origin, segments, &mut no_packets());
            }
        }
    }

    /// Where the payload of a segment may be written that is still arriving, and whether it has a
    /// CRC. `None`: the whole segment is handed in, or dropped.
    fn place_ahead(
        &mut self,
        from: SocketAddr,
        path: PathId,
        header: &DataHeader,
    ) -> Option<(SgList, Crc)> {
        let entry = self.qps.addressed(header.qp, header.token)?;
        let (peer, slot) = entry.bound()?;
        if !entry.is_peer(Some(from), self.source.rail) || entry.keyed().is_some() {
            return None;
        }
        let arrival = Arrival {
            header,
            segments: 1,
            stamp: header.stamp,
            path,
            congestion: false,
            may_be_replied_to: self.may_be_replied_to,
        };
        let (endpoint, _) = self.peers.endpoint_without_waking(peer)?;
        let pieces = endpoint.place_ahead(self.now, slot, &arrival, &self.memory.checked)?;
        // Device memory is reached by copies only.
        (!cuda::has_device(&pieces)).then_some((pieces, entry.crc))
    }

    fn ack(&mut self, from: Option<SocketAddr>, ack: &Ack) {
        let Some((peer, slot)) = self.bound(from, ack.qp, ack.token) else { return };
        if let Some((endpoint, rails, _)) = self.peers.parts(peer) {
            endpoint.on_ack(self.now, slot, ack, rails);
        }
    }

    fn credit(&mut self, from: Option<SocketAddr>, credit: &Credit) {
        let Some((peer, slot)) = self.bound(from, credit.qp, credit.token) else { return };
        self.peers.on_credit(self.now, peer, slot, credit);
    }

    /// The connection of this number and token, if its peer has sent the packet.
    fn bound(
        &mut self,
        from: Option<SocketAddr>,
        id: QpId,
        token: Token,
    ) -> Option<(usize, QpSlot)> {
        let Some(entry) = self.qps.addressed(id, token) else {
            self.stray(id);
            return None;
        };
        let bound = entry.bound()?;
        if !entry.is_peer(from, self.source.rail) {
            self.counters.wrong_source.add(1);
            return None;
        }
        may_be_for(entry.keyed(), self.source.envelope, self.counters).then_some(bound)
    }

    /// Counts a packet whose queue pair does not exist.
    fn stray(&mut self, id: QpId) {
        match self.qps.get(id) {
            Some(_) => self.counters.wrong_token.add(1),
            None => self.counters.unknown_qp.add(1),
        }
    }

    /// Takes a part. Only data packets come in parts, and a complete one is taken like a whole
    /// packet.
    fn part(&mut self, received: &Received<'_>, part: &Part, bytes: &[u8]) {
        if self.bound(received.from, part.qp, part.token).is_none() {
            return;
        }
        let Some(whole) = self.qps.take_part(part, bytes, self.peers) else { return };
        match Packet::decode(&whole) {
            Ok(Packet::Data(header, payload)) if header.psn == part.psn => {
                let segments = ArrivedRun::new(&whole, header, payload);
                self.segments(self.origin(received), segments, &mut no_packets());
            }
            _ => self.counters.malformed.add(1),
        }
    }

    /// Answers a path MTU probe. The answer goes to the peer's receiving port and not to the source
    /// of the probe, so that an attacker cannot redirect it.
    fn probe(&mut self, from: Option<SocketAddr>, probe: &Probe) {
        if let Some((peer, slot)) = self.bound(from, probe.qp, probe.token) {
            self.peers.endpoint_mut(peer).on_probe(self.now, slot, self.source.rail, probe);
        }
    }

    fn control(&mut self, pair: Option<AddrPair>, via: Via, control: &Control) {
        let from = pair.map(|pair| pair.remote);
        let entry = match control.kind {
            ControlKind::Confirm => return self.confirm(from, control),
            // The packet has the token of the peer's queue pair, which the endpoint compares.
            ControlKind::Unknown => self.qps.get(control.qp),
            _ => self.qps.addressed(control.qp, control.token),
        };
        let (rail, envelope) = (self.source.rail, self.source.envelope);
        // The number of an ended connection may belong to another connection by now.
        let entry = entry.filter(|entry| envelope.is_none() || envelope == entry.keyed());
        let keyed = entry.as_ref().and_then(|entry| entry.keyed());
        let state = entry.map(|entry| (entry.bound(), entry.shared.id, entry.is_peer(from, rail)));
        match state {
            Some(_) if !may_be_for(keyed, envelope, self.counters) => {}
            Some((Some(_), _, false)) => self.counters.wrong_source.add(1),
            Some((Some((peer, slot)), ..)) => {
                let Some((endpoint, rails, _)) = self.peers.parts(peer) else { return };
                let known = endpoint.on_control(self.now, slot, control, egress(via, rail), rails);
                self.counters.refused.add(u64::from(!known));
                let is_end =
                    matches!(control.kind, ControlKind::Disconnect(_) | ControlKind::Unknown);
                if known && is_end {
                    let is_from = |ended: &DisconnectAddress| ended.may_say(from, rail, envelope);
                    self.disconnects.on_peer_ended(control, is_from);
                }
            }
            // The queue pair was accepted, and the ACCEPT is still to come or to be repeated. The
            // peer also repeats this packet.
            Some((None, id, _)) if self.initiators.is_connecting(id) => {}
            _ => {
                self.stray(control.qp);
                self.deny(pair, control);
            }
        }
    }

    fn confirm(&mut self, from: Option<SocketAddr>, confirm: &Control) {
        let (rail, envelope) = (self.source.rail, self.source.envelope);
        let is_from = |ended: &DisconnectAddress| ended.may_say(from, rail, envelope);
        match self.disconnects.confirm(confirm, is_from) {
            Confirmation::Taken => {}
            Confirmation::Unasked => self.counters.unknown_qp.add(1),
            Confirmation::WrongSource => self.counters.wrong_source.add(1),
        }
    }

    fn setup(&mut self, from: Option<AddrPair>, setup: &Setup) {
        // Connections are set up over the first rail, by packets with a source address to answer
        // to.
        let Some(from) = from else { return self.counters.malformed.add(1) };
        if self.source.rail != RailId::FIRST {
            return self.counters.setup_refused.add(1);
        }
        match setup {
            Setup::Hello(hello) => {
                self.listening.on_hello(self.now, from, *hello, self.outbox);
            }
            Setup::Connect(connect) => {
                self.listening.on_connect(self.now, from, connect, self.outbox, self.counters);
            }
            Setup::SealedConnect(sealed) => {
                let (outbox, counters) = (&mut *self.outbox, self.counters);
                self.listening.on_sealed_connect(self.now, from, sealed, outbox, counters);
            }
            Setup::SealedAccept(sealed) => match self.open_accept(from, sealed) {
                Some(accept) => self.answer(from, &accept),
                None => self.counters.setup_refused.add(1),
            },
            // An initiator with a key does not connect to a responder without one.
            Setup::Accept(accept) if self.is_keyed(accept.nonce) => {
                self.counters.setup_refused.add(1);
            }
            Setup::Cookie { nonce, cookie, key_id, .. } => {
                let binding = Binding { nonce: *nonce, cookie: *cookie };
                let attempt = self.initiators.of_nonce(*nonce);
                if let Some(exchange) = attempt.and_then(|it| it.driver.exchange.as_mut()) {
                    exchange.on_cookie(binding, KeyId(*key_id));
                }
                self.answer(from, setup);
            }
            answer => self.answer(from, answer),
        }
    }

    /// Takes the answer to an attempt of this engine.
    fn answer(&mut self, from: AddrPair, answer: &Setup) {
        match self.initiators.on_answer(self.now, from, answer) {
            Use::Taken => {}
            Use::None => self.counters.setup_refused.add(1),
            Use::Declined(control) => {
                self.counters.setup_refused.add(1);
                self.outbox.control(self.source.rail, from, &control, None);
            }
        }
    }

    /// Whether this attempt of this engine asks for a keyed connection.
    fn is_keyed(&mut self, nonce: u64) -> bool {
        self.initiators.of_nonce(nonce).is_some_and(|attempt| attempt.driver.exchange.is_some())
    }

    /// Decrypts a sealed ACCEPT. `None`: no attempt waits for it, or it is not from the responder
    /// that was asked and has the key.
    fn open_accept(&mut self, from: AddrPair, sealed: &SealedOffer) -> Option<Setup> {
        let attempt = self.initiators.of_nonce(sealed.nonce)?;
        let is_asked = from.remote.ip() == attempt.to.ip().to_canonical();
        attempt.driver.exchange.as_mut().filter(|_| is_asked)?.open(sealed)
    }

    /// Answers a question about a queue pair that does not exist. The source may be a path's port,
    /// which receives nothing; then the answer is lost unless the peer's receiving address is
    /// known. The sender soon asks again from its receiving port.
    fn deny(&mut self, from: Option<AddrPair>, question: &Control) {
        let (rail, envelope) = (self.source.rail, self.source.envelope);
        let remote = from.map(|from| from.remote);
        let is_from = |ended: &DisconnectAddress| ended.may_say(remote, rail, envelope);
        let answer = self.disconnects.on_stray(self.now, question, is_from);
        let Some(StrayAnswer { control, to }) = answer else { return };
        // Without an address, the sender asks again from its receiving port.
        if let Some(to) = to.and_then(|ended| ended.addrs.on(rail)).or(from) {
            let session = envelope.and_then(|end| self.sessions.get_mut(end));
            self.outbox.control(rail, to, &control, session);
        }
    }

    fn undecodable(&mut self, from: Option<AddrPair>, bytes: &[u8], error: DecodeError) {
        match error {
            DecodeError::Version(_) => {
                self.counters.version.add(1);
                if let Some(from) = from {
                    self.listening.on_other_version(from, bytes, self.outbox);
                }
                if let Some(reject) = Setup::reject_of_other_version(bytes) {
                    self.setup(from, &Setup::Reject(reject));
                }
            }
            DecodeError::HeaderCheck => self.counters.header_check.add(1),
            _ => self.counters.malformed.add(1),
        }
    }
}

/// Whether a packet in this envelope may be for a queue pair. A keyed queue pair takes only packets
/// that its own keys have decrypted. Any other takes only unencrypted packets.
fn may_be_for(
    keyed: Option<Addressee>,
    envelope: Option<Addressee>,
    counters: &WorkerCounters,
) -> bool {
    let may = envelope == keyed;
    if !may {
        counters.unprotected.add(1);
    }
    may
}

#[cfg(test)]
mod tests;
