//! The queue pairs of a worker.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use braid_lb::RailSet;
use braid_transport::{
    Accepted, Arrival, Completion, ConnectedQp, EndCause, Ended, Endpoint, PostError, QpConfig,
    QpCounters, QpSlot, QueuePair, RecvWr, Regions, Remote, SendWr,
};
use braid_wire::{Crc, PART_LEN, Part, QpId, RailId, RcHeader, SEALED_PART_LEN, Time, Token};

use super::announce::{announce, announce_end};
use super::held_sends::{HeldSends, MessageFault};
use super::peers::Peers;
use super::rails::PeerAddrs;
use super::reassembly::Reassembly;
use super::roce_qp::RoceQp;
use super::sessions::Addressee;
use crate::cq::CqShared;
use crate::cuda::Lane;
use crate::events::AsyncEvents;
use crate::mad_queue::MadQueue;
use crate::qp::{PostedSend, QpShared};
use crate::qp_numbers::QpNumber;
use crate::ud_queues::UdQueues;

/// The queue pairs by place.
pub(crate) struct QpTable {
    /// The place of each label. 0: none.
    places: Box<[u16; 1 << 16]>,
    entries: Vec<Option<Box<QpEntry>>>,
    reassembly: Reassembly,
    /// The queue pairs that their RoCEv2 peers know by other numbers than the engine's.
    roce_numbers: HashMap<QpId, QpId>,
    /// The queue of queue pair 1 of RoCEv2, which takes management datagrams. `None`: it is closed.
    pub(super) mads: Option<Arc<MadQueue>>,
    /// The queue pairs of the UD service, by the numbers that their peers know.
    pub(super) datagrams: HashMap<QpId, Arc<UdQueues>>,
}

/// A queue pair as its worker sees it.
///
/// Invariant: `sends` has one element for each send that the core holds and has not completed, in
/// posting order; `recvs` counts the receives that the core holds.
pub(crate) struct QpEntry {
    pub(crate) shared: Arc<QpShared>,
    pub(crate) place: QpLocation,
    pub(crate) token: Token,
    /// Whether the connection is keyed. If so, only packets that its keys decrypt count.
    pub(crate) is_keyed: bool,
    /// Whether payloads of this connection carry a CRC.
    pub(crate) crc: Crc,
    /// The receiving addresses of the peer, once connected.
    pub(crate) remote_addrs: Option<PeerAddrs>,
    /// The rails of the connection that take no segment now.
    pub(crate) full_rails: RailSet,
    /// The attempt that the queue pair was accepted for.
    pub(crate) accepted: Option<Accepted>,
    /// The buffers of sends that have not ended.
    sends: VecDeque<SendBuffer>,
    recvs: u32,
    /// Sends that wait for copies of device memory; `None`: there never were any.
    pub(super) held: Option<Box<HeldSends>>,
    /// Whether ends are dropped, because the queue pair is being reset or destroyed.
    pub(crate) muted: bool,
}

/// The memory of a send that returns to its owner when the send has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SendBuffer {
    None,
    /// A buffer for inline data.
    Inline(u32),
    /// The copy of a message from device memory.
    Copy(u32),
}

/// The location of the core's queue pair.
pub(crate) enum QpLocation {
    /// Not connected.
    Unbound(Box<QueuePair>),
    /// In the endpoint of a peer.
    Bound { peer: usize, slot: QpSlot },
    /// Connected to a peer that speaks plain RoCEv2.
    Roce(Box<RoceQp>),
}

impl QpLocation {
    /// An unconnected queue pair that stands in for one that moves.
    pub(super) fn vacant() -> Self {
        let (id, token) = Default::default();
        QpLocation::Unbound(Box::new(QueuePair::new(id, token, QpConfig::default())))
    }
}

impl Default for QpTable {
    fn default() -> Self {
        // The system provides zeroed pages one by one as they are written.
        let places = vec![0; 1 << 16].into_boxed_slice().try_into();
        let places = places.expect("it is as long as the array");
        let (entries, reassembly, roce_numbers, datagrams) = Default::default();
        QpTable { places, entries, reassembly, roce_numbers, mads: None, datagrams }
    }
}

