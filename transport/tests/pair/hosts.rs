//! The two ends of one queue pair, and what they say to each other.

use std::time::Duration;

use braid_cc::FixedWindow;
use braid_lb::Rails;
use braid_transport::{
    Admit, Arrival, Completion, Disconnect, EcnTrouble, Egress, EndCause, EndpointConfig, NicEpoch,
    Placement, QpConfig, QpState, Refusal, RemoteAddr, SendOp, Transmit, TransmitBody,
};
use braid_wire::{Ack, Control, ControlKind, DataHeader, PathId, RailId, Time};

use crate::kit::{self, Everything, Host, ID, TOKEN};

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
    memory: Everything,
    posted: usize,
    /// Of the work requests posted, as far as [`Pair::completed`] was asked.
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
        let now = Time::from_nanos(1_000_000);
        let host = || {
            // The PSNs wrap soon.
            let remote = kit::remote(ID, TOKEN, 0xFF_FFF0);
            Host::new(now, endpoint, Rails::from(kit::paths(4)), config.clone(), remote)
        };
        Pair {
            now,
            sender: host(),
            receiver: host(),
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
        self.sender.endpoint.post_send(self.now, self.sender.slot, wr).unwrap();
        self.posted += 1;
    }

    /// What leaves the sender now.
    pub(crate) fn send(&mut self) -> Vec<Sent> {
        let Host { endpoint, rails, .. } = &mut self.sender;
        let mut sent = Vec::new();
        while let Some(transmit) = endpoint.poll_transmit(self.now, rails) {
            match transmit.body {
                TransmitBody::Segment { header, path, placement, .. } => {
                    sent.push(Sent { header, path, placement });
                }
                other => panic!("the sender has nothing to say but segments: {other:?}"),
            }
        }
        sent
    }

    /// What leaves the sender now, and its driver takes no other segment of the queue pair.
    pub(crate) fn send_one(&mut self) -> Option<Sent> {
        let Host { endpoint, rails, slot } = &mut self.sender;
        let body = endpoint.poll_transmit(self.now, rails)?.body;
        let TransmitBody::Segment { header, path, placement, .. } = body else {
            panic!("the sender has nothing to say but segments: {body:?}");
        };
        endpoint.pause(*slot);
        Some(Sent { header, path, placement })
    }

    /// The sender's driver takes segments again.
    pub(crate) fn resume(&mut self) {
        self.sender.endpoint.resume(self.sender.slot);
    }

    /// When the sender wants to be called again.
    pub(crate) fn wakes_at(&self) -> Time {
        self.sender.endpoint.next_timeout(&self.sender.rails).expect("it has a queue pair")
    }

    /// Lets time pass until the sender wants to be called, and calls it.
    pub(crate) fn sleep(&mut self) {
        self.now = self.wakes_at().max(self.now);
        self.sender.endpoint.on_timeout(self.now, &mut self.sender.rails);
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now += span;
    }

    /// A segment arrives, and the receiver says what it has to say.
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
        let Host { endpoint, rails, slot } = &mut self.receiver;
        let arrival =
            Arrival { header: &sent.header, path: sent.path, congestion, may_be_replied_to: false };
        match endpoint.on_arrival(self.now, *slot, &arrival, &self.memory) {
            Admit::Take(_) => {
                copy();
                endpoint.placed(self.now, *slot, &self.memory);
            }
            Admit::Refuse(Refusal::Stale) => self.stale += 1,
            _ => {}
        }
        let mut said = None;
        while let Some(transmit) = endpoint.poll_transmit(self.now, rails) {
            match transmit.body {
                TransmitBody::Ack(ack) => {
                    self.ack_path = transmit.egress.path();
                    // To a retransmission that was not needed the same is said twice, by two paths.
                    let before = said.replace(ack.clone());
                    let repeats = |before: Ack| before.cumulative == ack.cumulative;
                    assert!(
                        before.is_none_or(|before| sent.header.retransmission && repeats(before)),
                        "one ack tells everything"
                    );
                }
                // It asks whether its acks get through.
                TransmitBody::Control(Control { kind: ControlKind::Ping, .. }) => {}
                other => panic!("the receiver has nothing to say but acks: {other:?}"),
            }
        }
        said
    }

    pub(crate) fn ack(&mut self, ack: &Ack) {
        let Host { endpoint, rails, slot } = &mut self.sender;
        endpoint.on_ack(self.now, *slot, ack, rails);
    }

    /// The receiver tells the sender that a path has another NIC queue pair.
    pub(crate) fn begin_epoch(&mut self, epoch: NicEpoch) {
        let Host { endpoint, slot, .. } = &mut self.sender;
        endpoint.begin_epoch(*slot, epoch);
    }

    /// The network tells the sender that it has lost a segment.
    pub(crate) fn lose(&mut self, psn: u32) {
        let Host { endpoint, rails, slot } = &mut self.sender;
        endpoint.on_lost(self.now, *slot, braid_wire::Stream::Requests, psn, rails);
    }

    /// The receiver's queue pair ends, if it has not: what the sender is to be told.
    pub(crate) fn end_receiver(&mut self) -> Disconnect {
        let Host { endpoint, slot, .. } = &mut self.receiver;
        endpoint.modify(self.now, *slot, QpState::Error).unwrap();
        let disconnect = endpoint.poll_disconnect().expect("the peer is to be told");
        assert_eq!(endpoint.poll_disconnect(), None, "once");
        disconnect
    }

    /// The sender's queue pair ends.
    pub(crate) fn end_sender(&mut self) {
        let Host { endpoint, slot, .. } = &mut self.sender;
        endpoint.modify(self.now, *slot, QpState::Error).unwrap();
    }

    /// The sender gets a control packet. False: it does not believe it.
    pub(crate) fn control(&mut self, control: &Control) -> bool {
        let Host { endpoint, rails, slot } = &mut self.sender;
        endpoint.on_control(self.now, *slot, control, Egress::Path(PathId::new(1)), rails)
    }

    /// The next packet that leaves the sender.
    pub(crate) fn next_packet(&mut self) -> Option<Transmit> {
        let Host { endpoint, rails, .. } = &mut self.sender;
        endpoint.poll_transmit(self.now, rails)
    }

    /// The receiver's host tells the sender that nobody receives what left by that port.
    pub(crate) fn unreachable(&mut self, left_by: Egress) {
        let Host { endpoint, rails, .. } = &mut self.sender;
        endpoint.on_unreachable(self.now, left_by, rails);
    }

    /// Whether the sender uses a path.
    pub(crate) fn uses(&self, path: PathId) -> bool {
        self.sender.rails.paths().any(|report| report.path == path && report.live)
    }

    /// Why the sender's queue pair has ended.
    pub(crate) fn end_cause(&self) -> Option<EndCause> {
        self.sender.endpoint.qp(self.sender.slot).error().map(|error| error.cause)
    }

    /// The control packet that the sender has to send, and nothing else.
    pub(crate) fn answer(&mut self) -> Option<Control> {
        let Host { endpoint, rails, .. } = &mut self.sender;
        let transmit = endpoint.poll_transmit(self.now, rails)?;
        assert_eq!(endpoint.poll_transmit(self.now, rails), None);
        match transmit.body {
            TransmitBody::Control(control) => Some(control),
            other => panic!("the sender has nothing to say but control packets: {other:?}"),
        }
    }

    /// What leaves the sender now, without its control packets.
    pub(crate) fn send_all(&mut self) -> Vec<Sent> {
        let Host { endpoint, rails, .. } = &mut self.sender;
        let mut sent = Vec::new();
        while let Some(transmit) = endpoint.poll_transmit(self.now, rails) {
            if let TransmitBody::Segment { header, path, placement, .. } = transmit.body {
                sent.push(Sent { header, path, placement });
            }
        }
        sent
    }

    /// What the receiver says to a control packet.
    pub(crate) fn receiver_answers(&mut self, control: &Control) -> Control {
        self.receiver_answers_to(control, Egress::Path(PathId::new(1))).0
    }

    /// What it says to one that left by this port, and by which port the answer leaves.
    pub(crate) fn receiver_answers_to(
        &mut self,
        control: &Control,
        left_by: Egress,
    ) -> (Control, Egress) {
        let Host { endpoint, rails, slot } = &mut self.receiver;
        assert!(endpoint.on_control(self.now, *slot, control, left_by, rails));
        let answer = endpoint.poll_transmit(self.now, rails).expect("an answer");
        match answer.body {
            TransmitBody::Control(control) => (control, answer.egress),
            other => panic!("no answer to a control packet: {other:?}"),
        }
    }

    /// Waits until the sender asks for a sign of life.
    pub(crate) fn ping(&mut self) -> Control {
        loop {
            self.sleep();
            let Host { endpoint, rails, .. } = &mut self.sender;
            while let Some(transmit) = endpoint.poll_transmit(self.now, rails) {
                if let TransmitBody::Control(control) = transmit.body {
                    assert_eq!(control.kind, ControlKind::Ping);
                    return control;
                }
            }
        }
    }

    pub(crate) fn sender_state(&self) -> QpState {
        self.sender.endpoint.qp(self.sender.slot).state()
    }

    /// What has completed at the sender.
    pub(crate) fn completions(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.sender.endpoint.poll_completion()).collect()
    }

    /// Work requests that have completed at the sender.
    pub(crate) fn completed(&mut self) -> usize {
        let ended = std::iter::from_fn(|| self.sender.endpoint.poll_completion()).count();
        self.ended += ended;
        ended
    }

    pub(crate) fn counters(&self) -> braid_transport::QpCounters {
        self.sender.endpoint.qp(self.sender.slot).counters()
    }

    /// Whether the sender's segments are ECN-capable, and why not.
    pub(crate) fn sends_ecn(&self) -> bool {
        self.sender.endpoint.sends_ecn(RailId::FIRST)
    }

    pub(crate) fn ecn_trouble(&self) -> Option<EcnTrouble> {
        self.sender.endpoint.ecn_trouble(RailId::FIRST)
    }

    /// Of the sender's requests.
    pub(crate) fn window(&self) -> u64 {
        let mut subflows = self.sender.endpoint.qp(self.sender.slot).subflows();
        subflows.next().map_or(0, |flow| flow.window)
    }

    /// Packets that the path of a segment has been told lost.
    pub(crate) fn lost_on(&self, path: PathId) -> u64 {
        let mut paths = self.sender.rails.paths();
        paths.find(|report| report.path == path).map_or(0, |report| report.counters.lost)
    }
}
