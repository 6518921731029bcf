//! One host: an endpoint, its memory, and a driver that turns packets into datagrams.

use std::collections::VecDeque;
use std::time::Duration;

use braid_lb::RailId;
use braid_transport::{
    Access, Admit, Arrival, Completion, Disconnects, Egress, EndpointConfig, Event, Landing,
    NicEpoch, PdId, Placement, QpSlot, QpState, Refusal, Remote, Transmit, TransmitBody,
};
use braid_wire::{
    Control, Crc, DATA_HEADER_LEN, DataHeader, DataRun, Opcode, Packet, PathId, QpId, Time,
    payload_crc,
};

use super::kit;
use super::ledger::{Arrivals, Questions};
use super::memory::HostMemory;
use super::network::{Datagram, Kind, Network};
use super::nic_qps::NicQps;
use super::shared::SharedReceives;
use super::trace::{Trace, What};

/// One queue pair, as its driver knows it.
pub(crate) struct Link {
    pub(crate) id: QpId,
    pub(crate) pd: PdId,
    pub(crate) remote: Remote,
    /// `None` once it was released.
    pub(crate) slot: Option<QpSlot>,
    /// The path and the length of the batch under way: of requests, of responses.
    batches: [(PathId, u32); 2],
    /// In SQD with nothing under way: no new request may leave.
    pub(crate) quiet: bool,
    /// The segments that have arrived, to check acks against.
    arrivals: Arrivals,
    /// Segments that were refused for lack of a receive.
    pub(crate) unready: u64,
    questions: Questions,
    /// Where segments placed directly arrive.
    nic_qps: NicQps,
}

pub(crate) struct Host {
    index: usize,
    pub(crate) inner: kit::Host,
    pub(crate) memory: HostMemory,
    pub(crate) links: Vec<Link>,
    inbox: VecDeque<Datagram>,
    disconnects: Disconnects<()>,
    /// Answers of the driver itself.
    replies: Vec<(Control, Egress)>,
    /// New NIC queue pairs, to be reported to the peer's queue pair.
    epochs: Vec<(QpId, NicEpoch)>,
    config: EndpointConfig,
    /// Packets sent in one turn, at most.
    at_once: usize,
    /// Packets that are taken in as one run, at most.
    longest_run: usize,
    /// The last turn was broken off behind a packet of this queue pair.
    broken_off: Option<QpSlot>,
    /// Where its queue pairs take receives from; `None`: each has its own.
    pub(crate) shared: Option<SharedReceives>,
    /// When data or an ack was last sent.
    pub(crate) last_traffic: Time,
}

impl Link {
    pub(crate) fn new(id: QpId, pd: PdId, remote: Remote, slot: QpSlot, nic_qps: NicQps) -> Self {
        Link {
            id,
            pd,
            remote,
            slot: Some(slot),
            batches: Default::default(),
            quiet: false,
            arrivals: Arrivals::default(),
            unready: 0,
            questions: Questions::default(),
            nic_qps,
        }
    }
}

impl Host {
    pub(crate) fn new(
        index: usize,
        inner: kit::Host,
        memory: HostMemory,
        config: EndpointConfig,
        (at_once, longest_run): (usize, usize),
    ) -> Self {
        let disconnects = Disconnects::new(inner.rails.paths_of(RailId::FIRST).count());
        Host {
            index,
            inner,
            memory,
            links: Vec::new(),
            inbox: VecDeque::new(),
            disconnects,
            replies: Vec::new(),
            epochs: Vec::new(),
            config,
            at_once,
            longest_run,
            broken_off: None,
            shared: None,
            last_traffic: Time::ZERO,
        }
    }

    pub(crate) fn enqueue(&mut self, datagram: Datagram) {
        self.inbox.push_back(datagram);
    }

    /// When there is something to do for the driver.
    pub(crate) fn due(&self) -> Time {
        if !self.inbox.is_empty() || self.broken_off.is_some() {
            return Time::ZERO;
        }
        let timeouts = [self.inner.next_timeout(), self.disconnects.next_timeout()];
        timeouts.into_iter().flatten().min().unwrap_or(Time::FAR_FUTURE)
    }

    pub(crate) fn link_of(&self, id: QpId) -> usize {
        self.links.iter().position(|link| link.id == id).expect("a queue pair of this host")
    }

