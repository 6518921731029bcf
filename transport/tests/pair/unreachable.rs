//! Peers that have died on hosts that live: ICMP port unreachable, UNKNOWN, and what firewalls and
//! forgers make of it.

use std::time::Duration;

use braid_transport::{Egress, EndCause, EndpointConfig, QpState, Transmit, TransmitBody};
use braid_wire::{Ack, Control, ControlKind, PathId, RailId, Time};

use crate::hosts::{Pair, Sent, wide};
use crate::kit::Wire;

const MS: Duration = Duration::from_millis(1);
/// One way.
const DELAY: Duration = Duration::from_micros(50);
const PORT: Egress = Egress::Port(RailId::FIRST);

/// The fate of a packet of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// The peer takes and answers it.
    Arrives,
    /// Nobody hears of it.
    Vanishes,
    /// The peer's host answers that nobody receives it.
    Refused,
    /// The peer's port is another program's, which knows no such queue pair.
    Unknown,
}

/// A packet under way.
enum Flight {
    Packet(Transmit, Fate),
    Ack(Ack),
    Answer(Control),
    Refusal(Egress),
}

/// A pair, the time, and what happens to what the sender sends.
struct World {
    pair: Pair,
    wire: Wire<Flight>,
    /// Kept busy with WRITEs.
    is_busy: bool,
    pings: usize,
    written: usize,
}

impl World {
    fn new(is_busy: bool) -> Self {
        let pair = Pair::with(wide(), EndpointConfig::default());
        World { pair, wire: Wire::default(), is_busy, pings: 0, written: 0 }
    }

    /// Plays for so long, or until the sender's queue pair has ended. Returns how long that was.
    fn play(&mut self, span: Duration, mut fate: impl FnMut(Egress) -> Fate) -> Duration {
        let (start, end) = (self.pair.now, self.pair.now + span);
        loop {
            if self.is_busy {
                self.pair.keep_writing(4);
            }
            while let Some(packet) = self.pair.next_packet() {
                if let TransmitBody::Control(control) = &packet.body {
                    self.pings += usize::from(control.kind == ControlKind::Ping);
                }
                let fate = fate(packet.egress);
                let flight = Flight::Packet(packet, fate);
                self.wire.send(self.pair.now + DELAY, flight);
            }
            self.written += self.pair.completed();
            if self.pair.sender_state() != QpState::ReadyToSend {
                return self.pair.now - start;
            }
            let next = self.pair.wakes_at().min(self.wire.next_arrival());
            if next >= end {
                self.pair.now = end;
                return span;
            }
            self.pair.now = self.pair.now.max(next);
            while let Some(flight) = self.wire.arrive(self.pair.now) {
                self.arrive(flight);
            }
            if self.pair.wakes_at() <= self.pair.now {
                self.pair.sleep();
            }
        }
    }

    fn arrive(&mut self, flight: Flight) {
        let at = self.pair.now + DELAY;
        match flight {
            Flight::Packet(packet, Fate::Refused) => {
                self.wire.send(at, Flight::Refusal(packet.egress));
            }
            Flight::Packet(packet, fate) => self.reach_receiver(at, packet, fate),
            Flight::Ack(ack) => self.pair.ack(&ack),
            Flight::Answer(control) => assert!(self.pair.control(&control)),
            Flight::Refusal(left_by) => self.pair.unreachable(left_by),
        }
    }

    /// A packet reaches the receiver's host. The answer comes back at `at`.
    fn reach_receiver(&mut self, at: Time, packet: Transmit, fate: Fate) {
        let answer = match (packet.body, fate, packet.egress) {
            (TransmitBody::Segment { header, path, placement, .. }, Fate::Arrives, _) => {
                self.pair.arrive(&Sent { header, path, placement }).map(Flight::Ack)
            }
            (TransmitBody::Control(control), Fate::Arrives, egress) => {
                let (answer, _) = self.pair.receiver_answers_to(&control, egress);
                Some(Flight::Answer(answer))
            }
            // The other program answers to the source port, and nobody receives at a path's.
            (TransmitBody::Control(control), Fate::Unknown, Egress::Port(_)) => {
                Some(Flight::Answer(control.answer(ControlKind::Unknown)))
            }
            _ => None,
        };
        answer.into_iter().for_each(|answer| self.wire.send(at, answer));
    }
}

/// The peer's process is killed. Linux sends six such messages to one address and then one in a
/// second.
#[test]
fn killed_peer_is_detected_in_150_ms() {
    for most in [1, 6, usize::MAX] {
        let mut world = World::new(true);
        world.play(100 * MS, |_| Fate::Arrives);
        let mut refusals = 0;
        let took = world.play(10_000 * MS, |_| {
            refusals += 1;
            if refusals <= most { Fate::Refused } else { Fate::Vanishes }
        });
        assert_eq!(world.pair.end_cause(), Some(EndCause::PeerGone), "{most}");
        assert!((150 * MS..170 * MS).contains(&took), "{most} messages: {took:?}");
    }
}

#[test]
fn idle_queue_pair_detects_a_killed_peer_with_the_next_ping() {
    let mut world = World::new(false);
    world.play(1600 * MS, |_| Fate::Arrives);
    let took = world.play(10_000 * MS, |_| Fate::Refused);
    assert_eq!(world.pair.end_cause(), Some(EndCause::PeerGone));
    let interval = EndpointConfig::default().ping_interval;
    // The first question may leave by a path that has carried nothing.
    assert!(took <= interval + 200 * MS, "{took:?}");
}

