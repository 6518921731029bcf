//! The two ends of one connection, and the packets between them.

use std::time::Duration;

use braid_cc::FixedWindow;
use braid_lb::RailSet;
use braid_transport::{
    Admit, Arrival, Disconnect, EcnTrouble, Egress, EndCause, EndpointConfig, NicEpoch, Placement,
    QpConfig, QpCounters, QpSlot, QpState, Refusal, Remote, RemoteAddr, SendOp, Status, Transmit,
    TransmitBody,
};
use braid_wire::{Ack, Control, ControlKind, DataHeader, PathId, RailId, Time};

use crate::kit::{self, Everything, Host, NAME};

/// Payload bytes of a full segment.
pub(crate) const MTU: u16 = 4096;

/// For what is not about congestion control: a window that holds nothing back.
pub(crate) fn wide() -> QpConfig {
    QpConfig { cc: FixedWindow { window: 64 << 20 }.into(), ..QpConfig::default() }
}

/// A segment on its way.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) header: DataHeader,
    pub(crate) path: PathId,
    pub(crate) placement: Placement,
}

pub(crate) struct Pair {
    pub(crate) now: Time,
    sender: Host,
    receiver: Host,
    /// The queue pair of either host.
    slot: QpSlot,
    memory: Everything,
    posted: usize,
    /// Work requests that had completed when [`Pair::completed`] was last called.
    ended: usize,
    /// The path that the receiver's last acknowledgement took.
    pub(crate) ack_path: Option<PathId>,
    /// Segments that the receiver has taken for stale.
    pub(crate) stale: usize,
}

impl Pair {
    pub(crate) fn new(config: QpConfig, batch_segments: u32) -> Self {
        let endpoint = EndpointConfig { batch_segments, ..EndpointConfig::default() };
        Pair::with(config, endpoint)
    }

    pub(crate) fn with(config: QpConfig, endpoint: EndpointConfig) -> Self {
        // The PSNs wrap soon.
        Pair::between(config, endpoint, kit::remote(NAME, 0xFF_FFF0))
    }

    /// A pair that is connected on these terms.
    pub(crate) fn between(config: QpConfig, endpoint: EndpointConfig, remote: Remote) -> Self {
        let now = Time::from_nanos(1_000_000);
        let [mut sender, mut receiver] = [(); 2].map(|()| Host::new(now, endpoint, kit::paths(4)));
        let slot = sender.connect(now, NAME, config.clone(), remote);
        assert_eq!(receiver.connect(now, NAME, config, remote), slot);
        Pair {
            now,
            sender,
            receiver,
            slot,
            memory: Everything::new(),
            posted: 0,
            ended: 0,
            ack_path: None,
            stale: 0,
        }
    }

    /// Posts a WRITE of so many full segments.
    pub(crate) fn write(&mut self, segments: u32) {
        self.post(SendOp::Write { remote: self.remote(), imm: None }, segments * u32::from(MTU));
    }

    /// Posts WRITEs of so many full segments until one waits behind another.
    pub(crate) fn keep_writing(&mut self, segments: u32) {
        let outstanding = |pair: &Pair| pair.posted - pair.ended;
        while outstanding(self) < 2 {
            self.write(segments);
        }
    }

    /// The beginning of the receiver's memory.
    pub(crate) fn remote(&self) -> RemoteAddr {
        self.memory.remote()
    }

    pub(crate) fn post(&mut self, op: SendOp, len: u32) {
        let wr = self.memory.work(op, len);
        self.sender.endpoint.post_send(self.now, self.slot, wr).unwrap();
        self.posted += 1;
    }

    /// The segments that leave the sender now; it has nothing else to send.
    pub(crate) fn send(&mut self) -> Vec<Sent> {
        self.sender.transmit(self.now).map(segment).collect()
    }

    /// The next segment, behind which the sender's driver takes no other of the queue pair.
    pub(crate) fn send_one(&mut self) -> Option<Sent> {
        let sent = self.next_packet().map(segment)?;
        self.sender.endpoint.pause(self.slot);
        Some(sent)
    }

    /// The sender's driver takes segments again.
    pub(crate) fn resume(&mut self) {
        self.sender.endpoint.resume(self.slot);
    }