    /// Takes in up to `most` datagrams, those that continue each other in one run.
    pub(crate) fn receive(&mut self, now: Time, most: usize, trace: &mut Trace) {
        let mut left = most.min(self.inbox.len());
        while left > 0 {
            let count = self.next_run(left.min(self.longest_run));
            let run: Vec<_> = self.inbox.drain(..count).collect();
            self.take_in(now, &run, trace);
            left -= count;
        }
    }

    /// The number of datagrams at the front of the inbox that are one run, at most `most`.
    fn next_run(&self, most: usize) -> usize {
        let mut arrived = self.inbox.iter().take(most);
        let Some(first) = arrived.next() else { return 0 };
        let Ok(Packet::Data(header, payload)) = Packet::decode(&first.bytes) else { return 1 };
        let is_checked = self.links[self.link_of(header.qp)].remote.crc == Crc::On;
        if first.kind != Kind::PLAIN || (is_checked && header.check_payload(payload).is_err()) {
            return 1;
        }
        let mut run = DataRun::new(&first.bytes, header);
        for next in arrived {
            let is_alike =
                (next.kind, next.left_by, next.marked) == (first.kind, first.left_by, first.marked);
            let Some(segment) = run.next(&next.bytes).filter(|_| is_alike) else { break };
            if is_checked && payload_crc([segment.payload]) != segment.payload_crc {
                break;
            }
            run.push(&segment);
        }
        run.segments() as usize
    }

    fn take_in(&mut self, now: Time, run: &[Datagram], trace: &mut Trace) {
        let [datagram, rest @ ..] = run else { return };
        if let Kind::Epoch(id, epoch) = datagram.kind {
            return self.on_epoch(now, id, epoch, trace);
        }
        for datagram in run {
            let verb = match (datagram.damaged, datagram.forged) {
                (true, _) => "gets damaged",
                (_, true) => "gets forged",
                _ => "gets",
            };
            trace.packet(now, self.index, verb, &datagram.bytes);
        }
        if !rest.is_empty() {
            return self.on_run(now, run, trace);
        }
        let packet = match Packet::decode(&datagram.bytes) {
            // A packet that damage has turned into an envelope has only the check of its keys, and
            // the connection has none.
            Err(_) | Ok(Packet::Sealed(_)) if datagram.damaged => return,
            Err(error) => panic!("a good packet does not decode: {error}"),
            Ok(packet) => packet,
        };
        if let Packet::Data(header, payload) = packet {
            return self.on_data(now, &header, payload, datagram, trace);
        }
        assert!(!datagram.damaged, "a damaged packet decodes: {packet:?}");
        match packet {
            Packet::Ack(ack) => {
                if let Some((_, slot)) = self.slot_of(ack.qp) {
                    self.inner.on_ack(now, slot, &ack);
                }
            }
            Packet::Credit(credit) => {
                if let Some((_, slot)) = self.slot_of(credit.qp) {
                    self.inner.on_credit(now, slot, &credit);
                }
            }
            Packet::Control(control) => self.on_control(now, &control, datagram.left_by),
            Packet::Probe(probe) => {
                if let Some((_, slot)) = self.slot_of(probe.qp) {
                    let rail = datagram.left_by.rail();
                    self.inner.endpoint.on_probe(now, slot, rail, &probe);
                }
            }
            other => panic!("nobody sends {other:?}"),
        }
    }

    /// Takes several data packets that continue each other.
    fn on_run(&mut self, now: Time, datagrams: &[Datagram], trace: &mut Trace) {
        let packets: Vec<_> = datagrams.iter().map(|datagram| data_of(&datagram.bytes)).collect();
        let mut run = DataRun::new(&datagrams[0].bytes, packets[0].0);
        for datagram in &datagrams[1..] {
            assert!(!datagram.damaged, "a damaged packet continues a run");
            run.push(&run.next(&datagram.bytes).expect("a run"));
        }
        let Some((index, slot)) = self.slot_of(run.header().qp) else { return };
        let arrival = Arrival {
            segments: run.segments(),
            stamp: run.stamp(),
            congestion: datagrams[0].marked,
            ..kit::arrival(run.header(), datagrams[0].path())
        };
        if let Some(shared) = self.shared.as_mut().filter(|_| !datagrams[0].forged) {
            shared.serve(now, index, (&mut self.inner.endpoint, slot), &arrival, &mut self.memory);
        }
        match self.inner.endpoint.on_arrival(now, slot, &arrival, &self.memory) {
            Admit::Take(landing) => {
                let is_valid = datagrams.iter().all(|datagram| !datagram.stale && !datagram.forged);
                assert!(is_valid, "a run with an old or forged packet is taken");
                trace.totals.take_run();
                let payload: Vec<u8> =
                    packets.iter().flat_map(|(_, payload)| *payload).copied().collect();
                self.land(index, &landing, &payload);
                for (header, _) in &packets {
                    self.record(index, header, trace);
                }
                self.inner.endpoint.placed(now, slot, &self.memory);
            }
            Admit::Singly => {
                for (datagram, (header, payload)) in datagrams.iter().zip(packets) {
                    self.on_data(now, &header, payload, datagram, trace);
                }
            }
            other => panic!("a run is taken or not: {other:?}"),
        }
    }