impl QpTable {
    pub(crate) fn insert(&mut self, entry: QpEntry) {
        let QpNumber { id, place } = entry.shared.number();
        self.places[usize::from(QpNumber::label(id))] = place;
        let index = usize::from(place);
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index] = Some(Box::new(entry));
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<Box<QpEntry>> {
        let entry = self.entries.get_mut(index)?.take();
        entry.iter().for_each(|entry| self.reassembly.forget(entry.shared.id));
        entry
    }

    /// The queue pair that a RoCEv2 peer knows by this number.
    pub(super) fn of_roce_number(&mut self, number: QpId) -> Option<&mut QpEntry> {
        let id = self.roce_numbers.get(&number).copied().unwrap_or(number);
        self.get(id)
    }

    /// Whether a RoCEv2 peer knows another queue pair by this number.
    pub(super) fn has_roce_number(&self, number: QpId) -> bool {
        self.roce_numbers.contains_key(&number)
    }

    /// Enters the number by which the peer of a RoCEv2 queue pair knows it, if it has one.
    pub(super) fn set_roce_number(&mut self, id: QpId, number: Option<QpId>) {
        self.roce_numbers.extend(number.map(|number| (number, id)));
    }

    pub(super) fn forget_roce_number(&mut self, number: Option<QpId>) {
        number.map(|number| self.roce_numbers.remove(&number));
    }

    /// The RoCEv2 connection of the queue pair in this place.
    pub(super) fn roce(&self, index: usize) -> Option<&RoceQp> {
        match &self.entries.get(index)?.as_deref()?.place {
            QpLocation::Roce(roce) => Some(roce),
            _ => None,
        }
    }

    /// The RoCEv2 connection of the queue pair in this place.
    pub(super) fn roce_mut(&mut self, index: usize) -> Option<&mut RoceQp> {
        match &mut self.at(index)?.place {
            QpLocation::Roce(roce) => Some(roce),
            _ => None,
        }
    }

    pub(crate) fn at(&mut self, index: usize) -> Option<&mut QpEntry> {
        self.entries.get_mut(index)?.as_deref_mut()
    }

    /// The place of the queue pair with this number, if there is one.
    pub(crate) fn index_of(&self, id: QpId) -> usize {
        self.places[usize::from(QpNumber::label(id))].into()
    }

    /// The queue pair with this full number.
    pub(crate) fn get(&mut self, id: QpId) -> Option<&mut QpEntry> {
        self.at(self.index_of(id)).filter(|entry| entry.shared.id == id)
    }

    /// The queue pair that a packet addresses.
    pub(crate) fn addressed(&mut self, id: QpId, token: Token) -> Option<&mut QpEntry> {
        self.get(id).filter(|entry| entry.token == token)
    }

    /// Takes a part of a packet for a connected queue pair. Returns the packet if that completes
    /// it. A part of a packet outside the window is dropped, because it would take the place of
    /// another.
    pub(crate) fn take_part(
        &mut self,
        part: &Part,
        bytes: &[u8],
        peers: &Peers,
    ) -> Option<Vec<u8>> {
        let entry = self.get(part.qp)?;
        let part_len = if entry.is_keyed { SEALED_PART_LEN } else { PART_LEN };
        let qp = entry.connected(peers)?;
        let mtu = Some(qp.remote()).filter(|_| qp.is_within_window(part.psn))?.mtu;
        self.reassembly.take(part, bytes, part_len, mtu)
    }

    /// Drops the incomplete packets of an earlier connection of this queue pair.
    pub(crate) fn forget_parts(&mut self, id: QpId) {
        self.reassembly.forget(id);
    }

    /// The number of places, free ones included.
    pub(crate) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// The queue pairs in these places.
    pub(crate) fn within(&self, slots: Range<usize>) -> impl Iterator<Item = &QpEntry> {
        let end = slots.end.min(self.entries.len());
        self.entries[slots.start.min(end)..end].iter().filter_map(|entry| entry.as_deref())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &QpEntry> {
        self.entries.iter().filter_map(|entry| entry.as_deref())
    }
}

impl QpEntry {
    pub(crate) fn new(shared: Arc<QpShared>, qp: QueuePair) -> Self {
        QpEntry {
            token: qp.token(),
            place: QpLocation::Unbound(Box::new(qp)),
            shared,
            is_keyed: false,
            crc: Crc::On,
            remote_addrs: None,
            full_rails: RailSet::default(),
            accepted: None,
            sends: VecDeque::new(),
            recvs: 0,
            held: None,
            muted: false,
        }
    }

