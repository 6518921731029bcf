//! Only the way back is dead, of a rail or of some paths, and the receiver has nothing to say but
//! acknowledgements.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use braid_lb::{RailScheme, Rails};
use braid_transport::{
    Admit, Arrival, Egress, EndpointConfig, QpConfig, QpCounters, SendOp, Status, TransmitBody,
};
use braid_wire::{Ack, Control, DataHeader, PathId, Time};

use crate::hosts::wide;
use crate::kit::{self, Everything, Host, ID, TOKEN};

const ONE_WAY: Duration = Duration::from_micros(50);
/// The time that a host takes for what has come, and sends what there is to send.
const TURN: Duration = Duration::from_micros(5);
/// Work requests that the sender has outstanding.
const DEPTH: usize = 64;

enum Packet {
    Data(DataHeader, PathId),
    Ack(Ack),
    Control(Control, Egress),
}

/// A packet that is due at a host; the number keeps the order.
struct Flight(Time, u64, usize, Packet);

struct World {
    now: Time,
    hosts: [Host; 2],
    flights: BinaryHeap<Reverse<Flight>>,
    departed: u64,
    memory: Everything,
    /// What the receiver sends by these paths is lost.
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

fn host(count: usize, paths: usize) -> Host {
    let config = EndpointConfig { batch_segments: 4, ..EndpointConfig::default() };
    let qp = QpConfig { ask_every: 4, ..wide() };
    Host::new(Time::ZERO, config, rails(count, paths), qp, kit::remote(ID, TOKEN, 0))
}

impl World {
    fn new(count: usize, paths: usize, is_dead: fn(PathId) -> bool) -> Self {
        World {
            now: Time::ZERO + Duration::from_millis(1),
            hosts: [(); 2].map(|()| host(count, paths)),
            flights: BinaryHeap::new(),
            departed: 0,
            memory: Everything::new(),
            is_dead,
            outstanding: 0,
            completed: 0,
            turn_at: [Time::FAR_FUTURE; 2],
        }
    }

    /// Writes for so long. Returns how many messages have completed.
    fn run(&mut self, span: Duration) -> u64 {
        let (end, before) = (self.now + span, self.completed);
        self.turn(0);
        loop {
            let arrival = self.flights.peek().map_or(Time::FAR_FUTURE, |flight| flight.0.0);
            let timers = self.hosts.each_ref().map(|host| host.endpoint.next_timeout(&host.rails));
            let timers = timers.into_iter().flatten().min().unwrap_or(Time::FAR_FUTURE);
            self.now = arrival.min(timers).min(self.turn_at[0]).min(self.turn_at[1]).max(self.now);
            if self.now >= end {
                return self.completed - before;
            }
            while self.flights.peek().is_some_and(|flight| flight.0.0 <= self.now) {
                let Some(Reverse(Flight(_, _, to, packet))) = self.flights.pop() else { break };
                self.arrive(to, packet);
                self.turn_at[to] = self.turn_at[to].min(self.now + TURN);
            }
            for host in 0..2 {
                let Host { endpoint, rails, .. } = &mut self.hosts[host];
                let is_due = endpoint.next_timeout(rails).is_some_and(|at| at <= self.now);
                if is_due {
                    endpoint.on_timeout(self.now, rails);
                }
                if is_due || self.turn_at[host] <= self.now {
                    self.turn(host);
                }
            }
        }
    }

    fn arrive(&mut self, to: usize, packet: Packet) {
        let Host { endpoint, rails, slot } = &mut self.hosts[to];
        match packet {
            Packet::Data(header, path) => {
                let arrival =
                    Arrival { header: &header, path, congestion: false, may_be_replied_to: false };
                if let Admit::Take(_) = endpoint.on_arrival(self.now, *slot, &arrival, &self.memory)
                {
                    endpoint.placed(self.now, *slot, &self.memory);
                }
            }
            Packet::Ack(ack) => endpoint.on_ack(self.now, *slot, &ack, rails),
            Packet::Control(control, left_by) => {
                endpoint.on_control(self.now, *slot, &control, left_by, rails);
            }
        }
    }

    fn turn(&mut self, host: usize) {
        self.turn_at[host] = Time::FAR_FUTURE;
        let Host { endpoint, rails, slot } = &mut self.hosts[host];
        while let Some(completion) = endpoint.poll_completion() {
            assert_eq!(completion.status, Status::Success);
            self.completed += 1;
            self.outstanding -= 1;
        }
        while host == 0 && self.outstanding < DEPTH {
            let op = SendOp::Write { remote: self.memory.remote(), imm: None };
            endpoint.post_send(self.now, *slot, self.memory.work(op, 256)).unwrap();
            self.outstanding += 1;
        }
        while let Some(transmit) = endpoint.poll_transmit(self.now, rails) {
            let egress = transmit.egress;
            let packet = match transmit.body {
                TransmitBody::Segment { header, path, .. } => Packet::Data(header, path),
                TransmitBody::Ack(ack) => Packet::Ack(ack),
                TransmitBody::Control(control) => Packet::Control(control, egress),
                TransmitBody::Probe(..) => continue,
            };
            let path = egress.path().unwrap_or(PathId::default().on(egress.rail()));
            if host == 0 || !(self.is_dead)(path) {
                self.departed += 1;
                let flight = Flight(self.now + ONE_WAY, self.departed, 1 - host, packet);
                self.flights.push(Reverse(flight));
            }
        }
    }

    fn counters(&self) -> QpCounters {
        let Host { endpoint, slot, .. } = &self.hosts[0];
        endpoint.qp(*slot).counters()
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Flight {}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// Nearly as many messages as with all ways back from a second on: a path that the policy has not
/// used before may be found out then, which takes a few time-outs.
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
fn a_rail_whose_way_back_is_dead_stalls_nothing() {
    recovers(2, 16, |path| path.rail().get() == 1);
    recovers(2, 1, |path| path.rail().get() == 1);
    recovers(4, 4, |path| path.rail().get() % 2 == 1);
    recovers(2, 16, |path| path.rail().get() == 0);
}

#[test]
fn paths_whose_ways_back_are_dead_stall_nothing() {
    recovers(1, 16, |path| path.get() % 2 == 1);
    recovers(1, 16, |path| path.get() >= 8);
    recovers(1, 2, |path| path.get() == 0);
    recovers(2, 16, |path| path.get() % 2 == 1);
}

#[test]
fn nothing_is_taken_out_of_use_where_all_ways_are_alive() {
    let mut world = World::new(2, 16, |_| false);
    world.run(Duration::from_millis(100));
    let downs = world.hosts.iter().flat_map(|host| host.rails.paths()).map(|it| it.counters.downs);
    assert_eq!(downs.sum::<u64>(), 0);
}