#[test]
fn unknown_from_another_process_ends_the_connection_at_once() {
    for (is_busy, most) in [(true, 50 * MS), (false, 700 * MS)] {
        let mut world = World::new(is_busy);
        world.play(100 * MS, |_| Fate::Arrives);
        let took = world.play(10_000 * MS, |_| Fate::Unknown);
        assert_eq!(world.pair.end_cause(), Some(EndCause::PeerUnknown));
        assert!(took < most, "busy: {is_busy}: {took:?}");
    }
}

/// Ten thousand messages in a second, and the connection goes on; each doubt costs two PINGs.
#[test]
fn forged_icmp_ends_no_healthy_connection_and_costs_few_pings() {
    for is_busy in [true, false] {
        for left_by in [PORT, Egress::Path(PathId::new(1))] {
            let mut world = World::new(is_busy);
            world.play(100 * MS, |_| Fate::Arrives);
            (world.pings, world.written) = (0, 0);
            for _ in 0..50_000 {
                world.pair.unreachable(left_by);
                let took = world.play(Duration::from_micros(100), |_| Fate::Arrives);
                assert_eq!(took, Duration::from_micros(100), "{:?}", world.pair.end_cause());
            }
            assert!(world.pings <= 50, "{} PINGs in 5 s, busy: {is_busy}", world.pings);
            assert!(!is_busy || world.written > 1000, "{} WRITEs", world.written);
        }
    }
}

/// Three of four packets are lost, and forged messages claim that nobody is there.
#[test]
fn forged_icmp_ends_no_lossy_connection() {
    let mut world = World::new(true);
    let mut count = 0_u32;
    world.play(100 * MS, |_| Fate::Arrives);
    for _ in 0..2000 {
        world.pair.unreachable(PORT);
        world.play(MS, |_| {
            count = count.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            if count >> 30 == 0 { Fate::Arrives } else { Fate::Vanishes }
        });
    }
    assert_eq!(world.pair.end_cause(), None);
}

#[test]
fn path_refused_by_a_firewall_is_avoided() {
    for before in [Duration::ZERO, 100 * MS] {
        let mut world = World::new(true);
        world.play(before, |_| Fate::Arrives);
        let refused = Egress::Path(PathId::new(2));
        let fate = |left_by| if left_by == refused { Fate::Refused } else { Fate::Arrives };
        world.play(100 * MS, fate);
        (world.pings, world.written) = (0, 0);
        world.play(2000 * MS, fate);
        assert_eq!(world.pair.end_cause(), None);
        assert!(!world.pair.uses(PathId::new(2)), "it is still in use");
        assert!(world.written > 1000, "{} WRITEs", world.written);
        // Probes of the path are PINGs, too: one in 250 ms.
        assert!(world.pings < 40, "{} PINGs", world.pings);
    }
}

/// A firewall refuses paths from the start, and the peer's application does not run for two
/// seconds.
#[test]
fn paused_peer_behind_a_firewall_is_not_declared_dead() {
    let mut world = World::new(true);
    let is_refused = |left_by: Egress| left_by.path().is_some_and(|path| path.get() >= 2);
    let refused = |left_by| if is_refused(left_by) { Fate::Refused } else { Fate::Vanishes };
    let took = world.play(2000 * MS, refused);
    assert_eq!((took, world.pair.end_cause()), (2000 * MS, None));
    world
        .play(2000 * MS, |left_by| if is_refused(left_by) { Fate::Refused } else { Fate::Arrives });
    assert_eq!(world.pair.end_cause(), None);
    assert!(world.written > 20, "{} WRITEs", world.written);
}

/// The driver is away while the peer answers: what it has not listened to it does not judge.
#[test]
fn time_without_the_driver_does_not_count_against_the_peer() {
    for away in [60, 200, 10_000] {
        let mut world = World::new(false);
        world.play(100 * MS, |_| Fate::Arrives);
        world.pair.unreachable(PORT);
        world.play(10 * MS, |_| Fate::Vanishes);
        world.pair.pass(away * MS);
        world.pair.sleep();
        world.play(2000 * MS, |_| Fate::Arrives);
        assert_eq!(world.pair.end_cause(), None, "away for {away} ms");
    }
}

#[test]
fn distant_peer_has_two_round_trips_to_answer() {
    let mut world = World::new(false);
    world.pair.write(1);
    let packet = world.pair.next_packet().expect("a packet");
    let TransmitBody::Segment { header, path, placement, .. } = packet.body else {
        panic!("a segment");
    };
    world.pair.pass(200 * MS);
    let ack = world.pair.arrive(&Sent { header, path, placement }).expect("it is acknowledged");
    world.pair.ack(&ack);
    world.play(5 * MS, |_| Fate::Arrives);
    world.pair.unreachable(PORT);
    let took = world.play(10_000 * MS, |_| Fate::Refused);
    assert_eq!(world.pair.end_cause(), Some(EndCause::PeerGone));
    assert!((400 * MS..1600 * MS).contains(&took), "{took:?}");
}

/// Segments in flight are declared lost and their paths go out of use before the driver reports the
/// ICMP messages.
#[test]
fn failed_paths_count_as_evidence_of_a_dead_peer() {
    let mut world = World::new(true);
    world.play(100 * MS, |_| Fate::Arrives);
    world.play(50 * MS, |_| Fate::Vanishes);
    (0..4).for_each(|path| world.pair.unreachable(Egress::Path(PathId::new(path))));
    let took = world.play(10_000 * MS, |_| Fate::Vanishes);
    assert_eq!(world.pair.end_cause(), Some(EndCause::PeerGone));
    assert!((150 * MS..170 * MS).contains(&took), "{took:?}");
}