    /// Releases skipped segments of the sender, which will not be called for a while.
    pub(crate) fn release_skipped(&mut self) {
        self.sender.endpoint.release_skipped(self.slot);
    }

    /// When the sender wants to be called again.
    pub(crate) fn wakes_at(&self) -> Time {
        self.sender.next_timeout().expect("it has a queue pair")
    }

    /// Lets time pass until the sender wants to be called, and calls it.
    pub(crate) fn sleep(&mut self) {
        self.now = self.wakes_at().max(self.now);
        self.sender.on_timeout(self.now);
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now += span;
    }

    /// Lets a segment arrive. Returns the receiver's acknowledgement.
    pub(crate) fn arrive(&mut self, sent: &Sent) -> Option<Ack> {
        self.arrive_marked(sent, false)
    }

    pub(crate) fn arrive_marked(&mut self, sent: &Sent, congestion: bool) -> Option<Ack> {
        self.arrive_copying(sent, congestion, || {})
    }

    /// As [`Pair::arrive`]; `copy` is called when the payload is to be brought to its place.
    pub(crate) fn arrive_copying(
        &mut self,
        sent: &Sent,
        congestion: bool,
        copy: impl FnOnce(),
    ) -> Option<Ack> {
        let endpoint = &mut self.receiver.endpoint;
        let arrival = Arrival { congestion, ..kit::arrival(&sent.header, sent.path) };
        match endpoint.on_arrival(self.now, self.slot, &arrival, &self.memory) {
            Admit::Take(_) => {
                copy();
                endpoint.placed(self.now, self.slot, &self.memory);
            }
            Admit::Refuse(Refusal::Stale) => self.stale += 1,
            _ => {}
        }
        let mut said = None;
        for packet in self.receiver.transmit(self.now) {
            match packet.body {
                TransmitBody::Ack(ack) => {
                    self.ack_path = packet.egress.path();
                    // A spurious retransmission is acknowledged twice, by two paths.
                    let before = said.replace(ack.clone());
                    let repeats = |before: Ack| before.cumulative == ack.cumulative;
                    assert!(
                        before.is_none_or(|before| sent.header.retransmission && repeats(before)),
                        "one ack tells everything"
                    );
                }
                // The receiver probes whether its acks get through.
                TransmitBody::Control(Control { kind: ControlKind::Ping, .. }) => {}
                other => panic!("the receiver sends nothing but acks: {other:?}"),
            }
        }
        said
    }

    pub(crate) fn ack(&mut self, ack: &Ack) {
        self.sender.on_ack(self.now, self.slot, ack);
    }

    /// The receiver tells the sender that a path has another NIC queue pair.
    pub(crate) fn begin_epoch(&mut self, epoch: NicEpoch) {
        self.sender.endpoint.begin_epoch(self.slot, epoch);
    }

    /// The network tells the sender that it has lost a segment.
    pub(crate) fn lose(&mut self, psn: u32) {
        self.sender.on_lost(self.now, self.slot, psn);
    }

    /// Ends the receiver's queue pair, if it has not ended. Returns the record for the sender.
    pub(crate) fn end_receiver(&mut self) -> Disconnect {
        self.receiver.end(self.now, self.slot);
        let endpoint = &mut self.receiver.endpoint;
        let disconnect = endpoint.poll_disconnect().expect("the peer is to be told");
        assert_eq!(endpoint.poll_disconnect(), None, "once");
        disconnect
    }

    pub(crate) fn end_sender(&mut self) {
        self.sender.end(self.now, self.slot);
    }

    /// The sender gets a control packet. Returns whether it believes it.
    pub(crate) fn control(&mut self, control: &Control) -> bool {
        self.sender.on_control(self.now, self.slot, control, Egress::Path(PathId::new(1)))
    }

    /// The next packet that leaves the sender.
    pub(crate) fn next_packet(&mut self) -> Option<Transmit> {
        self.sender.poll_transmit(self.now)
    }

    /// The receiver's host tells the sender that nobody receives on the port of a packet.
    pub(crate) fn unreachable(&mut self, left_by: Egress) {
        self.sender.on_unreachable(self.now, left_by);
    }

