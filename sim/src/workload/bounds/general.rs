//! A lower bound for any workload.

use std::collections::HashMap;

use super::super::message::{Message, Start, Workload};
use super::super::step::Occurrence;
use super::cuts::{Cuts, Sent};
use super::journey::{Journey, Load};
use super::{Path, delivery, lone_flow};
use crate::frames::Frames;
use crate::time::{Ps, Rate};
use crate::topology::{PortId, Tier, Topology};

/// A lower bound for any workload on any topology: the largest of
///
/// - for each message, its earliest start, given the steps that it waits for, plus its time alone;
/// - for each step, its earliest end, and for each stream the time of all its steps;
/// - for each interface and direction, all traffic that cannot start before some instant, back to
///   back, then the shortest time until the last of it is acknowledged;
/// - the same for all traffic that leaves or enters each edge switch and each pod, over all its
///   cables together.
///
/// The bound holds for all behaviour of hosts and switches, so other contention within the fabric
/// does not count, and the bound may be unreachable. Routes have the length that the topology gives
/// them, with the rate of its fastest link and the delay of its shortest. Links shared by many
/// messages count with their own speed.
///
/// # Panics
/// Panics if the workload fails [`Workload::check`] for this topology.
pub fn of_workload(frames: &Frames, topology: &Topology, workload: &Workload) -> Ps {
    let (mut links, mut cuts) = (Links::new(topology), Cuts::new(topology));
    let route = best_link(topology);
    let path = |message: &Message| Path { hops: hops(topology, message.src, message.dst), ..route };
    let steps = Steps::new(frames, workload, path);
    let mut longest = steps.last();
    for message in &workload.messages {
        let (start, path) = (steps.start(message), path(message));
        longest = longest.max(start + lone_flow(frames, &path, message.bytes));
        let (src, dst, bytes) = (message.src, message.dst, message.bytes);
        let [data, acks] = journeys(frames, &path, message, start);
        links.carry(src, dst, &data, |rate| frames.data_time(rate, bytes));
        links.carry(dst, src, &acks, |rate| frames.ack_time(rate, bytes));
        cuts.carry(src, dst, &data, Sent::data(frames, message));
        cuts.carry(dst, src, &acks, Sent::acks(frames, message));
    }
    longest.max(links.least(frames)).max(cuts.least(frames))
}

/// The earliest times of a workload's steps.
struct Steps {
    /// The earliest end of each step.
    done: Vec<Ps>,
    /// The time that the steps of each stream take together.
    streams: HashMap<u32, Ps>,
}

impl Steps {
    fn new(frames: &Frames, workload: &Workload, path: impl Fn(&Message) -> Path) -> Steps {
        let done = Vec::with_capacity(workload.steps.len());
        let mut steps = Steps { done, streams: HashMap::new() };
        for step in &workload.steps {
            let earliest = |on: &Occurrence| {
                let message = |number: u32| &workload.messages[number as usize];
                let start = |number: u32| steps.start(message(number));
                match *on {
                    Occurrence::Posted(number) => start(number),
                    Occurrence::Delivered(number) => {
                        let of = message(number);
                        start(number) + delivery(frames, &path(of), of.bytes)
                    }
                    Occurrence::Acknowledged(number) => {
                        let of = message(number);
                        start(number) + lone_flow(frames, &path(of), of.bytes)
                    }
                    Occurrence::Started(other) => {
                        steps.done[other as usize] - workload.steps[other as usize].time
                    }
                    Occurrence::Done(other) => steps.done[other as usize],
                }
            };
            let ready = step.after.iter().map(earliest).max().unwrap_or(Ps::ZERO);
            steps.done.push(ready.max(step.not_before) + step.time);
            if let Some(stream) = step.stream {
                *steps.streams.entry(stream).or_default() += step.time;
            }
        }
        steps
    }

    /// Returns the earliest start of a message.
    fn start(&self, message: &Message) -> Ps {
        match message.start {
            Start::At(time) => time,
            Start::After(step) => self.done[step as usize],
        }
    }

