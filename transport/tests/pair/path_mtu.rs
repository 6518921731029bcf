//! The path MTU search: one end, and a network that answers its probes, in virtual time.

use std::time::Duration;

use braid_lb::{RailScheme, Rails};
use braid_transport::{
    Access, Admit, Egress, EndpointConfig, EventKind, Landing, QpConfig, QpSlot, Refusal, Remote,
    SendOp, Transmit, TransmitBody,
};
use braid_wire::{
    Ack, BASE_DATAGRAM, Control, ControlKind, DataHeader, Opcode, PROBE_LEN, PathId, Probe,
    ProbeKind, QpId, RailId, Stream, Time, Token,
};

use crate::kit::{self, Everything, NAME, Wire, paths};

/// Payload bytes of a full segment; `FULL` on the wire.
const MTU: u16 = 8912;
const FULL: u16 = MTU + 60;
const BASE: u16 = BASE_DATAGRAM as u16;
const RTT: Duration = Duration::from_micros(100);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The behaviour of the network.
#[derive(Clone, Copy)]
struct Network {
    /// Bytes of the largest datagram that it carries, on the first rail and on others.
    carries: u16,
    further: u16,
    /// Drops what does not leave from the receiving port.
    is_stateful: bool,
    /// Drops everything.
    is_down: bool,
    /// Delay of the answer to a probe of the least size, and to a longer one.
    short_after: Duration,
    long_after: Duration,
}

const OPEN: Network = Network {
    carries: u16::MAX,
    further: u16::MAX,
    is_stateful: false,
    is_down: false,
    short_after: RTT,
    long_after: RTT,
};

struct Host {
    now: Time,
    inner: kit::Host,
    slot: QpSlot,
    memory: Everything,
    network: Network,
    /// Answers under way: to probes, and to PINGs on further rails.
    answers: Wire<(RailId, Probe)>,
    pongs: Wire<(Egress, Control)>,
    /// The probes that were sent, and their sizes.
    asked: Vec<Probe>,
    probes: Vec<u16>,
    /// The segments that were sent: lengths, whether they leave in parts, and rails.
    segments: Vec<(u16, bool)>,
    took: Vec<RailId>,
}

fn remote(mtu: u16) -> Remote {
    Remote { mtu, ..kit::remote(NAME, 0) }
}

impl Host {
    fn new(network: Network) -> Self {
        Host::over(network, paths(4).into())
    }

    fn over(network: Network, rails: Rails) -> Self {
        let now = Time::from_nanos(1_000_000);
        // The network answers probes only, and the limits are too long to be reached.
        let config = EndpointConfig {
            search_path_mtu: true,
            peer_timeout: Duration::from_secs(100_000),
            skip_key: Some([7; 16]),
            ..EndpointConfig::default()
        };
        let patient = Duration::from_secs(100_000);
        let access = Access::REMOTE_WRITE;
        let qp = QpConfig { access, retry_timeout: patient, ..QpConfig::default() };
        let mut inner = kit::Host::new(now, config, rails);
        let slot = inner.connect(now, NAME, qp, remote(MTU));
        let (answers, pongs, segments, took) = Default::default();
        let (asked, probes, memory) = (Vec::new(), Vec::new(), Everything::new());
        Host { now, inner, slot, memory, network, answers, pongs, asked, probes, segments, took }
    }

