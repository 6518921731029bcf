//! A worker's queue pairs.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use braid_lb::RailSet;
use braid_transport::{
    Accepted, Completion, ConnectedQp, EndCause, Ended, PostError, QpCounters, QpSlot, QueuePair,
    RecvWr, Remote, SendWr,
};
use braid_wire::{Crc, DataHeader, PART_LEN, Part, QpId, RailId, SEALED_PART_LEN, Time, Token};

use super::announce::announce_end;
use super::peers::Peers;
use super::rails::PeerAddrs;
use super::reassembly::Reassembly;
use super::sessions::Addressee;
use crate::cq::CqShared;
use crate::events::AsyncEvents;
use crate::qp::{PostedSend, QpShared};
use crate::qp_numbers::QpNumber;

/// By their places.
pub(crate) struct QpTable {
    /// The place of each label; 0: nobody has had it here.
    places: Box<[u16; 1 << 16]>,
    entries: Vec<Option<Box<QpEntry>>>,
    reassembly: Reassembly,
}

/// One queue pair as its worker sees it.
///
/// Invariant: `sends` has one element for each send that the core holds and has not completed, in
/// posting order; `recvs` counts the receives that it holds.
pub(crate) struct QpEntry {
    pub(crate) shared: Arc<QpShared>,
    pub(crate) place: Place,
    pub(crate) token: Token,
    /// Its connection is keyed: no packet counts but those that its keys open.
    pub(crate) is_keyed: bool,
    /// Whether payloads of this connection carry a check.
    pub(crate) crc: Crc,
    /// Where the other end receives, once connected.
    pub(crate) remote_addrs: Option<PeerAddrs>,
    /// The rails of its connection that take none of its segments for now.
    pub(crate) full_rails: RailSet,
    /// What it was accepted for.
    pub(crate) accepted: Option<Accepted>,
    /// The buffers of the inline data of sends that have not ended.
    sends: VecDeque<Option<u32>>,
    recvs: u32,
    /// What ends from now on is forgotten: it is being reset or destroyed.
    pub(crate) muted: bool,
}

/// Where the core's queue pair is.
pub(crate) enum Place {
    /// Not connected.
    Unbound(Box<QueuePair>),
    /// Inside the endpoint of a peer.
    Bound { peer: usize, slot: QpSlot },
}

