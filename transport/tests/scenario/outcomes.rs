//! The kinds of scenario, and what has to be true when one ends.

use std::time::Duration;

use braid_transport::{EndCause, EndpointConfig, EventKind, QpState, SendOp, Status};
use braid_wire::{Crc, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Twist;
use super::app::LONGEST_DRAIN;
use super::network::Cut;
use super::queue::{Fate, Queue};
use super::rails::RailSettings;
use super::route::Route;
use super::sabotage::{BREACHES, Sabotage};
use super::settings::{Settings, micros, pick};
use super::world::World;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Everything succeeds, whatever the network does.
    Traffic,
    /// Host 1 falls silent for ever.
    Silence,
    /// One side destroys a queue pair in the middle of its work.
    Farewell,
    /// One side destroys a queue pair as soon as all messages of the other have arrived.
    Close,
    /// Data and acks get lost altogether, signs of life do not.
    BlackHole,
    /// One work request must fail.
    Sabotaged(Sabotage),
}

impl Kind {
    pub(crate) fn of(seed: u64) -> Self {
        match seed % 16 {
            0..=9 => Kind::Traffic,
            10 => Kind::Silence,
            11 => [Kind::Farewell, Kind::Close][(seed / 16 % 2) as usize],
            12 => Kind::BlackHole,
            13 => Kind::Sabotaged(BREACHES[(seed / 16 % 4) as usize]),
            14 => Kind::Sabotaged(
                [Sabotage::ShortBuffer, Sabotage::NotReady, Sabotage::BadReceive]
                    [(seed / 16 % 3) as usize],
            ),
            _ => Kind::Sabotaged(
                [Sabotage::BadSource, Sabotage::BadLanding, Sabotage::Withdrawn]
                    [(seed / 16 % 3) as usize],
            ),
        }
    }

    /// Bends the settings to what this kind is about.
    fn adapt(self, settings: &mut Settings, rng: &mut Pcg64Mcg) {
        match self {
            Kind::Traffic | Kind::Farewell | Kind::Close => {}
            Kind::Silence => {
                settings.endpoint.ping_interval = Duration::from_millis(pick(rng, &[100, 500]));
                settings.endpoint.peer_timeout = Duration::from_secs(pick(rng, &[1, 3]));
            }
            Kind::BlackHole => {
                let retry_timeout = micros(pick(rng, &[10_000, 300_000, 2_000_000]));
                settings.qp.iter_mut().for_each(|qp| qp.retry_timeout = retry_timeout);
            }
            Kind::Sabotaged(Sabotage::NotReady) => {
                // All other receives have to be there before anything arrives.
                settings.recv_lag = Duration::ZERO;
                let retries = rng.random_range(0..=5);
                for qp in &mut settings.qp {
                    qp.max_recv_wr = 512;
                    qp.rnr_retry = Some(retries);
                }
            }
            Kind::Sabotaged(_) => settings.domains = 2,
        }
    }

    /// Whether it ends well once all faults have ceased.
    fn recovers(self) -> bool {
        !matches!(self, Kind::Silence | Kind::BlackHole)
    }

    fn sabotage(self) -> Option<Sabotage> {
        if let Kind::Sabotaged(sabotage) = self { Some(sabotage) } else { None }
    }

    /// Which queue pairs may fail.
    fn fate(self, qp: usize) -> Fate {
        match self {
            Kind::Traffic => Fate::Lives,
            Kind::Silence | Kind::BlackHole => Fate::Dies,
            Kind::Farewell | Kind::Close | Kind::Sabotaged(_) => {
                if qp == 0 {
                    Fate::Dies
                } else {
                    Fate::Lives
                }
            }
        }
    }
}