    /// Lets so much time pass.
    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.transmit();
            let timeout = self.inner.next_timeout().expect("it has a queue pair");
            let next = timeout.min(self.answers.next_arrival()).min(self.pongs.next_arrival());
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if let Some((rail, probe)) = self.answers.arrive(self.now) {
                self.inner.endpoint.on_probe(self.now, self.slot, rail, &probe);
            }
            if let Some((left_by, pong)) = self.pongs.arrive(self.now) {
                assert!(self.inner.on_control(self.now, self.slot, &pong, left_by));
            }
            if timeout <= self.now {
                self.inner.on_timeout(self.now);
            }
        }
    }

    fn transmit(&mut self) {
        for Transmit { egress, body, .. } in self.inner.transmit(self.now) {
            match body {
                TransmitBody::Probe(probe) => {
                    assert_eq!(probe.kind, ProbeKind::Probe);
                    self.probes.push(probe.size);
                    self.asked.push(probe);
                    let Network { carries, further, is_stateful, is_down, .. } = self.network;
                    let carries = if egress.rail() == RailId::FIRST { carries } else { further };
                    let Network { short_after, long_after, .. } = self.network;
                    let after = if probe.size == BASE { short_after } else { long_after };
                    if probe.size <= carries
                        && !(is_stateful && egress.path().is_some())
                        && !is_down
                    {
                        let answer = Probe { kind: ProbeKind::Probed, ..probe };
                        self.answers.send(self.now + after, (egress.rail(), answer));
                    }
                }
                TransmitBody::Control(ping) if egress.rail() != RailId::FIRST => {
                    if !(self.network.is_stateful && egress.path().is_some()) {
                        let kind = ControlKind::Pong;
                        let pong = Control { kind, qp: ping.from, from: ping.qp, ..ping };
                        self.pongs.send(self.now + RTT, (egress, pong));
                    }
                }
                TransmitBody::Segment { header, oversize, path, .. } => {
                    self.segments.push((header.len, oversize));
                    self.took.push(path.rail());
                }
                TransmitBody::Ack(..) | TransmitBody::Credit(..) | TransmitBody::Control(..) => {}
            }
        }
    }

    fn write(&mut self, len: u32) {
        let remote = self.memory.remote();
        let wr = self.memory.work(SendOp::Write { remote, imm: None }, len);
        self.inner.endpoint.post_send(self.now, self.slot, wr).unwrap();
    }

    /// Acknowledges the first so many segments, as the peer does.
    fn acknowledge(&mut self, segments: u32) {
        self.acknowledge_sent_at(self.now, segments);
    }

    /// Acknowledges the first so many segments, the last of which left at `sent_at`.
    fn acknowledge_sent_at(&mut self, sent_at: Time, segments: u32) {
        let ack = kit::ack(NAME, Stream::Requests, segments, sent_at.stamp());
        self.inner.on_ack(self.now, self.slot, &Ack { received: segments, ..ack });
    }

    /// A message without payload arrives, the peer's first.
    fn receive(&mut self, opcode: Opcode, retransmission: bool) -> Admit {
        let remote = self.memory.remote();
        let is_write = opcode == Opcode::Write;
        let header = DataHeader {
            ack_request: true,
            retransmission,
            address: if is_write { remote.addr } else { 0 },
            rkey: if is_write { remote.rkey } else { 0 },
            ..kit::header(self.now, opcode, NAME, 0)
        };
        let arrival = kit::arrival(&header, PathId::default());
        self.inner.receive_segment(self.now, self.slot, &arrival, &self.memory)
    }

    fn on_probe(&mut self, probe: &Probe) {
        self.inner.endpoint.on_probe(self.now, self.slot, RailId::FIRST, probe);
    }

    fn path_mtu(&self) -> u16 {
        self.inner.endpoint.path_mtu().expect("it is searched")
    }

    fn events(&mut self) -> Vec<EventKind> {
        std::iter::from_fn(|| self.inner.endpoint.poll_event()).map(|event| event.kind).collect()
    }
}

#[test]
fn full_path_mtu_is_known_after_one_round_trip() {
    let mut host = Host::new(OPEN);
    assert_eq!(host.path_mtu(), BASE, "set-up has proved no more");
    host.run(RTT);
    assert_eq!((host.path_mtu(), &host.probes), (FULL, &vec![FULL]));
    host.run(Duration::from_secs(3600));
    assert_eq!(host.probes.len(), 1, "nothing more is asked for");
    assert_eq!(host.events(), [EventKind::PathMtu(FULL)]);
}

#[test]
fn every_path_mtu_is_found_within_16_bytes() {
    for carries in (BASE..FULL).step_by(97).chain([BASE, FULL - 1]) {
        let mut host = Host::new(Network { carries, ..OPEN });
        host.run(Duration::from_secs(3));
        let found = host.path_mtu();
        assert!(found <= carries && carries - found <= 16, "{found} of {carries}");
        assert!(host.probes.len() < 150, "{} probes for {carries}", host.probes.len());
    }
}

#[test]
fn route_mtu_of_the_host_is_a_hint() {
    let mut host = Host::new(Network { carries: 1452, ..OPEN });
    host.inner.endpoint.route_takes(RailId::FIRST, 1452);
    host.run(ms(200));
    assert_eq!(host.path_mtu(), 1452);
    for lie in [0, 500, BASE, 1500, FULL, u16::MAX] {
        let mut host = Host::new(Network { carries: 1452, ..OPEN });
        host.inner.endpoint.route_takes(RailId::FIRST, lie);
        host.run(Duration::from_secs(3));
        assert!((1436..=1452).contains(&host.path_mtu()), "{lie}: {}", host.path_mtu());
    }
}