    /// The sender's device refuses packets.
    pub(crate) fn refuse(&mut self) {
        let first: RailSet = [RailId::new(0)].into_iter().collect();
        self.sender.rails.devices_mut().on_refusal(first);
    }

    /// Whether the sender uses a path.
    pub(crate) fn uses(&self, path: PathId) -> bool {
        self.sender.rails.paths().any(|report| report.path == path && report.live)
    }

    /// The cause of the end of the sender's queue pair.
    pub(crate) fn end_cause(&self) -> Option<EndCause> {
        self.sender.endpoint.qp(self.slot).error().map(|error| error.cause)
    }

    /// The control packet that the sender has to send, and nothing else.
    pub(crate) fn answer(&mut self) -> Option<Control> {
        let packet = self.next_packet()?;
        assert_eq!(self.next_packet(), None);
        match packet.body {
            TransmitBody::Control(control) => Some(control),
            other => panic!("the sender sends nothing but control packets: {other:?}"),
        }
    }

    /// The segments that leave the sender now, among other packets.
    pub(crate) fn send_all(&mut self) -> Vec<Sent> {
        let all = self.sender.transmit(self.now);
        all.filter(|packet| matches!(packet.body, TransmitBody::Segment { .. }))
            .map(segment)
            .collect()
    }

    /// The receiver's answer to a control packet.
    pub(crate) fn receiver_answers(&mut self, control: &Control) -> Control {
        self.receiver_answers_to(control, Egress::Path(PathId::new(1))).0
    }

    /// The receiver's answer to a control packet that left by this port, and the answer's port.
    pub(crate) fn receiver_answers_to(
        &mut self,
        control: &Control,
        left_by: Egress,
    ) -> (Control, Egress) {
        assert!(self.receiver.on_control(self.now, self.slot, control, left_by));
        let answer = self.receiver.poll_transmit(self.now).expect("an answer");
        match answer.body {
            TransmitBody::Control(control) => (control, answer.egress),
            other => panic!("no answer to a control packet: {other:?}"),
        }
    }

    /// Waits until the sender asks for a sign of life.
    pub(crate) fn ping(&mut self) -> Control {
        loop {
            self.sleep();
            for packet in self.sender.transmit(self.now) {
                if let TransmitBody::Control(control) = packet.body {
                    assert_eq!(control.kind, ControlKind::Ping);
                    return control;
                }
            }
        }
    }

    pub(crate) fn sender_state(&self) -> QpState {
        self.sender.state(self.slot)
    }

    pub(crate) fn statuses(&mut self) -> Vec<Status> {
        self.sender.completions().map(|done| done.status).collect()
    }

    /// Work requests that have completed at the sender.
    pub(crate) fn completed(&mut self) -> usize {
        let ended = self.sender.completions().count();
        self.ended += ended;
        ended
    }

    pub(crate) fn counters(&self) -> QpCounters {
        self.sender.endpoint.qp(self.slot).counters()
    }

    /// Whether the sender's segments are ECN-capable, and why not.
    pub(crate) fn sends_ecn(&self) -> bool {
        self.sender.endpoint.sends_ecn(RailId::FIRST)
    }

    pub(crate) fn ecn_trouble(&self) -> Option<EcnTrouble> {
        self.sender.endpoint.ecn_trouble(RailId::FIRST)
    }

    /// The window of the sender's requests.
    pub(crate) fn window(&self) -> u64 {
        let mut subflows = self.sender.endpoint.qp(self.slot).subflows();
        subflows.next().map_or(0, |flow| flow.window)
    }

    /// Returns the number of lost packets that were reported to a path.
    pub(crate) fn lost_on(&self, path: PathId) -> u64 {
        let mut paths = self.sender.rails.paths();
        paths.find(|report| report.path == path).map_or(0, |report| report.counters.lost)
    }
}

fn segment(packet: Transmit) -> Sent {
    let TransmitBody::Segment { header, path, placement, .. } = packet.body else {
        panic!("the sender sends nothing but segments: {packet:?}");
    };
    Sent { header, path, placement }
}
