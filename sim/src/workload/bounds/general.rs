//! A bound for any workload.

use super::{Path, delivery, lone_flow};
use crate::frames::Frames;
use crate::time::{Ps, Rate};
use crate::topology::{Node, Tier, Topology};
use crate::workload::{Message, Start, Workload};

/// Of any workload on any topology: the largest of
///
/// - for each message, the earliest that it can start, given what it waits for, and its time alone;
/// - for each interface and direction, what it cannot start before some instant, then all of that back to
///   back, then the shortest time until the last of it is acknowledged.
///
/// It holds whatever hosts and switches do, so contention within the fabric does not count, and it may be
/// out of reach. Routes are of the length that the topology gives them, over links as fast as its fastest and
/// as short as its shortest; only the interfaces' own links count at their own speed.
///
/// # Panics
/// If the workload fails [`Workload::check`] for this topology.
pub fn of_workload(frames: &Frames, topology: &Topology, workload: &Workload) -> Ps {
    let mut links = Links::new(topology);
    let route = best_link(topology);
    let mut delivered: Vec<Ps> = Vec::with_capacity(workload.messages.len());
    let mut longest = Ps::ZERO;
    for message in &workload.messages {
        let start = match &message.start {
            Start::At(time) => *time,
            Start::After { messages, pause } => {
                let all = messages.iter().map(|on| delivered[*on as usize]).max();
                all.unwrap_or(Ps::ZERO) + *pause
            }
        };
        let path = Path { hops: hops(topology, message.src, message.dst), ..route };
        delivered.push(start + delivery(frames, &path, message.bytes));
        longest = longest.max(start + lone_flow(frames, &path, message.bytes));
        links.carry(frames, &path, message, start);
    }
    longest.max(links.least(frames))
}

/// The links of the interfaces.
struct Links {
    /// By interface.
    rates: Vec<Rate>,
    /// By interface, what it sends.
    up: Vec<Load>,
    /// By interface, what it receives.
    down: Vec<Load>,
}

impl Links {
    fn new(topology: &Topology) -> Links {
        let mut rates = vec![Rate::from_bps(1); topology.nics.len()];
        for cable in &topology.cables {
            if let Node::Nic(nic) = cable.low {
                rates[nic as usize] = cable.rate;
            }
        }
        let idle = vec![Load::default(); rates.len()];
        Links { rates, up: idle.clone(), down: idle }
    }

    /// A message's data and acknowledgements on the four links at its ends. Which packet is first or last is
    /// the hosts' affair, so the shortest counts on the way there and back.
    fn carry(&mut self, frames: &Frames, path: &Path, message: &Message, start: Ps) {
        let (src, dst) = (message.src as usize, message.dst as usize);
        let terms = frames.terms(path);
        let shortest = path.rate.time_for(frames.last(message.bytes));
        let (data_on, ack_on) = (shortest * terms.switches, terms.ack * terms.switches);
        let to_last_switch = terms.propagation - path.delay;
        let answer = terms.ack + ack_on + terms.propagation;

        let data = |nic: usize| frames.data_time(self.rates[nic], message.bytes);
        let at_last_switch = start + data_on + to_last_switch;
        self.up[src].add(start, data(src), data_on + terms.propagation + answer);
        self.down[dst].add(at_last_switch, data(dst), path.delay + answer);

        let acks = |nic: usize| frames.ack_time(self.rates[nic], message.bytes);
        let first_came = at_last_switch + shortest + path.delay;
        self.up[dst].add(first_came, acks(dst), ack_on + terms.propagation);
        self.down[src].add(first_came + ack_on + to_last_switch, acks(src), path.delay);
    }

    fn least(self, frames: &Frames) -> Ps {
        let gaps = self.rates.into_iter().map(|rate| rate.time_for(frames.gap));
        let both = self.up.into_iter().zip(self.down).zip(gaps);
        both.map(|((up, down), gap)| up.least(gap).max(down.least(gap))).max().unwrap_or(Ps::ZERO)
    }
}

/// What one link must carry.
#[derive(Clone, Default)]
struct Load {
    /// No earlier than; for how long, gaps included; after it, at least.
    parts: Vec<(Ps, Ps, Ps)>,
}

impl Load {
    fn add(&mut self, from: Ps, takes: Ps, then: Ps) {
        self.parts.push((from, takes, then));
    }

    /// When the last of it can be over: for some instant, whatever comes no earlier than that, one after
    /// another, the gap after the last left out.
    fn least(mut self, gap: Ps) -> Ps {
        self.parts.sort_unstable_by_key(|(from, ..)| std::cmp::Reverse(*from));
        let (mut takes, mut then, mut least) = (Ps::ZERO, Ps::NEVER, Ps::ZERO);
        for (from, part, after) in self.parts {
            takes += part;
            then = then.min(after);
            least = least.max((from + takes + then).since(gap));
        }
        least
    }
}

/// The speed of the fastest cable and the delay of the shortest.
fn best_link(topology: &Topology) -> Path {
    let rate = topology.cables.iter().map(|cable| cable.rate).max();
    let delay = topology.cables.iter().map(|cable| cable.delay).min();
    Path { rate: rate.unwrap_or(Rate::from_bps(1)), delay: delay.unwrap_or(Ps::ZERO), hops: 1 }
}

/// Links between two interfaces.
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
    use crate::topology::FatTree;
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

    /// 15 messages share the receiver's link; the last answer goes all the way back.
    #[test]
    fn an_incast_is_bound_by_the_receiver() {
        let (topology, groups) = (fat_tree(4), Groups::all(16).unwrap());
        let workload = incast(&groups, MIB).unwrap();
        let link = Ps(15 * 256 * 41_780 - 200);
        let shortest = Path { hops: 2, ..SIX };
        // The nearest sender's packet comes first, the nearest one's answer may be the last.
        let rest = lone_flow(&OFAN, &shortest, 4096) - Ps(41_580);
        assert_eq!(of_workload(&OFAN, &topology, &workload), link + rest);
    }

    #[test]
    fn what_waits_adds_up() {
        let topology = fat_tree(4);
        let workload = ring_all_reduce(&Groups::all(16).unwrap(), 16 * 4096).unwrap();
        // On their way round, chunks cross 2, 6, 2, 4 links in turn; the longest of 30 steps end with 2, 6.
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

    #[test]
    fn nothing_takes_no_time() {
        assert_eq!(of_workload(&OFAN, &fat_tree(2), &Workload::default()), Ps::ZERO);
    }
}