#[test]
fn path_mtu_that_shrinks_and_grows_is_found_again() {
    let mut host = Host::new(OPEN);
    host.run(RTT);
    host.network.carries = 1452;
    host.inner.endpoint.route_takes(RailId::FIRST, 1452);
    host.write(3 * u32::from(MTU));
    host.run(ms(250));
    assert_eq!(host.path_mtu(), 1452);
    assert!(host.segments.contains(&(MTU, false)), "sent before anything was known");
    host.segments.clear();
    host.run(ms(400));
    let again: Vec<_> = std::mem::take(&mut host.segments);
    assert!(!again.is_empty() && again.iter().all(|sent| *sent == (MTU, true)), "{again:?}");
    host.acknowledge(3);
    host.write(2 * 1392);
    host.run(Duration::ZERO);
    assert_eq!(host.segments.first(), Some(&(1392, false)), "new ones fit");
    host.run(Duration::from_secs(2));
    assert_eq!(host.inner.endpoint.path_mtu_shortfall(RailId::FIRST), Some((1452, FULL)));

    host.network = OPEN;
    let found_at = host.now;
    while host.path_mtu() < FULL {
        host.run(ms(10));
        assert!(host.now < found_at + Duration::from_secs(11), "it does not grow again");
    }
    assert_eq!(host.events().last(), Some(&EventKind::PathMtu(FULL)));
    assert_eq!(host.inner.endpoint.path_mtu_shortfall(RailId::FIRST), None);
}

#[test]
fn silent_peer_does_not_lower_the_path_mtu_and_gets_few_probes() {
    let mut host = Host::new(OPEN);
    host.run(RTT);
    host.network.is_down = true;
    host.write(100);
    host.run(Duration::from_secs(2));
    assert_eq!(host.path_mtu(), FULL);

    let mut host = Host::new(Network { is_down: true, ..OPEN });
    host.run(Duration::from_secs(100));
    assert_eq!(
        (host.path_mtu(), host.inner.endpoint.paths_are_blocked(RailId::FIRST)),
        (BASE, false)
    );
    assert!(host.probes.len() < 200, "{} probes", host.probes.len());
    let long = host.probes.iter().filter(|size| **size == FULL).count();
    assert!(long < 20, "one long probe a round is enough for one who does not answer, not {long}");
    host.network = OPEN;
    host.run(Duration::from_secs(11));
    assert_eq!(host.path_mtu(), FULL, "it is heard when it is back");
}

#[test]
fn answer_of_another_size_is_ignored() {
    let mut host = Host::new(Network { carries: 1452, ..OPEN });
    host.run(Duration::from_secs(3));
    let (before, asked) = (host.path_mtu(), host.asked.clone());
    for answer in &asked {
        for size in [before + 1, 5000, FULL].into_iter().filter(|size| *size != answer.size) {
            let lie = Probe { kind: ProbeKind::Probed, size, ..*answer };
            host.on_probe(&lie);
        }
    }
    assert_eq!(host.path_mtu(), before, "of {} probes", asked.len());
}

#[test]
fn late_answers_do_not_lower_the_path_mtu() {
    let slow = ms(300);
    for (short_after, long_after) in [(RTT, slow), (slow, slow)] {
        let mut host = Host::new(OPEN);
        host.run(RTT);
        let sent_at = host.now;
        host.write(100);
        host.run(slow);
        host.acknowledge_sent_at(sent_at, 1);
        host.network = Network { short_after, long_after, ..OPEN };
        host.probes.clear();
        host.write(100);
        host.run(ms(1100));
        assert!(host.probes.contains(&FULL), "a time-out asks for the size in use");
        assert_eq!(host.path_mtu(), FULL);
        assert_eq!(host.events(), [EventKind::PathMtu(FULL)]);
    }
}

#[test]
fn probe_is_not_repeated_before_its_answer_can_arrive() {
    let slow = Network { short_after: ms(600), long_after: ms(600), ..OPEN };
    let mut host = Host::new(slow);
    host.run(ms(10_000));
    assert_eq!(host.path_mtu(), FULL);
    assert!(host.probes.len() <= 7, "{:?}", host.probes);
    // The round trip is known now, so a suspicion waits for an answer before it asks again.
    let sent_at = host.now;
    host.write(100);
    host.run(ms(600));
    host.acknowledge_sent_at(sent_at, 1);
    let before = host.probes.len();
    host.write(100);
    host.run(ms(1_800));
    let probes = &host.probes[before..];
    assert!(probes.len() <= 8, "{probes:?}");
}