    /// Returns the earliest time at which all steps can be done. Those of a stream take turns.
    fn last(&self) -> Ps {
        self.done.iter().chain(self.streams.values()).copied().max().unwrap_or(Ps::ZERO)
    }
}

/// Times of messages that have the fabric to themselves.
#[derive(Debug)]
pub struct Alone<'a> {
    frames: &'a Frames,
    topology: &'a Topology,
    route: Path,
    /// The rates of each interface's links up and down.
    rates: Vec<[Rate; 2]>,
}

impl Alone<'_> {
    /// Creates the times of messages over a topology.
    pub fn new<'a>(frames: &'a Frames, topology: &'a Topology) -> Alone<'a> {
        Alone { frames, topology, route: best_link(topology), rates: link_rates(topology) }
    }

    /// Returns a lower bound of the time of a message from its start to its completion at the
    /// sender. It is exact if all links have the same rate and delay.
    ///
    /// # Panics
    /// Panics if the topology lacks one of its interfaces.
    pub fn time(&self, message: &Message) -> Ps {
        let Message { src, dst, bytes, .. } = *message;
        let path = Path { hops: hops(self.topology, src, dst), ..self.route };
        let slower = self.rates[src as usize][0].min(self.rates[dst as usize][1]);
        lone_flow(self.frames, &path, bytes).max(self.frames.data_time(slower, bytes))
    }
}

/// The loads of the interfaces' links.
struct Links {
    /// The rates of each interface's links up and down.
    rates: Vec<[Rate; 2]>,
    /// The load that each interface sends.
    up: Vec<Load>,
    /// The load that each interface receives.
    down: Vec<Load>,
}

impl Links {
    fn new(topology: &Topology) -> Links {
        let rates = link_rates(topology);
        let idle = vec![Load::default(); rates.len()];
        Links { rates, up: idle.clone(), down: idle }
    }

    /// Adds packets that occupy a link for `time` to the links at both ends.
    fn carry(&mut self, src: u32, dst: u32, journey: &Journey, time: impl Fn(Rate) -> Ps) {
        let (src, dst) = (src as usize, dst as usize);
        let ((from, then), takes) = (journey.on_link(1), time(self.rates[src][0]));
        self.up[src].add(from, takes, then);
        let ((from, then), takes) = (journey.on_link(journey.hops), time(self.rates[dst][1]));
        self.down[dst].add(from, takes, then);
    }

    fn least(self, frames: &Frames) -> Ps {
        let loads = self.up.into_iter().zip(self.down).zip(self.rates);
        let loads =
            loads.flat_map(|((up, down), [rate_up, rate_down])| [(up, rate_up), (down, rate_down)]);
        loads.map(|(load, rate)| load.least(rate.time_for(frames.gap))).max().unwrap_or(Ps::ZERO)
    }
}

/// Returns the journeys of a message's data and of its acknowledgements. The hosts choose the first
/// and the last packet, so the shortest counts.
fn journeys(frames: &Frames, path: &Path, message: &Message, start: Ps) -> [Journey; 2] {
    let terms = frames.terms(path);
    let (delay, hops) = (path.delay, path.hops);
    let answer = (terms.ack + delay) * u64::from(hops);
    let shortest = path.rate.time_for(frames.last(message.bytes));
    let data = Journey { start, shortest, delay, hops, after: answer };
    let start = data.first_came();
    [data, Journey { start, shortest: terms.ack, delay, hops, after: Ps::ZERO }]
}

/// Returns the speed of the fastest cable and the delay of the shortest.
fn best_link(topology: &Topology) -> Path {
    let rate = topology.cables.iter().map(|cable| cable.up.max(cable.down)).max();
    let delay = topology.cables.iter().map(|cable| cable.delay).min();
    Path { rate: rate.unwrap_or(Rate::from_bps(1)), delay: delay.unwrap_or(Ps::ZERO), hops: 1 }
}