    fn land(&mut self, link: usize, landing: &Landing, payload: &[u8]) {
        let (memory, pd) = (&mut self.memory, self.links[link].pd);
        kit::land(landing, payload, |piece, part| memory.place(pd, piece, part));
    }

    /// Records a segment that is taken.
    fn record(&mut self, link: usize, header: &DataHeader, trace: &mut Trace) {
        trace.totals.take();
        self.links[link].arrivals.take(header);
        self.links[link].questions.answer(header);
    }

    fn slot_of(&self, id: QpId) -> Option<(usize, QpSlot)> {
        let index = self.link_of(id);
        self.links[index].slot.map(|slot| (index, slot))
    }

    fn on_data(
        &mut self,
        now: Time,
        header: &DataHeader,
        payload: &[u8],
        datagram: &Datagram,
        trace: &mut Trace,
    ) {
        let crc = self.links[self.link_of(header.qp)].remote.crc;
        if crc == Crc::On && header.check_payload(payload).is_err() {
            assert!(datagram.damaged, "a good payload fails its check");
            return;
        }
        assert!(!datagram.damaged, "a damaged packet passes all checks: {header:?}");
        let Some((index, slot)) = self.slot_of(header.qp) else { return };
        let Kind::Packet(placement) = datagram.kind else { return };
        if let Placement::Direct(epoch) = placement
            && !self.write_directly(index, header, payload, epoch)
        {
            return trace.record(
                now,
                self.index,
                What::Note(format!("closed or forbidden: {epoch:?}")),
            );
        }
        let arrival =
            Arrival { congestion: datagram.marked, ..kit::arrival(header, datagram.path()) };
        if let Some(shared) = self.shared.as_mut().filter(|_| !datagram.forged) {
            shared.serve(now, index, (&mut self.inner.endpoint, slot), &arrival, &mut self.memory);
        }
        let admit = self.inner.endpoint.on_arrival(now, slot, &arrival, &self.memory);
        if datagram.stale {
            assert!(!matches!(admit, Admit::Take(_)), "{header:?} is from before the wrap");
            return;
        }
        let stranger = admit == Admit::Refuse(Refusal::Token);
        assert_eq!(stranger, datagram.forged, "{admit:?} for {header:?}");
        if let (Placement::Staged { closes: Some(epoch) }, false) = (placement, stranger) {
            let link = &mut self.links[index];
            self.epochs.push((link.remote.qp, link.nic_qps.close(epoch)));
        }
        match admit {
            Admit::Take(landing) => {
                self.land(index, &landing, payload);
                self.record(index, header, trace);
                self.inner.endpoint.placed(now, slot, &self.memory);
            }
            Admit::Duplicate => trace.totals.repeat(),
            Admit::Singly => panic!("a single packet is decided on"),
            Admit::Refuse(Refusal::Window) => panic!("the peer has sent beyond our window"),
            Admit::Refuse(why) => {
                self.links[index].unready += u64::from(why == Refusal::NotReady);
                trace.record(now, self.index, What::Note(format!("refuses: {why}")));
            }
        }
    }

