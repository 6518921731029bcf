//! The endpoint: all queue pairs towards one peer, and what they share.

use braid_lb::{Rails, StreamId};
use braid_wire::{DataHeader, RailId, Time};

use super::ecn::Ecn;
use super::in_flight::InFlight;
use super::liveness::Liveness;
use super::max_rtt::MaxRtt;
use super::outputs::Outputs;
use super::path_mtu::PathMtus;
use super::timers::Timers;
use super::turns::{Member, Schedule, Turn};
use crate::qp::{ConnectedQp, Outcome, Packet};
use crate::stream::per_rail::RailBytes;
use crate::stream::send::quantum::OpenBatch;
use crate::stream::send::response_queue::{ResponseQueue, WaitingRead};
use crate::stream::send::send_limits::{Allowance, Budget, Need};
use crate::{
    Completion, Disconnect, EndCause, Ended, EndpointConfig, Event, PostError, QpAttributes,
    QpSlot, QpState, QueuePair, RecvWr, Remote, SendWr, Sge, StateError, Transmit,
};

/// All queue pairs towards one peer, with a shared receive buffer, timers and detection of a dead
/// peer. Owned by one thread.
#[derive(Debug)]
pub struct Endpoint {
    pub(super) config: EndpointConfig,
    pub(super) members: Vec<Option<Member>>,
    pub(super) free: Vec<u32>,
    pub(super) schedule: Schedule,
    /// Head of the list of queue pairs that have changed since the last settlement. Each links to
    /// the one that changed before it.
    pub(super) dirty: Option<u32>,
    /// The timer of each queue pair, at its `armed` time. If the deadline has moved to a later
    /// time, that is noticed when the timer fires.
    pub(super) timers: Timers,
    /// The pacing timer of each queue pair that its rate holds back, at its `paced` time. Pacing
    /// timers fire with every burst, and each would leave a stale entry behind among the other
    /// timers.
    pub(super) paced: Timers,
    pub(super) in_flight: InFlight,
    /// Recent delays of acknowledgements, for all queue pairs: they share the path and the peer's
    /// queue.
    pub(super) round_trips: MaxRtt,
    pub(super) outputs: Outputs,
    pub(super) liveness: Liveness,
    pub(super) path_mtu: PathMtus,
    pub(super) ecn: Ecn,
    /// Whether there may be control packets or probes to send. Usually there are none, and one flag
    /// saves the search for them.
    pub(super) control_due: bool,
}

impl Endpoint {
    /// Creates an endpoint without queue pairs.
    pub fn new(now: Time, config: EndpointConfig) -> Self {
        Endpoint {
            config,
            members: Vec::new(),
            free: Vec::new(),
            schedule: Schedule::new(),
            dirty: None,
            timers: Timers::new(),
            paced: Timers::new(),
            in_flight: InFlight::new(config.peer_receive_buffer),
            round_trips: MaxRtt::default(),
            outputs: Outputs::default(),
            liveness: Liveness::new(now + config.ping_interval),
            path_mtu: PathMtus::new(&config),
            ecn: Ecn::new(),
            control_due: false,
        }
    }

    /// Takes over a queue pair and connects it (RTS). Its posted receives are kept.
    pub fn adopt(&mut self, now: Time, qp: QueuePair, remote: Remote, rails: &mut Rails) -> QpSlot {
        let streams = Endpoint::admit(rails);
        self.adopt_admitted(now, qp, remote, rails, streams)
    }

    /// Admits the outgoing streams of a queue pair to the path set, for
    /// [`Endpoint::adopt_admitted`].
    pub fn admit(rails: &mut Rails) -> [StreamId; 2] {
        [rails.admit(), rails.admit()]
    }

    /// Takes over a queue pair like [`Endpoint::adopt`], with streams that [`Endpoint::admit`] has
    /// admitted to the path set before. So a driver can create queue pairs when it needs them, in
    /// any order, and the path policy treats them as if all had existed from the start.
    pub fn adopt_admitted(
        &mut self,
        now: Time,
        qp: QueuePair,
        remote: Remote,
        rails: &Rails,
        streams: [StreamId; 2],
    ) -> QpSlot {
        self.in_flight.use_rails(rails.count());
        let mut qp = ConnectedQp::new(qp, remote, &self.config, rails.count(), streams);
        self.path_mtu.admit(now, remote.mtu, rails);
        qp.use_path_mtu(self.path_mtu.payloads(), &self.config);
        qp.ignore_marks(self.ecn.ignored());
        if self.is_empty() {
            self.liveness.begin(now + self.config.ping_interval);
        }
        let member = Member {
            qp,
            turns: Default::default(),
            needs: Need::NOTHING,
            is_dirty: false,
            next_dirty: None,
            armed: Time::FAR_FUTURE,
            paced: Time::FAR_FUTURE,
            in_flight: RailBytes::default(),
        };
        let index = self.free.pop().unwrap_or(self.members.len() as u32);
        if index as usize == self.members.len() {
            // A vector of this size would begin with room for four, and most peers have one.
            if self.members.len() == self.members.capacity() {
                self.members.reserve_exact(self.members.len().max(1));
            }
            self.members.push(None);
        }
        self.liveness.ring.insert(index);
        self.members[index as usize] = Some(member);
        QpSlot(index)
    }

