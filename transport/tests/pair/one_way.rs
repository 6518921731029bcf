//! Dead return paths, of a rail or of some paths, where the receiver sends only acknowledgements.

use std::time::Duration;

use braid_lb::{RailScheme, Rails};
use braid_transport::{EndpointConfig, QpConfig, QpCounters, QpSlot, SendOp, Status, Transmit};
use braid_wire::{PathId, Time};

use crate::hosts::wide;
use crate::kit::{self, Everything, Host, NAME, Wire};

const ONE_WAY: Duration = Duration::from_micros(50);
/// The time that a host takes for what has come, and sends what there is to send.
const TURN: Duration = Duration::from_micros(5);
/// Work requests that the sender has outstanding.
const DEPTH: usize = 64;

struct World {
    now: Time,
    hosts: [Host; 2],
    /// The queue pair of either host.
    slot: QpSlot,
    wire: Wire<(usize, Transmit)>,
    memory: Everything,
    /// Whether packets of the receiver are lost on a path.
    is_dead: fn(PathId) -> bool,
    outstanding: usize,
    completed: u64,
    turn_at: [Time; 2],
}

fn rails(count: usize, paths: usize) -> Rails {
    let set = || kit::paths(paths);
    let mut rails = Rails::new(RailScheme::ROUND_ROBIN, set(), (1..count).map(|_| (set(), 7)));
    while let Some(probe) = rails.poll_probe(Time::ZERO) {
        rails.on_probe_answer(Time::ZERO, probe.path.rail(), false, probe.stamp);
    }
    rails
}

impl World {
    fn new(count: usize, paths: usize, is_dead: fn(PathId) -> bool) -> Self {
        let config = EndpointConfig { batch_segments: 4, ..EndpointConfig::default() };
        let mut hosts = [(); 2].map(|()| Host::new(Time::ZERO, config, rails(count, paths)));
        let qp = QpConfig { ask_every: 4, ..wide() };
        let connect =
            |host: &mut Host| host.connect(Time::ZERO, NAME, qp.clone(), kit::remote(NAME, 0));
        let [slot, _] = hosts.each_mut().map(connect);
        World {
            now: Time::ZERO + Duration::from_millis(1),
            hosts,
            slot,
            wire: Wire::default(),
            memory: Everything::new(),
            is_dead,
            outstanding: 0,
            completed: 0,
            turn_at: [Time::FAR_FUTURE; 2],
        }
    }

    /// Writes for so long. Returns the number of messages that have completed.
    fn run(&mut self, span: Duration) -> u64 {
        let (end, before) = (self.now + span, self.completed);
        self.turn(0);
        loop {
            let timers = self.hosts.iter().filter_map(Host::next_timeout);
            let next = timers.chain(self.turn_at).fold(self.wire.next_arrival(), Ord::min);
            self.now = self.now.max(next);
            if self.now >= end {
                return self.completed - before;
            }
            while let Some((to, packet)) = self.wire.arrive(self.now) {
                self.hosts[to].receive(self.now, self.slot, &packet, &self.memory);
                self.turn_at[to] = self.turn_at[to].min(self.now + TURN);
            }
            for host in 0..2 {
                if self.hosts[host].run_timers(self.now) || self.turn_at[host] <= self.now {
                    self.turn(host);
                }
            }
        }
    }

    fn turn(&mut self, host: usize) {
        self.turn_at[host] = Time::FAR_FUTURE;
        for completion in self.hosts[host].completions() {
            assert_eq!(completion.status, Status::Success);
            self.completed += 1;
            self.outstanding -= 1;
        }
        while host == 0 && self.outstanding < DEPTH {
            let op = SendOp::Write { remote: self.memory.remote(), imm: None };
            let wr = self.memory.work(op, 256);
            self.hosts[0].endpoint.post_send(self.now, self.slot, wr).unwrap();
            self.outstanding += 1;
        }
        for packet in self.hosts[host].transmit(self.now) {
            let egress = packet.egress;
            let path = egress.path().unwrap_or(PathId::default().on(egress.rail()));
            if host == 0 || !(self.is_dead)(path) {
                self.wire.send(self.now + ONE_WAY, (1 - host, packet));
            }
        }
    }

    fn counters(&self) -> QpCounters {
        self.hosts[0].endpoint.qp(self.slot).counters()
    }
}

/// After a second the sender completes nearly as many messages as with all ways back alive. It may
/// still find out dead paths that the policy did not use before, at a few time-outs each.
fn recovers(count: usize, paths: usize, is_dead: fn(PathId) -> bool) {
    const SPAN: Duration = Duration::from_millis(200);
    let healthy = World::new(count, paths, |_| false).run(SPAN);
    let mut world = World::new(count, paths, is_dead);
    let first = world.run(SPAN);
    world.run(4 * SPAN);
    let before = world.counters();
    let then = world.run(SPAN);
    let after = world.counters();
    println!(
        "{count} rails of {paths} paths: {healthy} messages if healthy, {first} at first, {then} then; time-outs {} and {}",
        before.timeouts,
        after.timeouts - before.timeouts,
    );
    assert!(then * 4 >= healthy * 3, "{then} of {healthy} messages");
    let timeouts = after.timeouts - before.timeouts;
    assert!(timeouts < 12, "{timeouts} time-outs");
}

#[test]
fn rail_with_a_dead_return_path_stalls_nothing() {
    recovers(2, 16, |path| path.rail().get() == 1);
    recovers(2, 1, |path| path.rail().get() == 1);
    recovers(4, 4, |path| path.rail().get() % 2 == 1);
    recovers(2, 16, |path| path.rail().get() == 0);
}

#[test]
fn dead_return_paths_stall_nothing() {
    recovers(1, 16, |path| path.get() % 2 == 1);
    recovers(1, 16, |path| path.get() >= 8);
    recovers(1, 2, |path| path.get() == 0);
    recovers(2, 16, |path| path.get() % 2 == 1);
}

#[test]
fn live_paths_stay_in_use() {
    let mut world = World::new(2, 16, |_| false);
    world.run(Duration::from_millis(100));
    let downs = world.hosts.iter().flat_map(|host| host.rails.paths()).map(|it| it.counters.downs);
    assert_eq!(downs.sum::<u64>(), 0);
}