    /// The peer of a connected queue pair, and its place there.
    pub(crate) fn bound(&self) -> Option<(usize, QpSlot)> {
        match self.place {
            QpLocation::Bound { peer, slot } => Some((peer, slot)),
            QpLocation::Unbound(_) | QpLocation::Roce(_) => None,
        }
    }

    /// The protocol that carries the packets, out of those of the datapath by carrier. `None`: not
    /// connected.
    pub(crate) fn protocol(&self, protocols: &[&'static str]) -> Option<&'static str> {
        match (&self.place, &self.remote_addrs) {
            (QpLocation::Roce(_), _) => Some("RoCEv2"),
            (_, to) => to.as_ref().map(|to| protocols[to.carrier().index()]),
        }
    }

    /// Whether the peer may have sent a packet that arrived by this rail from `from`.
    pub(crate) fn is_peer(&self, from: Option<SocketAddr>, rail: RailId) -> bool {
        self.remote_addrs.as_ref().is_some_and(|addrs| addrs.may_send(from, rail))
    }

    /// The addressee of encrypted packets, if the connection is keyed.
    pub(crate) fn keyed(&self) -> Option<Addressee> {
        self.is_keyed.then_some((self.shared.id, self.token))
    }

    pub(crate) fn counters(&self, peers: &Peers) -> QpCounters {
        self.core(peers).counters()
    }

    /// The agreement of both ends, once connected.
    pub(crate) fn remote(&self, peers: &Peers) -> Option<Remote> {
        self.connected(peers).map(|qp| *qp.remote())
    }

    /// Payload bytes of a full packet, once connected.
    pub(crate) fn packet_payload(&self, peers: &Peers) -> Option<u16> {
        if let QpLocation::Roce(roce) = &self.place {
            return Some(roce.mtu().bytes() as u16);
        }
        self.connected(peers).map(ConnectedQp::segment_payload)
    }

    /// The core's queue pair, if it is connected.
    pub(super) fn connected<'a>(&self, peers: &'a Peers) -> Option<&'a ConnectedQp> {
        self.bound().map(|(peer, slot)| peers.endpoint(peer).qp(slot))
    }

    pub(super) fn core<'a>(&'a self, peers: &'a Peers) -> &'a QueuePair {
        match &self.place {
            QpLocation::Unbound(qp) => qp,
            QpLocation::Bound { peer, slot } => peers.endpoint(*peer).qp(*slot),
            QpLocation::Roce(roce) => &roce.qp,
        }
    }

    /// Publishes the core's state to the posting threads.
    pub(crate) fn mirror_state(&self, peers: &Peers) {
        let core = self.core(peers);
        self.shared.set_state(core.state(), core.error());
    }

    /// Hands posted work requests to the core.
    pub(crate) fn take_posts(&mut self, now: Time, peers: &mut Peers) {
        self.take_receives(now, peers);
        while let Some(PostedSend { wr, inline }) = self.shared.sends.pop() {
            let buffer = inline.map_or(SendBuffer::None, SendBuffer::Inline);
            self.hand_over(now, peers, wr, buffer);
        }
    }

    /// Hands posted work requests to the core, but for those that wait for copies of device memory.
    /// The error is that of a copy, and ends the queue pair.
    pub(crate) fn take_posts_copying(
        &mut self,
        now: Time,
        peers: &mut Peers,
        lane: &mut Lane,
        regions: &Regions,
    ) -> Result<usize, MessageFault> {
        self.take_receives(now, peers);
        while let Some(PostedSend { wr, inline }) = self.shared.sends.pop() {
            let buffer = inline.map_or(SendBuffer::None, SendBuffer::Inline);
            match self.must_wait(peers, &wr, regions) {
                true => self.hold(wr, buffer),
                false => self.hand_over(now, peers, wr, buffer),
            }
        }
        self.advance_held(now, peers, lane, regions)
    }