/// Returns the rates of each interface's links up and down.
fn link_rates(topology: &Topology) -> Vec<[Rate; 2]> {
    let rates = |up: PortId| [topology.rate(up), topology.rate(up.reverse())];
    topology.nic_ports().into_iter().map(rates).collect()
}

/// Returns the number of links between two interfaces.
fn hops(topology: &Topology, src: u32, dst: u32) -> u32 {
    match topology.meeting_tier(src, dst) {
        Tier::Host | Tier::Edge => 2,
        Tier::Agg => 4,
        Tier::Core => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MIB, OFAN, SIX, UEC};
    use super::super::{all_to_all, permutation};
    use super::*;
    use crate::simulation::Change;
    use crate::topology::{FatTree, LeafSpine, Node};
    use crate::workload::bounds::at_best;
    use crate::workload::{Fsdp, Groups, Pairs, StartOrder};
    use crate::workload::{
        all_to_all as everybody, incast, permutation as permuted, ring_all_reduce,
    };

    fn fat_tree(k: u32) -> Topology {
        FatTree::k_ary(k, SIX.rate, SIX.delay).unwrap().build().unwrap()
    }

    #[test]
    fn the_general_bound_is_the_lone_flows_for_one_message() {
        let topology = fat_tree(4);
        let mut workload = permuted(&topology, 50_000, Pairs::InterPod, 1).unwrap();
        workload.messages.truncate(1);
        assert_eq!(of_workload(&OFAN, &topology, &workload), lone_flow(&OFAN, &SIX, 50_000));
    }

    #[test]
    fn the_general_bound_is_close_below_the_papers() {
        let topology = fat_tree(8);
        let close = |general: Ps, special: Ps| {
            let round_trip = Ps(6 * (41_580 + 640 + 2 * 500_000));
            assert!(general <= special && general + round_trip > special, "{general}, {special}");
        };
        let workload = permuted(&topology, MIB, Pairs::InterPod, 1).unwrap();
        let general = of_workload(&OFAN, &topology, &workload);
        close(general, permutation(&OFAN, &SIX, MIB));
        let groups = Groups::all(128).unwrap();
        let workload = everybody(&groups, 64 << 10, StartOrder::Rotated).unwrap();
        let general = of_workload(&UEC, &topology, &workload);
        close(general, all_to_all(&UEC, &SIX, 128, 64 << 10));
    }

    /// 15 messages share the receiver's link, and the last acknowledgement returns over the whole
    /// route.
    #[test]
    fn an_incast_is_bound_by_the_receiver() {
        let (topology, groups) = (fat_tree(4), Groups::all(16).unwrap());
        let workload = incast(&groups, MIB).unwrap();
        let link = Ps(15 * 256 * 41_780 - 200);
        let shortest = Path { hops: 2, ..SIX };
        // The packet of the nearest sender may arrive first, and its acknowledgement may be the
        // last.
        let rest = lone_flow(&OFAN, &shortest, 4096) - Ps(41_580);
        assert_eq!(of_workload(&OFAN, &topology, &workload), link + rest);
    }

    #[test]
    fn waiting_messages_add_up() {
        let topology = fat_tree(4);
        let workload = ring_all_reduce(&Groups::all(16).unwrap(), 16 * 4096).unwrap();
        // Around the ring, chunks cross 2, 6, 2, 4 links in turn. The longest sequence of 30 steps
        // ends with 2, 6.
        let [two, four, six] = [2, 4, 6].map(|hops| delivery(&OFAN, &Path { hops, ..SIX }, 4096));
        let steps = (two * 2 + four + six) * 7 + two + six;
        let ack = lone_flow(&OFAN, &SIX, 4096) - six;
        assert_eq!(of_workload(&OFAN, &topology, &workload), steps + ack);

        let plan = Fsdp { servers: 8, gpus_per_server: 2, layers: 3, ..Fsdp::LLAMA_7B };
        let pause = Ps::from_micros(700);
        let time = |plan: &Fsdp| {
            let workload = plan.workload(16, 1).unwrap();
            of_workload(&OFAN, &topology, &workload)
        };
        let (bare, busy) = (time(&plan), time(&Fsdp { compute: pause, ..plan.clone() }));
        assert_eq!(busy, bare + pause * 2);
    }

    /// Four hosts below each of two leaves, 100 Gb/s everywhere but 50 Gb/s from leaf 0 to spine 1.
    fn with_a_slow_uplink() -> Topology {
        let rate = Rate::from_gbps(100);
        let delay = Ps::from_micros(1);
        let plan = LeafSpine {
            leaves: 2,
            hosts_per_leaf: 4,
            spines: 2,
            links_per_spine: 1,
            host_rate: rate,
            fabric_rate: rate,
            delay,
        };
        let mut topology = plan.build().unwrap();
        let slow = topology.ports_between(Node::Switch(0), Node::Switch(3)).next().unwrap();
        topology.set_port_rate(slow, Rate::from_gbps(50));
        topology
    }

    /// 250 MB from each host of leaf 0: 61036 packets of 4158 B, and acknowledgements of 64 B in
    /// the other direction.
    #[test]
    fn traffic_that_leaves_a_switch_shares_its_uplinks() {
        let frames = Frames { payload: 4096, header: 62, ack: 64, gap: 0 };
        let topology = with_a_slow_uplink();
        let messages = |pairs: &[(u32, u32)]| {
            let message = |(src, dst): &(u32, u32)| Message::at_once(*src, *dst, 250_000_000, 0);
            Workload::from(pairs.iter().map(message).collect::<Vec<_>>())
        };
        let millis = |pairs: &[(u32, u32)]| {
            of_workload(&frames, &topology, &messages(pairs)).as_micros_f64() / 1e3
        };
        let there = [(0, 4), (1, 5), (2, 6), (3, 7)];
        let back = there.map(|(src, dst)| (dst, src));
        assert!((millis(&there) - 54.14).abs() < 0.02, "{}", millis(&there));
        assert!((millis(&back) - 40.61).abs() < 0.02, "{}", millis(&back));
        // With both directions, the acknowledgements share the links with the data.
        let both = millis(&[there, back].concat());
        assert!((both - 54.14 * (1.0 + 64.0 / 4158.0)).abs() < 0.02, "{both}");
    }

    /// A cable counts with its highest speed.
    #[test]
    fn changes_count_if_they_last() {
        let mut topology = with_a_slow_uplink();
        topology.set_rate(Node::Switch(0), Node::Switch(3), Rate::from_gbps(100)).unwrap();
        let cable = topology.ports_between(Node::Switch(0), Node::Switch(3)).next().unwrap();
        let (cable, later) = (cable.cable() as u32, Ps::from_micros(5));
        let port = PortId::of_cable(cable)[0];
        let speed = |gbps| Change::Speed { port, rate: Rate::from_gbps(gbps) };
        let rate = |changes: &[(Ps, Change)]| {
            at_best(&topology, changes).cables[cable as usize].up.bps() / 1_000_000_000
        };
        assert_eq!(rate(&[]), 100);
        assert_eq!(rate(&[(Ps::ZERO, speed(50))]), 50);
        assert_eq!(rate(&[(Ps::ZERO, speed(50)), (later, speed(80))]), 80);
        assert_eq!(rate(&[(later, speed(50))]), 100);
        let cut = |up| Change::Cable { cable, up };
        assert_eq!(rate(&[(Ps::ZERO, cut(false))]), 0);
        assert_eq!(rate(&[(Ps::ZERO, cut(false)), (later, cut(true))]), 100);
    }

    #[test]
    fn nothing_takes_no_time() {
        assert_eq!(of_workload(&OFAN, &fat_tree(2), &Workload::default()), Ps::ZERO);
    }
}