/// The world of a seed before anything has happened.
pub(crate) fn build(seed: u64, twist: Twist) -> World {
    let kind = Kind::of(seed);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let leaks = twist == Twist::Leaks;
    let mut settings = Settings { leaks, ..Settings::random(&mut rng, seed) };
    match twist {
        Twist::Wraps => settings.wrap(),
        Twist::Changes => (settings.changes, settings.crc) = (true, Crc::On),
        Twist::Keyed => settings.seal(),
        Twist::Reorders => settings.reorder(seed),
        Twist::Faithful => settings.keep_faith(),
        Twist::None | Twist::Leaks | Twist::OneWay => {}
    }
    kind.adapt(&mut settings, &mut rng);
    if kind == Kind::Traffic {
        settings.share_receives(seed);
    }
    let is_direct = settings.endpoint.direct.is_some();
    let may_drop = !is_direct && !settings.is_faithful && kind.recovers() && twist != Twist::OneWay;
    if let Some(route) = Route::random(seed, settings.mtu).filter(|_| may_drop) {
        settings.over(route);
    }
    if kind.recovers() && matches!(twist, Twist::None | Twist::Keyed) {
        let mtu = if is_direct { 0 } else { settings.mtu };
        settings.over_rails(RailSettings::random(seed, mtu));
    }
    if twist == Twist::OneWay && kind == Kind::Traffic {
        settings.over_rails(RailSettings::random(seed, 0));
        settings.go_one_way();
    }
    if settings.is_faithful {
        settings.over_rails(RailSettings::random(seed, 0).without_faults());
        settings.wait_for_round_trips();
    }
    let mut world = World::new(seed, settings, kind.sabotage());
    for host in 0..2 {
        for (qp, queue) in world.queues[host].iter_mut().enumerate() {
            queue.fate = kind.fate(qp);
        }
    }
    world
}

/// Runs the world of a seed to its end, and panics at what must not be.
pub(crate) fn play(seed: u64, world: &mut World) {
    match Kind::of(seed) {
        Kind::Traffic => {}
        Kind::Silence => return silence(world),
        Kind::Farewell => farewell(world),
        Kind::Close => close(world),
        Kind::BlackHole => return black_hole(world),
        Kind::Sabotaged(sabotage) => sabotaged(world, sabotage),
    }
    finish(world);
}

/// Faults cease, everything that can succeed does, and then it is quiet.
fn finish(world: &mut World) {
    let settled = |queue: &Queue| match queue.fate {
        Fate::Lives => queue.is_done(),
        Fate::Dies => queue.is_settled(),
    };
    let deadline = deadline(world);
    let done = world.run_until(deadline, |world| world.all_queues().all(settled));
    assert!(done, "no end {:?} after the faults have ceased: {}", patience(world), standing(world));
    // The other end of a destroyed queue pair may still have answers to send, until it asks.
    let asking = world.settings.endpoint.ping_interval * (2 * world.settings.qps as u32);
    let stragglers = world.all_queues().any(|queue| queue.fate == Fate::Dies);
    let rest = Duration::from_secs(1) + if stragglers { asking } else { Duration::ZERO };
    let ceased = world.now.max(world.settings.faults.calm_at);
    world.run_until(ceased + rest, |_| false);
    let quiet_since = world.now;
    world.run_until(world.now + Duration::from_secs(3), |_| false);
    world.hosts.iter().for_each(|host| host.check_idle(world.now, quiet_since));
    check_states(world);
    if world.settings.is_faithful {
        world.check_paths();
    }
    world.audit();
}

fn check_states(world: &World) {
    for (host, queues) in world.hosts.iter().zip(&world.queues) {
        for (qp, queue) in queues.iter().enumerate() {
            if queue.fate == Fate::Lives {
                let state = host.state(qp);
                let good = [Some(QpState::ReadyToSend), Some(QpState::SendQueueDrained)];
                assert!(good.contains(&state), "a good queue pair ends in {state:?}");
            }
        }
    }
}

/// Round trips for which a controller may hold back each segment: the smallest window of one
/// (Swift's) is a tenth of a packet.
const ROUND_TRIPS_PER_SEGMENT: u32 = 10;

/// The time limit for the rest once nothing goes wrong any more.
fn patience(world: &World) -> Duration {
    let work: usize = world.all_queues().map(|queue| queue.sends.len() + queue.recvs.len()).sum();
    let Settings { qps, bytes, mtu, .. } = world.settings;
    let segments = 2 * qps as u32 * (bytes / u64::from(mtu)) as u32;
    let paced = 2 * world.settings.longest_way() * ROUND_TRIPS_PER_SEGMENT * segments;
    Duration::from_secs(5) + micros(30_000) * work as u32 + paced
}