    #[inline]
    fn take_receives(&mut self, now: Time, peers: &mut Peers) {
        while let Some(wr) = self.shared.recvs.pop() {
            match self.post_recv(now, peers, wr) {
                Ok(()) => self.recvs += 1,
                Err(error) => {
                    // The receive was posted during a reset, which drops it.
                    tracing::debug!(qp = %self.shared.id, %error, "a receive was dropped");
                    self.shared.recvs.release(1);
                }
            }
        }
    }

    /// Hands a work request to the core.
    #[inline]
    pub(super) fn hand_over(
        &mut self,
        now: Time,
        peers: &mut Peers,
        wr: SendWr,
        buffer: SendBuffer,
    ) {
        match self.post_send(now, peers, wr) {
            Ok(()) => self.sends.push_back(buffer),
            Err(error) => self.drop_send(error, buffer),
        }
    }

    /// Hands a work request to the endpoint that holds the core's queue pair.
    pub(super) fn hand_to(
        &mut self,
        now: Time,
        (endpoint, slot): (&mut Endpoint, QpSlot),
        wr: SendWr,
        buffer: SendBuffer,
    ) {
        match endpoint.post_send(now, slot, wr) {
            Ok(()) => self.sends.push_back(buffer),
            Err(error) => self.drop_send(error, buffer),
        }
    }

    /// Hands a work request to the core of a RoCEv2 queue pair.
    pub(super) fn hand_to_roce(&mut self, wr: SendWr, buffer: SendBuffer) {
        let QpLocation::Roce(roce) = &mut self.place else { return self.retire(buffer) };
        match roce.qp.post_send(wr) {
            Ok(()) => self.sends.push_back(buffer),
            Err(error) => self.drop_send(error, buffer),
        }
    }

    #[cold]
    fn drop_send(&mut self, error: PostError, buffer: SendBuffer) {
        tracing::debug!(qp = %self.shared.id, %error, "a send was dropped");
        self.retire(buffer);
    }

    /// Takes the receives for these segments from the shared receive queue, if the queue pair has
    /// one. The endpoint refuses a segment without a receive and tells its sender.
    pub(crate) fn take_shared_receives(
        &mut self,
        now: Time,
        arrival: &Arrival<'_>,
        peers: &mut Peers,
        events: &AsyncEvents,
    ) {
        let shared = self.shared.clone();
        let (Some(srq), Some((peer, slot))) = (&shared.srq, self.bound()) else { return };
        let qp = peers.endpoint(peer).qp(slot);
        for _ in 0..qp.shared_receives(arrival, self.recvs as usize, srq.left()) {
            let Some(wr) = srq.take(events) else { return };
            match self.post_recv(now, peers, wr) {
                Ok(()) => self.recvs += 1,
                Err(_) => srq.release(1),
            }
        }
    }

    fn post_recv(&mut self, now: Time, peers: &mut Peers, wr: RecvWr) -> Result<(), PostError> {
        match &mut self.place {
            QpLocation::Unbound(qp) => qp.post_recv(wr),
            QpLocation::Bound { peer, slot } => peers.endpoint_mut(*peer).post_recv(now, *slot, wr),
            QpLocation::Roce(roce) => roce.qp.post_recv(wr),
        }
    }

    fn post_send(&mut self, now: Time, peers: &mut Peers, wr: SendWr) -> Result<(), PostError> {
        match &mut self.place {
            QpLocation::Unbound(qp) => qp.post_send(wr),
            QpLocation::Bound { peer, slot } => peers.endpoint_mut(*peer).post_send(now, *slot, wr),
            QpLocation::Roce(roce) => roce.qp.post_send(wr),
        }
    }

