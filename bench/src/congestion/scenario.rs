//! The scenarios, and the cases of each: a network, and who sends what in it.

use std::time::Duration;

use braid_lab::Rate;
use braid_lab::emulator::{Link, Topology};

use super::flow::Flow;

/// A full packet on a link, in bytes.
const PACKET: u64 = 1514;
/// The shortest queue: an initial window (RFC 6928).
const SHORTEST_QUEUE: u64 = 10 * PACKET;
/// What a port of a small switch has.
const FIXED_QUEUE: u64 = 250_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scenario {
    /// One flow, one bottleneck.
    Bottleneck,
}

/// In the order in which they run.
pub(super) const ALL: [Scenario; 1] = [Scenario::Bottleneck];

/// A network and its traffic.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) scenario: Scenario,
    pub(super) name: String,
    pub(super) topology: Topology,
    /// The first are of Braid, by the controller that is judged.
    pub(super) flows: Vec<Flow>,
    /// The links whose queues are judged.
    pub(super) bottlenecks: Vec<usize>,
    /// The round trip with empty queues.
    pub(super) rtt: Duration,
}

impl Scenario {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scenario::Bottleneck => "bottleneck",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Scenario::Bottleneck => "one queue pair, one bottleneck",
        }
    }

    pub(super) fn cases(self, quick: bool) -> Vec<Case> {
        match self {
            Scenario::Bottleneck => bottleneck(quick),
        }
    }
}

impl Case {
    fn links(&self) -> impl Iterator<Item = &Link> {
        let (Topology::Star(links) | Topology::Parallel(links)) = &self.topology;
        self.bottlenecks.iter().map(|index| &links[index % links.len()])
    }

    /// Of all bottlenecks together.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bits(self.links().map(|link| link.rate.bits()).sum())
    }

    /// Of the first bottleneck, in bytes.
    pub(super) fn queue(&self) -> u64 {
        self.links().next().map_or(0, |link| link.queue)
    }
}

/// Bytes of a rate in a time.
fn product(rate: Rate, time: Duration) -> u64 {
    (u128::from(rate.bits()) * time.as_nanos() / 8_000_000_000) as u64
}

/// Every host's port is alike; half of the round trip is spent each way.
fn port(rate: Rate, rtt: Duration, queue: u64) -> Link {
    Link { rate, queue: queue.max(SHORTEST_QUEUE), delay: rtt / 2, mark: None }
}

fn bottleneck(quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (mbits, rtt_ms, queues) in combinations(quick) {
        let (rate, rtt) = (Rate::from_bits(mbits * 1_000_000), Duration::from_millis(rtt_ms));
        for (name, queue) in queues.iter().map(|queue| queue(product(rate, rtt))) {
            let link = port(rate, rtt, queue);
            cases.push(Case {
                scenario: Scenario::Bottleneck,
                name: format!("{mbits} Mbit/s, {rtt_ms} ms, {name}"),
                topology: Topology::Star(vec![link; 2]),
                flows: vec![Flow::braid(0, 1)],
                bottlenecks: vec![1],
                rtt,
            });
        }
    }
    cases
}

/// A queue's name and length in bytes, by the bandwidth-delay product.
type Queue = fn(u64) -> (&'static str, u64);

const QUEUES: [Queue; 3] = [
    |product| ("1 BDP", product),
    |product| ("0.1 BDP", product / 10),
    |_| ("250 KB", FIXED_QUEUE),
];

/// Rates in Mbit/s, round trips in milliseconds, and queues.
fn combinations(quick: bool) -> Vec<(u64, u64, &'static [Queue])> {
    if quick {
        return vec![(10, 20, &QUEUES[2..]), (200, 20, &QUEUES[..1])];
    }
    let rates = [10, 200, 500].into_iter();
    // Without a delay there is no product to measure a queue by.
    let of = |rate| [(rate, 0, &QUEUES[2..]), (rate, 20, &QUEUES[..]), (rate, 50, &QUEUES[..])];
    rates.flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_names_of_their_own_and_queues_for_a_packet() {
        for quick in [true, false] {
            let cases: Vec<Case> =
                ALL.into_iter().flat_map(|scenario| scenario.cases(quick)).collect();
            let mut names: Vec<_> =
                cases.iter().map(|case| (case.scenario.name(), case.name.clone())).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), cases.len());
            for case in &cases {
                let (Topology::Star(links) | Topology::Parallel(links)) = &case.topology;
                assert!(links.iter().all(|link| link.queue >= SHORTEST_QUEUE), "{}", case.name);
                assert!(!case.bottlenecks.is_empty() && case.rate().bits() > 0);
            }
        }
        assert_eq!(Scenario::Bottleneck.cases(false).len(), 3 * (1 + 3 + 3));
    }

    #[test]
    fn a_queue_of_one_product_holds_a_round_trip() {
        let cases = Scenario::Bottleneck.cases(false);
        let find = |name: &str| cases.iter().find(|case| case.name == name).expect(name);
        let Topology::Star(links) = &find("200 Mbit/s, 20 ms, 1 BDP").topology else {
            panic!("a star")
        };
        assert_eq!((links[1].queue, links[1].delay), (500_000, Duration::from_millis(10)));
    }
}