fn deadline(world: &World) -> Time {
    world.settings.faults.calm_at.max(world.now) + patience(world)
}

/// Describes the work requests that have not completed.
fn standing(world: &World) -> String {
    let mut text = String::new();
    for (host, queues) in world.queues.iter().enumerate() {
        for (qp, q) in queues.iter().enumerate() {
            text += &format!(
                "\n  host {host} QP {qp}: sends {} planned, {} posted, {} ended; receives {} planned, {} posted, {} ended",
                q.sends.len(),
                q.posted,
                q.retired,
                q.recvs.len(),
                q.recv_posted,
                q.recv_done
            );
        }
    }
    text
}

/// Some moment, often in the middle of things.
fn moment(world: &mut World) -> Time {
    let span = pick(&mut world.rng, &[100, 2_000, 30_000, 300_000]);
    Time::ZERO + micros(world.rng.random_range(0..span))
}

fn stop_posting(world: &mut World) {
    world.queues.iter_mut().flatten().for_each(|queue| queue.stopped = true);
}

fn silence(world: &mut World) {
    let at = moment(world);
    world.run_until(at, |_| false);
    world.silent[1] = true;
    stop_posting(world);
    // The peer's last packets may still arrive. An interval begins then, and the time that counts
    // begins after it. A host that was away for an interval listens for an eighth of one before
    // time counts again.
    let EndpointConfig { peer_timeout, ping_interval, .. } = world.settings.endpoint;
    let bound = world.network.longest_flight() + 2 * ping_interval + peer_timeout;
    let settled = |world: &World| world.queues[0].iter().all(Queue::is_settled);
    // Also those that wait for nothing.
    let dead = |world: &World| {
        world.hosts[0].links.iter().all(|link| {
            link.slot.is_none_or(|slot| world.hosts[0].inner.state(slot) == QpState::Error)
        })
    };
    let done = world.run_host_0(bound, 1.0 + 1.0 / 8.0, |world| settled(world) && dead(world));
    assert!(settled(world), "after {bound:?} work is still open: {}", standing(world));
    assert!(done, "a queue pair outlives its peer by {bound:?}");
    for queue in world.queues[0].iter().filter(|queue| !queue.is_alive()) {
        let status = queue.failure.map_or(Status::Flushed, |(_, status, _)| status);
        assert!(matches!(status, Status::RetryExceeded | Status::Flushed), "{status}");
    }
    world.audit();
}

fn farewell(world: &mut World) {
    let at = moment(world);
    world.run_until(at, |_| false);
    let host = world.rng.random_range(0..2);
    end(world, host);
}

/// A host that has received everything may close. Delivered messages count as sent, even if packets
/// are lost afterwards.
fn close(world: &mut World) {
    let host = world.rng.random_range(0..2);
    let deadline = deadline(world);
    let received = |world: &World| {
        let queue = &world.queues[host][0];
        queue.recv_done == queue.recvs.len()
    };
    let done = world.run_until(deadline, received);
    assert!(done, "not all messages arrive: {}", standing(world));
    end(world, host);
    let sender = &world.queues[1 - host][0];
    let Some((index, status, _)) = sender.failure else { return };
    let arrived = sender.consumers.last().is_some_and(|last| index <= *last);
    // The answer of a READ or an atomic may not have arrived, and everything behind it ends after
    // it.
    let is_one_way =
        matches!(sender.sends[index].wr.op, SendOp::Send { .. } | SendOp::Write { .. });
    assert!(!arrived || !is_one_way, "send {index} ends with {status}, though it has arrived");
}

/// One side destroys the queue pair; the other notices.
fn end(world: &mut World, host: usize) {
    let at = world.now;
    world.destroy(host, 0);
    let bound = world.settings.faults.calm_at.max(at)
        + world.settings.endpoint.ping_interval * 4
        + Duration::from_secs(2);
    let settled = |world: &World| world.queues.iter().all(|queues| queues[0].is_settled());
    let done = world.run_until(bound, settled);
    assert!(done, "the peer does not notice that the queue pair is gone: {}", standing(world));
}