    /// Moves the queue pair to ERR for a reason that the engine has found.
    pub(crate) fn end(&mut self, peers: &mut Peers, events: &AsyncEvents, cause: EndCause) {
        // Only an endpoint reports events.
        let is_silent = match &mut self.place {
            QpLocation::Unbound(qp) => qp.end(cause),
            QpLocation::Bound { peer, slot } => {
                peers.endpoint_mut(*peer).end(*slot, cause);
                false
            }
            QpLocation::Roce(roce) => {
                roce.qp.end(cause);
                false
            }
        };
        self.mirror_state(peers);
        if is_silent {
            announce_end(events, self.shared.id, cause.into());
        }
    }

    /// Delivers the flushed work requests of an unconnected queue pair.
    pub(crate) fn deliver_unbound(&mut self) {
        while let QpLocation::Unbound(qp) = &mut self.place {
            let Some(ended) = qp.poll_ended() else { break };
            self.deliver(ended);
        }
    }

    /// Delivers the events and the completions of a RoCEv2 queue pair.
    pub(super) fn settle_roce(&mut self, peers: &Peers, events: &AsyncEvents) {
        while let QpLocation::Roce(roce) = &mut self.place {
            let Some(event) = roce.qp.poll_event() else { break };
            // The state is set before the announcement, so that its readers see it.
            self.mirror_state(peers);
            announce(events, self.shared.id, event);
        }
        while let QpLocation::Roce(roce) = &mut self.place {
            let Some(ended) = roce.qp.poll_ended() else { break };
            self.deliver(ended);
        }
    }

    /// The RoCEv2 connection of a queue pair that has one. Takes the receive for this packet from
    /// the shared receive queue first, if the queue pair has one.
    pub(super) fn roce_for(
        &mut self,
        header: &RcHeader,
        events: &AsyncEvents,
    ) -> Option<&mut RoceQp> {
        let QpLocation::Roce(roce) = &mut self.place else { return None };
        if let Some(srq) = &self.shared.srq
            && roce.qp.lacks_receive(header)
            && let Some(wr) = srq.take(events)
        {
            match roce.qp.post_recv(wr) {
                Ok(()) => self.recvs += 1,
                Err(_) => srq.release(1),
            }
        }
        Some(roce)
    }

    /// Puts a completion into its queue if the application asked for it. The place in the work
    /// queue is freed first, so that a thread that sees the completion can post again.
    pub(crate) fn deliver(&mut self, ended: Ended) {
        if ended.completion.work.is_recv() {
            self.recvs -= 1;
            self.shared.release_recvs(1);
            return self.push(&self.shared.recv_cq, ended.completion);
        }
        let buffer = self.sends.pop_front();
        debug_assert!(buffer.is_some(), "nothing was posted that could have ended: {ended:?}");
        let Some(buffer) = buffer else { return };
        self.retire(buffer);
        if let Some(completion) = ended.reported() {
            self.push(&self.shared.send_cq, completion);
        }
    }

    /// Pushes a completion. The first one without room ends every queue pair that uses the queue,
    /// because none of them can still guarantee a completion for each work request.
    fn push(&self, cq: &CqShared, completion: Completion) {
        if !self.muted && !cq.push(completion) {
            cq.announce_overrun();
        }
    }

    /// Releases the buffer of a send that has ended.
    #[inline]
    fn retire(&mut self, buffer: SendBuffer) {
        match buffer {
            SendBuffer::None => {}
            SendBuffer::Inline(index) => self.shared.inline.give_back(index),
            SendBuffer::Copy(number) => self.retire_copy(number),
        }
        self.shared.sends.release(1);
    }

    #[cold]
    fn retire_copy(&mut self, number: u32) {
        self.held.get_or_insert_default().released.push(number);
    }

    /// Drops everything that is posted, without completions.
    pub(crate) fn forget_posts(&mut self) {
        let shared = self.shared.clone();
        while shared.recvs.pop().is_some() {
            self.recvs += 1;
        }
        shared.release_recvs(std::mem::take(&mut self.recvs));
        self.sends.extend(self.held.iter_mut().flat_map(|held| held.drain()));
        while let Some(posted) = shared.sends.pop() {
            self.sends.push_back(posted.inline.map_or(SendBuffer::None, SendBuffer::Inline));
        }
        while let Some(buffer) = self.sends.pop_front() {
            self.retire(buffer);
        }
    }
}