/// The round that begins with a time-out has no answer by a path, and the answers come later.
#[test]
fn late_answers_by_the_paths_are_not_taken_for_a_firewall() {
    let mut host = Host::new(OPEN);
    host.run(ms(1_000));
    assert_eq!(host.path_mtu(), FULL);
    host.events();
    host.network = Network { is_stateful: true, ..OPEN };
    host.write(100);
    while !host.inner.endpoint.paths_are_blocked(RailId::FIRST) {
        host.run(ms(1));
    }
    host.network.is_stateful = false;
    host.run(ms(1_000));
    assert!(!host.inner.endpoint.paths_are_blocked(RailId::FIRST));
    assert_eq!(host.events(), [], "nothing to tell");
}

#[test]
fn blocked_path_ports_are_replaced_by_the_receiving_port() {
    for carries in [FULL, 1452] {
        let mut host = Host::new(Network { is_stateful: true, carries, ..OPEN });
        host.run(Duration::from_secs(3));
        assert!(host.inner.endpoint.paths_are_blocked(RailId::FIRST));
        assert!(host.path_mtu() <= carries && carries - host.path_mtu() <= 16);
        let blocked = |event: &&EventKind| **event == EventKind::PathsBlocked;
        assert_eq!(host.events().iter().filter(blocked).count(), 1);
        assert!(host.inner.endpoint.path_ports_blocked(RailId::FIRST));

        host.network.is_stateful = false;
        host.run(Duration::from_secs(11));
        assert!(!host.inner.endpoint.paths_are_blocked(RailId::FIRST), "the firewall is gone");
        assert!(!host.inner.endpoint.path_ports_blocked(RailId::FIRST));
        assert!(host.events().contains(&EventKind::PathsOpen));
    }
}

#[test]
fn segments_are_as_long_as_their_rail_carries() {
    let rails = Rails::new("round-robin".parse().unwrap(), paths(4), [(paths(4), 77)]);
    let mut host = Host::over(Network { further: 1452, ..OPEN }, rails);
    host.run(2 * RTT);
    assert_eq!(host.inner.endpoint.qp(host.slot).segment_payload(), MTU, "the second is new");
    host.run(Duration::from_secs(3));
    host.write(1 << 20);
    host.transmit();
    // All of one length, which is next to the longest.
    for (index, longest) in [(0, MTU - MTU / 50..=MTU), (1, 1376..=1392)] {
        let sent = host.segments.iter().zip(&host.took);
        let lens = sent.filter(|(_, rail)| rail.get() == index).map(|((len, oversize), _)| {
            assert!(!oversize, "{len} bytes on rail {index}");
            *len
        });
        let lens: Vec<u16> = lens.collect();
        let short = lens.iter().filter(|len| !longest.contains(len)).count();
        assert!(lens.len() > 4 && short <= 1, "rail {index}: {short} of {} short", lens.len());
    }
}

#[test]
fn rail_with_blocked_path_ports_is_used_from_the_receiving_port() {
    let rail = RailId::new(1);
    for is_stateful in [false, true] {
        let network = Network { is_stateful, ..OPEN };
        let rails = Rails::new(RailScheme::default(), paths(4), [(paths(4), 77)]);
        let mut host = Host::over(network, rails);
        host.run(ms(10));
        assert!(host.inner.rails.is_live(rail), "its PING was answered");
        assert_eq!(host.inner.endpoint.paths_are_blocked(rail), is_stateful, "from the first on");
        host.run(Duration::from_secs(3));
        assert_eq!(host.events().contains(&EventKind::PathsBlocked), is_stateful);
        assert_eq!(host.path_mtu(), FULL);

        host.network.is_stateful = false;
        host.run(Duration::from_secs(11));
        assert!(!host.inner.endpoint.paths_are_blocked(rail), "the firewall is gone");
    }
}

#[test]
fn new_firewall_is_detected_by_a_time_out() {
    let mut host = Host::new(OPEN);
    host.run(Duration::from_secs(1));
    assert!(!host.inner.endpoint.paths_are_blocked(RailId::FIRST));
    host.network.is_stateful = true;
    host.write(8);
    host.run(ms(250));
    assert!(host.inner.endpoint.paths_are_blocked(RailId::FIRST));
}