impl Default for QpTable {
    fn default() -> Self {
        // The system hands out zeros a page at a time, as they are written to.
        let places = vec![0; 1 << 16].into_boxed_slice().try_into();
        let places = places.expect("it is as long as the array");
        QpTable { places, entries: Vec::new(), reassembly: Reassembly::default() }
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

    pub(crate) fn at(&mut self, index: usize) -> Option<&mut QpEntry> {
        self.entries.get_mut(index)?.as_deref_mut()
    }

    /// Where the queue pair of this number is, if there is one.
    pub(crate) fn index_of(&self, id: QpId) -> usize {
        self.places[usize::from(QpNumber::label(id))].into()
    }

    /// The queue pair of a whole number.
    pub(crate) fn get(&mut self, id: QpId) -> Option<&mut QpEntry> {
        self.at(self.index_of(id)).filter(|entry| entry.shared.id == id)
    }

    /// The queue pair that a packet is for.
    pub(crate) fn addressed(&mut self, id: QpId, token: Token) -> Option<&mut QpEntry> {
        self.get(id).filter(|entry| entry.token == token)
    }

    /// A part of a packet for a connected queue pair has come. Returns the packet if that completes it. One of a packet outside the
    /// window is dropped: it would take the place of another.
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

    /// What is incomplete for this queue pair is of an earlier connection.
    pub(crate) fn forget_parts(&mut self, id: QpId) {
        self.reassembly.forget(id);
    }

    /// Places, taken or not.
    pub(crate) fn slots(&self) -> usize {
        self.entries.len()
    }

    /// Those in these places.
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
            place: Place::Unbound(Box::new(qp)),
            shared,
            is_keyed: false,
            crc: Crc::On,
            remote_addrs: None,
            full_rails: RailSet::default(),
            accepted: None,
            sends: VecDeque::new(),
            recvs: 0,
            muted: false,
        }
    }

    /// Its peer and its place there, if it is connected.
    pub(crate) fn bound(&self) -> Option<(usize, QpSlot)> {
        match self.place {
            Place::Bound { peer, slot } => Some((peer, slot)),
            Place::Unbound(_) => None,
        }
    }

    /// Whether a packet that has come by this rail from there may be its peer's.
    pub(crate) fn is_peer(&self, from: Option<SocketAddr>, rail: RailId) -> bool {
        self.remote_addrs.as_ref().is_some_and(|addrs| addrs.may_send(from, rail))
    }

    /// What envelopes for it are addressed to, if its connection is keyed.
    pub(crate) fn keyed(&self) -> Option<Addressee> {
        self.is_keyed.then_some((self.shared.id, self.token))
    }

    pub(crate) fn counters(&self, peers: &Peers) -> QpCounters {
        self.core(peers).counters()
    }

    /// What both ends agreed on, once connected.
    pub(crate) fn remote(&self, peers: &Peers) -> Option<Remote> {
        self.connected(peers).map(|qp| *qp.remote())
    }

    /// Payload bytes of a full packet, once connected.
    pub(crate) fn packet_payload(&self, peers: &Peers) -> Option<u16> {
        self.connected(peers).map(ConnectedQp::segment_payload)
    }

    /// The core's queue pair, if it is connected.
    pub(super) fn connected<'a>(&self, peers: &'a Peers) -> Option<&'a ConnectedQp> {
        self.bound().map(|(peer, slot)| peers.endpoint(peer).qp(slot))
    }

    pub(super) fn core<'a>(&'a self, peers: &'a Peers) -> &'a QueuePair {
        match &self.place {
            Place::Unbound(qp) => qp,
            Place::Bound { peer, slot } => peers.endpoint(*peer).qp(*slot),
        }
    }

    /// Makes the core's state known to the posting threads.
    pub(crate) fn mirror_state(&self, peers: &Peers) {
        let core = self.core(peers);
        self.shared.set_state(core.state(), core.error());
    }

    /// Hands over what has been posted.
    pub(crate) fn take_posts(&mut self, now: Time, peers: &mut Peers) {
        while let Some(wr) = self.shared.recv_ring.pop() {
            match self.post_recv(now, peers, wr) {
                Ok(()) => self.recvs += 1,
                Err(error) => {
                    // It was posted while the queue pair was being reset, which forgets it.
                    tracing::debug!(qp = %self.shared.id, %error, "a receive was dropped");
                    self.shared.recvs.release(1);
                }
            }
        }
        while let Some(posted) = self.shared.send_ring.pop() {
            let PostedSend { wr, inline } = posted;
            match self.post_send(now, peers, wr) {
                Ok(()) => self.sends.push_back(inline),
                Err(error) => {
                    tracing::debug!(qp = %self.shared.id, %error, "a send was dropped");
                    self.retire(inline);
                }
            }
        }
    }

    /// Takes the receives from its shared queue, if it has one, that this segment needs and may
    /// have. The endpoint refuses a segment for which there is none, and its sender hears of it.
    pub(crate) fn take_shared_receives(
        &mut self,
        now: Time,
        header: &DataHeader,
        peers: &mut Peers,
        events: &AsyncEvents,
    ) {
        let shared = self.shared.clone();
        let (Some(srq), Some((peer, slot))) = (&shared.srq, self.bound()) else { return };
        let qp = peers.endpoint(peer).qp(slot);
        for _ in 0..qp.shared_receives(header, self.recvs as usize, srq.left()) {
            let Some(wr) = srq.take(events) else { return };
            match self.post_recv(now, peers, wr) {
                Ok(()) => self.recvs += 1,
                Err(_) => srq.release(1),
            }
        }
    }

    fn post_recv(&mut self, now: Time, peers: &mut Peers, wr: RecvWr) -> Result<(), PostError> {
        match &mut self.place {
            Place::Unbound(qp) => qp.post_recv(wr),
            Place::Bound { peer, slot } => peers.endpoint_mut(*peer).post_recv(now, *slot, wr),
        }
    }

    fn post_send(&mut self, now: Time, peers: &mut Peers, wr: SendWr) -> Result<(), PostError> {
        match &mut self.place {
            Place::Unbound(qp) => qp.post_send(wr),
            Place::Bound { peer, slot } => peers.endpoint_mut(*peer).post_send(now, *slot, wr),
        }
    }

    /// Moves it to ERR, because of something that the engine has found.
    pub(crate) fn end(&mut self, peers: &mut Peers, events: &AsyncEvents, cause: EndCause) {
        // Only an endpoint hands out events.
        let is_silent = match &mut self.place {
            Place::Unbound(qp) => qp.end(cause),
            Place::Bound { peer, slot } => {
                peers.endpoint_mut(*peer).end(*slot, cause);
                false
            }
        };
        self.mirror_state(peers);
        if is_silent {
            announce_end(events, self.shared.id, cause.into());
        }
    }

    /// Delivers what an unconnected queue pair has flushed.
    pub(crate) fn deliver_unbound(&mut self) {
        while let Place::Unbound(qp) = &mut self.place {
            let Some(ended) = qp.poll_ended() else { break };
            self.deliver(ended);
        }
    }

    /// Puts a completion into its queue, if the application is to have it. The place in the work queue is free before
    /// anybody can see the completion, so that whoever sees it can post again.
    pub(crate) fn deliver(&mut self, ended: Ended) {
        if ended.completion.work.is_recv() {
            self.recvs -= 1;
            self.shared.release_recvs(1);
            return self.tell(&self.shared.recv_cq, ended.completion);
        }
        let inline = self.sends.pop_front();
        debug_assert!(inline.is_some(), "nothing was posted that could have ended: {ended:?}");
        let Some(inline) = inline else { return };
        self.retire(inline);
        if let Some(completion) = ended.reported() {
            self.tell(&self.shared.send_cq, completion);
        }
    }

    /// The first completion that finds no room condemns every queue pair that uses the queue: none
    /// of them can keep the promise of one completion for each work request.
    fn tell(&self, cq: &CqShared, completion: Completion) {
        if !self.muted && !cq.push(completion) {
            cq.tell_overrun();
        }
    }

    /// A send has ended, whose inline data are in this buffer.
    fn retire(&self, inline: Option<u32>) {
        if let Some(inline) = inline {
            // Cannot fail: there are as many places as buffers.
            let _ = self.shared.free_inline.push(inline);
        }
        self.shared.sends.release(1);
    }

    /// Forgets everything that is posted, without completions.
    pub(crate) fn forget_posts(&mut self) {
        let shared = self.shared.clone();
        while shared.recv_ring.pop().is_some() {
            self.recvs += 1;
        }
        shared.release_recvs(std::mem::take(&mut self.recvs));
        while let Some(posted) = shared.send_ring.pop() {
            self.sends.push_back(posted.inline);
        }
        while let Some(inline) = self.sends.pop_front() {
            self.retire(inline);
        }
    }
}