    /// Writes a payload as a NIC does, before any check. Returns false if the NIC drops the packet.
    fn write_directly(
        &mut self,
        link: usize,
        header: &DataHeader,
        payload: &[u8],
        epoch: NicEpoch,
    ) -> bool {
        let is_write = matches!(header.opcode, Opcode::Write | Opcode::WriteImm);
        assert!(is_write && header.len > 0, "{header:?} is placed directly");
        assert!(!header.retransmission, "a retransmission is placed directly: {header:?}");
        let receives = self.state(link).is_some_and(QpState::receives);
        let addr = header.address.wrapping_add(header.offset.into());
        let link = &self.links[link];
        receives
            && link.nic_qps.is_open(epoch)
            && self.memory.write_directly(link.pd, header.rkey, addr, payload)
    }

    fn on_epoch(&mut self, now: Time, id: QpId, epoch: NicEpoch, trace: &mut Trace) {
        trace.record(now, self.index, What::Note(format!("hears of {epoch:?}")));
        if let Some((_, slot)) = self.slot_of(id) {
            self.inner.endpoint.begin_epoch(slot, epoch);
        }
    }

    fn on_control(&mut self, now: Time, control: &Control, left_by: Egress) {
        let qp = self.slot_of(control.qp).map(|(_, slot)| (&mut self.inner, slot));
        // As in the engine, only the sender of a PING is told that the queue pair is gone.
        let answer = kit::on_control(now, qp, (control, left_by), &mut self.disconnects, |()| true);
        self.replies.extend(answer.map(|answer| (answer.control, Egress::Port(left_by.rail()))));
    }

    pub(crate) fn tick(&mut self, now: Time) {
        self.inner.run_timers(now);
    }

    /// Sends everything there is to send, or as much as is sent in one turn.
    pub(crate) fn transmit(&mut self, now: Time, network: &mut Network, trace: &mut Trace) {
        let mut count = 0;
        let mut goes_on = self.broken_off.take();
        while let Some(transmit) = self.inner.poll_transmit(now) {
            count += 1;
            assert!(count < 100_000, "poll_transmit does not come to an end");
            self.broken_off = Some(transmit.slot).filter(|_| count >= self.at_once);
            goes_on = goes_on.filter(|slot| *slot == transmit.slot);
            self.check_budget(transmit.slot, &transmit.body, goes_on.is_some());
            for packet in kit::split(transmit) {
                if !self.send(now, packet, network, trace) {
                    break;
                }
            }
            if self.broken_off.is_some() {
                break;
            }
        }
        self.inner.begin_disconnects(now, &(), &mut self.disconnects);
        while let Some(due) = self.disconnects.poll_transmit(now) {
            self.replies.push((due.control, due.egress));
        }
        for (control, egress) in std::mem::take(&mut self.replies) {
            let mut bytes = Vec::new();
            control.encode(&mut bytes);
            let plain = Placement::Staged { closes: None };
            let verb = network.send(now, self.index, &bytes, egress, false, plain);
            trace.packet(now, self.index, verb, &bytes);
        }
        for (qp, epoch) in self.epochs.drain(..) {
            network.tell_epoch(now, self.index, qp, epoch);
        }
    }

    /// Returns whether the payload could be read.
    fn send(
        &mut self,
        now: Time,
        packet: Transmit,
        network: &mut Network,
        trace: &mut Trace,
    ) -> bool {
        let egress = packet.egress;
        let (placement, fragments) = match packet.body {
            TransmitBody::Segment { placement, oversize, .. } => (placement, oversize),
            _ => (Placement::Staged { closes: None }, false),
        };
        let Some(bytes) = self.encode(now, packet) else { return false };
        let verb = network.send(now, self.index, &bytes, egress, fragments, placement);
        trace.packet(now, self.index, verb, &bytes);
        true
    }

    /// Checks that the peer's socket does not overflow; one segment always fits. Probes of a
    /// time-out or a pause are exempt. Such a probe can be the first transmission of a skipped
    /// segment. `goes_on`: the segment may have been decided on in the last turn, with room then.
    fn check_budget(&self, slot: QpSlot, body: &TransmitBody, goes_on: bool) {
        let TransmitBody::Segment { header, path, .. } = body else { return };
        let endpoint = &self.inner.endpoint;
        let most = endpoint.most_in_flight(path.rail());
        let most = most.max(u64::from(header.len) + DATA_HEADER_LEN as u64);
        let in_flight = endpoint.in_flight(path.rail());
        let counters = endpoint.qp(slot).counters();
        let may_probe = self.config.skip_key.is_some() && counters.timeouts + counters.rnr_naks > 0;
        let fits = header.retransmission || may_probe || goes_on || in_flight <= most;
        assert!(fits, "{in_flight} bytes in flight towards a buffer of {most}");
    }