#[test]
fn receiver_detects_a_firewall_by_retransmissions() {
    let taken = Admit::Take(Landing::Payload(Default::default()));
    let not_ready = Admit::Refuse(Refusal::NotReady);
    for (opcode, first, again) in
        [(Opcode::Write, taken, Admit::Duplicate), (Opcode::Send, not_ready.clone(), not_ready)]
    {
        let mut host = Host::new(OPEN);
        host.run(Duration::from_secs(1));
        host.network.is_stateful = true;
        assert_eq!(host.receive(opcode, false), first);
        host.run(ms(250));
        assert!(
            !host.inner.endpoint.paths_are_blocked(RailId::FIRST),
            "{opcode:?}: nothing tells of it yet"
        );
        assert_eq!(host.receive(opcode, true), again);
        host.run(ms(250));
        assert!(host.inner.endpoint.paths_are_blocked(RailId::FIRST), "{opcode:?}");
    }
}

#[test]
fn network_duplicates_cause_no_probes() {
    let mut host = Host::new(OPEN);
    host.run(Duration::from_secs(1));
    let asked = host.probes.len();
    assert!(matches!(host.receive(Opcode::Write, false), Admit::Take(_)));
    assert_eq!(host.receive(Opcode::Write, false), Admit::Duplicate);
    host.run(ms(250));
    assert_eq!(host.probes.len(), asked);
}

#[test]
fn unsolicited_answers_are_ignored() {
    let mut host = Host::new(Network { carries: 1452, ..OPEN });
    host.run(Duration::from_secs(3));
    let before = host.path_mtu();
    let asked = host.probes.len() as u32;
    let lie = |size, serial| Probe {
        kind: ProbeKind::Probed,
        qp: NAME.0,
        from: NAME.0,
        token: NAME.1,
        size,
        serial,
    };
    for serial in [2 * asked, 2 * asked + 1, u32::MAX, u32::MAX / 2] {
        host.on_probe(&lie(FULL, serial));
    }
    for size in [FULL + 1, u16::MAX] {
        (0..2 * asked).for_each(|serial| {
            host.on_probe(&lie(size, serial));
        });
    }
    assert_eq!(host.path_mtu(), before);
}

#[test]
fn answers_of_strangers_are_ignored() {
    let mut host = Host::new(Network { carries: 1452, ..OPEN });
    host.run(ms(1));
    let asked = *host.asked.first().expect("it has asked");
    let truth = Probe { kind: ProbeKind::Probed, ..asked };
    let before = host.path_mtu();
    assert!(truth.size > before);
    for stranger in [Probe { token: Token(8), ..truth }, Probe { from: QpId::new(3), ..truth }] {
        host.on_probe(&stranger);
        assert_eq!(host.path_mtu(), before, "{stranger:?}");
    }
    host.on_probe(&truth);
    assert_eq!(host.path_mtu(), truth.size);
}

#[test]
fn probe_flood_gets_few_short_answers() {
    let mut host = Host::new(OPEN);
    host.run(RTT);
    let (kind, (qp, token)) = (ProbeKind::Probe, NAME);
    for serial in 0..10_000 {
        let probe = Probe { kind, qp, from: qp, token, size: FULL, serial };
        host.on_probe(&probe);
    }
    let mut answers = Vec::new();
    for packet in host.inner.transmit(host.now) {
        match (packet.body, packet.egress) {
            (TransmitBody::Probe(answer), Egress::Port(_)) => answers.push(answer),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(answers.len(), 8);
    assert!(answers.iter().all(|answer| (answer.kind, answer.size) == (ProbeKind::Probed, FULL)));
    let mut bytes = Vec::new();
    answers[0].encode(&mut bytes);
    assert_eq!(bytes.len(), PROBE_LEN);
}

#[test]
fn queue_pair_with_longer_segments_extends_the_search() {
    let mut host = Host::new(OPEN);
    host.run(RTT);
    let (name, config) = ((QpId::new(3), NAME.1), QpConfig::default());
    let slot = host.inner.connect(host.now, name, config, remote(16_384));
    assert_eq!(host.inner.endpoint.qp(slot).segment_payload(), MTU);
    host.run(2 * RTT);
    assert_eq!(host.inner.endpoint.qp(slot).segment_payload(), 16_384);
    assert_eq!(host.inner.endpoint.qp(host.slot).segment_payload(), MTU, "as agreed");
}