    /// Removes a queue pair, in whatever state it is.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn release(&mut self, now: Time, slot: QpSlot, rails: &mut Rails) -> QueuePair {
        self.settle_all();
        self.schedule.ready.remove(slot.0, &mut self.members);
        self.schedule.starved.remove(slot.0, &mut self.members);
        self.schedule.running = self.schedule.running.filter(|running| *running != slot.0);
        let mut member = self.members[slot.0 as usize].take().expect("an occupied slot");
        member.qp.dismiss(now, rails);
        self.in_flight.forget(member.in_flight);
        self.liveness.ring.remove(slot.0);
        self.free.push(slot.0);
        member.qp.into_unconnected()
    }

    /// Whether the endpoint has no queue pairs.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.members.len()
    }

    /// Bytes in flight on a rail, headers included. Streams that have timed out several times in a
    /// row are not counted.
    pub fn in_flight(&self, rail: RailId) -> u64 {
        self.in_flight.bytes()[rail]
    }

    /// Limit of the bytes in flight: the capacity of the peer's socket and, on a long wire, an
    /// allowance for bytes on the wire.
    pub fn most_in_flight(&self, rail: RailId) -> u64 {
        self.in_flight.most_on(rail)
    }

    /// Returns the queue pair in a slot.
    ///
    /// # Panics
    /// If the slot is empty.
    pub fn qp(&self, slot: QpSlot) -> &ConnectedQp {
        &self.members[slot.0 as usize].as_ref().expect("an occupied slot").qp
    }

    /// Visits the places in memory of a queue pair's state, for drivers with so many endpoints that
    /// they prefetch them. `depth`: 0 for the queue pair itself, 1 for what it points to, 2 for
    /// what that points to. Each is found by reading the one before. `sends`: whether the queue
    /// pair is used to send; otherwise only what a receiver needs is visited.
    #[inline]
    pub fn state_of(
        &self,
        slot: QpSlot,
        sends: bool,
        depth: u8,
        visit: impl FnMut(*const u8, usize),
    ) {
        let mut visit = visit;
        if depth == 0 {
            let member = self.members.as_ptr().wrapping_add(slot.0 as usize);
            visit(member.cast(), size_of::<Option<Member>>());
        } else if let Some(Some(member)) = self.members.get(slot.0 as usize) {
            member.qp.state_of(sends, depth, visit);
        }
    }

    pub(super) fn qp_mut(&mut self, slot: QpSlot) -> &mut ConnectedQp {
        &mut self.members[slot.0 as usize].as_mut().expect("an occupied slot").qp
    }

    /// Posts a work request to a send queue.
    pub fn post_send(&mut self, _now: Time, slot: QpSlot, wr: SendWr) -> Result<(), PostError> {
        let posted = self.qp_mut(slot).post_send(wr);
        self.settle(slot.0);
        posted
    }

    /// Posts a work request to a receive queue.
    pub fn post_recv(&mut self, _now: Time, slot: QpSlot, wr: RecvWr) -> Result<(), PostError> {
        let posted = self.qp_mut(slot).post_recv(wr);
        if self.qp(slot).has_ended_work() {
            self.settle(slot.0);
        }
        posted
    }

    /// Changes the state of a connected queue pair: to SQD, back to RTS, or to ERR. ERR flushes all
    /// work requests and informs the peer. For RESET, call [`Endpoint::release`] first.
    pub fn modify(&mut self, _now: Time, slot: QpSlot, to: QpState) -> Result<(), StateError> {
        let changed = self.qp_mut(slot).modify(to);
        self.settle(slot.0);
        changed
    }

    /// Changes the attributes of a queue pair that may change while it is connected.
    pub fn set_attributes(&mut self, slot: QpSlot, attributes: QpAttributes) {
        self.qp_mut(slot).set_attributes(attributes);
    }

    /// Moves a connected queue pair to ERR because of a problem that the driver has found.
    pub fn end(&mut self, slot: QpSlot, cause: EndCause) {
        self.qp_mut(slot).end(cause);
        self.settle(slot.0);
    }

    /// Fails the work request whose segment [`Endpoint::poll_transmit`] returned last, because its
    /// local memory is gone.
    pub fn unreadable(&mut self, _now: Time, slot: QpSlot, header: &DataHeader) {
        let qp = self.qp_mut(slot);
        if let Some((stream, source)) = qp.source_of(header) {
            qp.unreadable(stream, source);
        }
        self.settle(slot.0);
    }

    /// Returns the first READ of the peer whose memory waits to be copied, among the responses from
    /// number `from` on. See [`crate::Memory::must_be_copied`].
    pub fn waiting_read(&self, slot: QpSlot, from: u64) -> Option<WaitingRead> {
        self.qp(slot).responses()?.waiting(from)
    }

    /// Lets the response to a READ leave from `copy`, which the driver keeps until
    /// [`Endpoint::oldest_response`] has passed the response. [`Transmit`] names it as it is.
    pub fn serve_read(&mut self, slot: QpSlot, response: u64, copy: Sge) {
        if self.qp_mut(slot).serve_read(response, copy) {
            self.settle(slot.0);
        }
    }

    /// The number of the oldest response of a queue pair that is not acknowledged.
    pub fn oldest_response(&self, slot: QpSlot) -> u64 {
        self.qp(slot).responses().map_or(0, ResponseQueue::oldest)
    }

    /// Reports that a segment with [`crate::Placement::Direct`] was staged instead, because the
    /// driver has no NIC key for it, or because staging was cheaper. Call this at once.
    pub fn staged(&mut self, slot: QpSlot, header: &DataHeader) {
        self.qp_mut(slot).staged(header);
    }

    /// Stops the segments of this queue pair until [`Endpoint::resume`], because the driver's
    /// device is full. Acknowledgements and other queue pairs continue.
    pub fn pause(&mut self, slot: QpSlot) {
        self.qp_mut(slot).set_paused(true);
    }

    /// Continues with the segments of a queue pair that was paused.
    pub fn resume(&mut self, slot: QpSlot) {
        self.qp_mut(slot).set_paused(false);
        self.settle(slot.0);
    }

    /// Handles the timers that have expired. Call this at [`Endpoint::next_timeout`].
    pub fn on_timeout(&mut self, now: Time, rails: &mut Rails) {
        self.settle_all();
        while let Some((at, index)) = self.paced.pop_due(now) {
            let member = self.members[index as usize].as_mut();
            if let Some(member) = member.filter(|member| member.paced == at) {
                member.paced = Time::FAR_FUTURE;
                self.wake(index);
            }
        }
        let longest = self.round_trips.get(now);
        while let Some((at, index)) = self.timers.pop_due(now) {
            let member = self.members[index as usize].as_mut();
            if let Some(member) = member.filter(|member| member.armed == at) {
                member.armed = Time::FAR_FUTURE;
                if member.qp.on_timeout(now, longest, rails) {
                    let hit = member.in_flight.rails();
                    let hit = if hit.is_empty() { rails.live() } else { hit };
                    self.suspect_path_mtu(now);
                    self.miss_acks();
                    self.on_ecn_timeout(now, QpSlot(index), hit);
                }
                self.settle(index);
            }
        }
        self.follow_rails(now, rails);
        self.search_path_mtu(now);
        self.check_liveness(now);
        self.retry_ecn(now);
        self.control_due = true; // a path may be due for a probe, too
    }

    /// Time at which to call [`Endpoint::on_timeout`] next. The result is correct once the `poll`
    /// functions have been drained.
    pub fn next_timeout(&self, rails: &Rails) -> Option<Time> {
        if self.is_empty() {
            return None;
        }
        let next = self.liveness.due.min(self.timers.first()).min(self.paced.first());
        let next = next.min(self.path_mtu.next_timeout());
        let probe = rails.next_probe().filter(|_| self.prober().is_some());
        Some(probe.map_or(next, |at| next.min(at)))
    }

    /// Returns the next packet to send.
    pub fn poll_transmit(&mut self, now: Time, rails: &mut Rails) -> Option<Transmit> {
        self.settle_all();
        if let Some(index) = self.schedule.running
            && let Some(packet) = self.go_on(index)
        {
            return self.describe(now, index, &packet, rails);
        }
        if rails.count() > 1 {
            self.follow_rails(now, rails);
        }
        if self.control_due
            && let Some(transmit) = self.poll_control(now, rails)
        {
            return Some(transmit);
        }
        let joins = self.config.joint_batches && rails.requirements().shares_batches;
        while let Some(Turn { index, has_budget, is_shared }) = self.next_turn() {
            if !joins {
                self.schedule.batch = OpenBatch::default();
            }
            let bytes = if has_budget { self.in_flight.left() } else { &RailBytes::NOTHING };
            let left = Allowance { bytes, spent: Need::NOTHING };
            let member = self.members[index as usize].as_mut().expect("only members have turns");
            let (in_flight, own) = (self.in_flight.bytes(), &member.in_flight);
            let batch = &mut self.schedule.batch;
            let budget = Budget { left, in_flight, own, is_shared, batch };
            match member.qp.poll_transmit(now, rails, budget) {
                Outcome::Packet { packet, yields } => {
                    self.in_flight.follow(&member.qp, &mut member.in_flight);
                    self.has_sent(index, yields);
                    self.schedule.running = self.has_run(index).then_some(index);
                    return self.describe(now, index, &packet, rails);
                }
                Outcome::Run => {
                    self.schedule.running = Some(index);
                    if let Some(packet) = self.go_on(index) {
                        return self.describe(now, index, &packet, rails);
                    }
                }
                Outcome::NoBudget(needs) => self.starve(index, needs),
                Outcome::Idle => {
                    self.schedule.ready.remove(index, &mut self.members);
                    self.schedule.starved.remove(index, &mut self.members);
                    self.rearm(index);
                }
            }
        }
        self.schedule.batch = OpenBatch::default(); // the driver sends the batch now
        None
    }

    #[inline]
    pub(super) fn describe(
        &mut self,
        now: Time,
        index: u32,
        packet: &Packet,
        rails: &mut Rails,
    ) -> Option<Transmit> {
        let (slot, path_mtu) = (QpSlot(index), &self.path_mtu);
        let qp = &mut self.members[index as usize].as_mut()?.qp;
        qp.describe(now, slot, packet, rails, |egress| path_mtu.permitted(egress))
    }

    /// Returns the next segment of the run that is being handed out. The whole run was decided on
    /// and counted when its first segment left.
    pub(super) fn go_on(&mut self, index: u32) -> Option<Packet> {
        let qp = &mut self.members[index as usize].as_mut()?.qp;
        let packet = qp.go_on();
        if !qp.has_run() {
            self.schedule.running = None;
            let yields = qp.ends_turn();
            self.has_sent(index, yields);
        } else if packet.is_none() {
            self.schedule.running = None;
        }
        packet
    }

    pub(super) fn has_run(&self, index: u32) -> bool {
        self.members[index as usize].as_ref().is_some_and(|member| member.qp.has_run())
    }

    /// Returns whether the next [`Endpoint::poll_transmit`] continues the batch of the last
    /// segment that it returned, unless that segment's queue pair ends before. For drivers that
    /// share a link among endpoints and must not split a batch.
    pub fn continues_batch(&self) -> bool {
        self.schedule.running.is_some_and(|index| self.has_run(index))
    }

    /// Returns the next work request that has ended. Those of one queue come in posting order.
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.settle_all();
        self.outputs.ended.pop_front()
    }

    /// Returns the next completion for the application, for drivers that keep no queue slots of
    /// their own.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        std::iter::from_fn(|| self.poll_ended()).find_map(Ended::reported)
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.settle_all();
        self.outputs.events.pop_front()
    }

    /// Returns the record of the next queue pair that has ended, for the driver's
    /// [`crate::Disconnects`], which informs the peer until it confirms. Call this also after
    /// [`Endpoint::release`].
    pub fn poll_disconnect(&mut self) -> Option<Disconnect> {
        self.settle_all();
        self.outputs.disconnects.pop_front()
    }

    /// Marks a queue pair as changed. [`Endpoint::settle_all`] handles the consequences once,
    /// however many packets of a batch were for the queue pair.
    pub(super) fn settle(&mut self, index: u32) {
        let Some(member) = self.members[index as usize].as_mut() else { return };
        if !member.is_dirty {
            member.is_dirty = true;
            member.next_dirty = self.dirty.replace(index);
        }
    }

    /// Handles the consequences of all changes to queue pairs since the last call.
    #[inline]
    pub(super) fn settle_all(&mut self) {
        if self.dirty.is_some() {
            self.settle_dirty();
        }
    }

    pub(super) fn settle_dirty(&mut self) {
        while let Some(index) = self.dirty {
            self.settle_one(index);
        }
    }

    pub(super) fn settle_one(&mut self, index: u32) {
        let member = self.members[index as usize].as_mut().expect("nobody leaves unsettled");
        member.is_dirty = false;
        self.dirty = member.next_dirty;
        member.qp.hand_over_ended(&mut self.outputs.ended);
        let (slot, qp) = (QpSlot(index), member.qp.id());
        while let Some(kind) = member.qp.poll_event() {
            self.outputs.events.push_back(Event { slot, qp, kind });
        }
        if !member.qp.state().receives() {
            self.outputs.disconnects.extend(member.qp.poll_disconnect());
            self.liveness.ring.remove(index);
        }
        self.in_flight.follow(&member.qp, &mut member.in_flight);
        member.qp.look_again();
        // The queue pair's timers are set after it was polled and has no more packets.
        self.wake(index);
    }
}