    fn encode(&mut self, now: Time, mut transmit: Transmit) -> Option<Vec<u8>> {
        let slot = transmit.slot;
        let link = self.links.iter_mut().find(|link| link.slot == Some(slot)).expect("a link");
        assert_eq!(kit::peer_of(&transmit.body), link.remote.qp);
        let mut payload = Vec::new();
        match &mut transmit.body {
            TransmitBody::Segment {
                header, gather, pd, access, path, batch_start, crc, ..
            } => {
                self.last_traffic = now;
                let batch = &mut link.batches[usize::from(header.opcode.is_response())];
                follow(batch, *path, *batch_start, self.config.batch_segments);
                link.check_header(
                    header,
                    *access,
                    self.config.direct.map_or(0, |direct| direct.long),
                );
                link.questions.ask(header, link.remote.max_rd_atomic);
                assert_eq!((*pd, *crc), (link.pd, link.remote.crc));
                let Some(gathered) = self.memory.gather(*pd, *access, gather) else {
                    self.inner.endpoint.unreadable(now, slot, header);
                    return None;
                };
                payload = gathered;
                let carried = if header.opcode.has_payload() { header.len } else { 0 };
                assert_eq!(payload.len(), carried.into(), "the bytes are not those of {header:?}");
                assert_eq!(header.payload_crc, 0);
                if *crc == Crc::On {
                    header.payload_crc = payload_crc([&payload[..]]);
                }
            }
            TransmitBody::Ack(ack) => {
                self.last_traffic = now;
                link.arrivals.check(ack, link.remote.recv_psn);
            }
            TransmitBody::Credit(..) | TransmitBody::Control(..) | TransmitBody::Probe(..) => {}
        }
        Some(kit::encode(&transmit.body, &payload))
    }

    pub(crate) fn completions(&mut self, most: usize) -> Vec<Completion> {
        self.inner.completions().take(most).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.inner.endpoint.poll_event()).collect()
    }

    pub(crate) fn state(&self, link: usize) -> Option<QpState> {
        self.links[link].slot.map(|slot| self.inner.state(slot))
    }

    /// Nothing is under way and nothing but signs of life is planned.
    pub(crate) fn check_idle(&self, now: Time, since: Time) {
        for rail in (0..self.inner.rails.count()).map(RailId::new) {
            let in_flight = self.inner.endpoint.in_flight(rail);
            assert_eq!(in_flight, 0, "host {}: bytes stay in flight", self.index);
        }
        let quiet = now - self.last_traffic;
        assert!(
            self.last_traffic <= since,
            "host {}: still sends data or acks {quiet:?} ago, though all is done",
            self.index
        );
    }
}

impl Link {
    fn check_header(&self, header: &DataHeader, access: Access, direct: u16) {
        let remote = &self.remote;
        let is_write = matches!(header.opcode, Opcode::Write | Opcode::WriteImm);
        let longest = if is_write { remote.mtu.max(direct) } else { remote.mtu };
        assert_eq!((header.qp, header.token), (remote.qp, remote.token));
        assert!(header.len <= longest, "a segment of {} bytes", header.len);
        let response = header.opcode.is_response();
        assert_eq!(access, if response { Access::REMOTE_READ } else { Access::NONE });
        assert!(response || !self.quiet, "a drained send queue sends {header:?}");
    }
}

fn data_of(bytes: &[u8]) -> (DataHeader, &[u8]) {
    match Packet::decode(bytes) {
        Ok(Packet::Data(header, payload)) => (header, payload),
        other => panic!("not a data packet: {other:?}"),
    }
}

/// A path is picked per batch, and a batch is no longer than the datapath's.
fn follow(batch: &mut (PathId, u32), path: PathId, starts: bool, most: u32) {
    let (current, length) = *batch;
    assert!(starts || path == current, "a batch changes its path");
    *batch = (path, if starts { 1 } else { length + 1 });
    assert!(batch.1 <= most, "a batch of {} segments", batch.1);
}

/// The shortest time that a turn of a host takes; time has to pass, or nothing ends.
pub(crate) const TURN: Duration = Duration::from_nanos(200);