/// Queue pairs that want something must notice; idle ones need not.
fn black_hole(world: &mut World) {
    let at = moment(world);
    world.run_until(at, |_| false);
    world.network.cut = Cut::Payloads;
    stop_posting(world);
    let calm = |queues: [&Queue; 2]| {
        queues.iter().all(|queue| queue.is_settled())
            || queues.iter().all(|queue| queue.is_alive() && !queue.has_open_sends())
    };
    let all_calm =
        |world: &World| world.queues[0].iter().zip(&world.queues[1]).all(|(a, b)| calm([a, b]));
    let done = world.run_until(hole_found_by(world), all_calm);
    assert!(done, "nobody notices that data does not get through: {}", standing(world));
    // The host that learns of the end may see it before the application that caused it does, whose
    // host may pause.
    world.run_until(world.now + world.settings.pause + micros(1_000), |_| false);
    for (a, b) in world.queues[0].iter().zip(&world.queues[1]) {
        let is_silence = |kind: &EventKind| matches!(kind, EventKind::Ended(e) if e.cause == EndCause::PeerSilent);
        let gave_up = a.events.iter().chain(&b.events).any(is_silence);
        assert!(gave_up || (a.is_alive() && b.is_alive()), "it failed for another reason");
    }
    world.audit();
}

/// Returns the time by which all queue pairs notice that nothing gets through. Streams share the
/// peer's receive buffer. A stream that waits for it begins when all before it are silent, each
/// after two time-outs. A time-out is postponed to twice the longest at most. The other end sends
/// PINGs in turn, and is answered.
fn hole_found_by(world: &World) -> Time {
    let Settings { qps, pause, ref endpoint, ref qp, ref faults, .. } = world.settings;
    let (streams, time_out) = (2 * qps as u32, 2 * qp[0].max_rto.max(qp[1].max_rto));
    let calm_at = (world.now + world.network.longest_flight()).max(faults.calm_at + pause);
    let gives_up = (2 * streams + 1) * time_out + qp[0].retry_timeout;
    calm_at + LONGEST_DRAIN + gives_up + streams * endpoint.ping_interval
}

fn sabotaged(world: &mut World, sabotage: Sabotage) {
    let struck = world.struck.expect("a work request that must fail");
    if sabotage == Sabotage::Withdrawn {
        let at = moment(world);
        world.run_until(at, |_| false);
        world.hosts[1].memory.withdraw();
    }
    let deadline = deadline(world);
    let ended = |world: &World| {
        let queue = &world.queues[0][0];
        // What is withdrawn too late was read in time.
        let in_time = sabotage == Sabotage::Withdrawn && queue.retired > struck;
        queue.failure.is_some() || in_time
    };
    assert!(world.run_until(deadline, ended), "{struck} does not fail: {}", standing(world));
    let Some((index, status, _)) = world.queues[0][0].failure else {
        // The memory was not needed any more, so nothing may come of it, whichever acks are lost.
        world.queues.iter_mut().for_each(|queues| queues[0].fate = Fate::Lives);
        return;
    };
    assert_eq!(index, struck, "{status}");
    assert!([sabotage.status(), sabotage.other_status()].contains(&status), "{status}");
    let spoils_receive = [Sabotage::ShortBuffer, Sabotage::BadReceive].contains(&sabotage);
    let refused_by_peer = BREACHES.contains(&sabotage) || spoils_receive;
    // Open work requests of the peer end too, once it learns of the failure. If the peer was the
    // one to refuse, it is in ERR as soon as its earlier answers have arrived.
    let at_peer = |world: &World| {
        let state = world.hosts[1].state(0).unwrap_or(QpState::Error);
        world.queues[1][0].is_settled() && (state == QpState::Error || !refused_by_peer)
    };
    let bound = world.now.max(world.settings.faults.calm_at) + Duration::from_secs(10);
    assert!(world.run_until(bound, at_peer), "the peer's end lives on: {}", standing(world));
    if spoils_receive {
        check_peer(world, struck, sabotage);
    }
}

/// The receive that the struck message would have consumed tells the receiver why.
fn check_peer(world: &World, struck: usize, sabotage: Sabotage) {
    let consumed = world.queues[0][0].consumers.iter().position(|index| *index == struck);
    let Some((index, status, _)) = world.queues[1][0].recv_failure else { return };
    assert_eq!((Some(index), status), (consumed, sabotage.recv_status()));
}
