//! A network, and who sends what in it.

use std::time::Duration;

use braid::CcConfig;
use braid_lab::Rate;
use braid_lab::emulator::{Link, Reordering, Topology};

use super::flow::Flow;
use super::scenario::Scenario;

/// A full packet on a link, in bytes.
const PACKET: u64 = 1514;
/// The shortest queue: an initial window (RFC 6928).
const SHORTEST_QUEUE: u64 = 10 * PACKET;

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) scenario: Scenario,
    pub(super) name: String,
    pub(super) topology: Topology,
    pub(super) flows: Vec<Flow>,
    /// The links whose queues are judged.
    pub(super) bottlenecks: Vec<usize>,
    /// The round trip with empty queues.
    pub(super) rtt: Duration,
    /// Controllers that are of interest only here.
    pub(super) more_controllers: Vec<CcConfig>,
}

impl Case {
    /// Senders on hosts 0, 1 and so on, all of which send to the one host after them.
    pub(super) fn to_one(scenario: Scenario, name: &str, port: Port, flows: Vec<Flow>) -> Self {
        let hosts = 1 + flows.iter().map(|flow| flow.to).max().unwrap_or(0);
        Case {
            scenario,
            name: format!("{port}{}{name}", if name.is_empty() { "" } else { ", " }),
            topology: Topology::Star(vec![port.link(); hosts]),
            flows,
            bottlenecks: vec![hosts - 1],
            rtt: port.rtt,
            more_controllers: Vec::new(),
        }
    }

    fn links(&self) -> impl Iterator<Item = &Link> {
        let (Topology::Star(links) | Topology::Parallel(links)) = &self.topology;
        self.bottlenecks.iter().map(|index| &links[index % links.len()])
    }

    /// Of all bottlenecks together.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bits(self.links().map(|link| link.rate.bits()).sum())
    }

    /// Each bottleneck's number with its rate in bits per second.
    pub(super) fn bottleneck_rates(&self) -> impl Iterator<Item = (usize, u64)> {
        self.bottlenecks.iter().copied().zip(self.links().map(|link| link.rate.bits()))
    }

    /// Of the first bottleneck, in bytes.
    pub(super) fn queue(&self) -> u64 {
        self.links().next().map_or(0, |link| link.queue)
    }

    /// Whether the bottleneck marks.
    pub(super) fn marks(&self) -> bool {
        self.links().any(|link| link.mark.is_some())
    }
}

/// A port of a switch: what all hosts of a network hang on. Half of the round trip is spent each way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub(super) mbit_s: u64,
    pub(super) rtt: Duration,
    pub(super) queue: Queue,
    /// Bytes above which its queue marks.
    pub(super) mark: Option<u64>,
    /// Whether packets overtake each other behind it.
    pub(super) reordering: Reordering,
}

/// A queue's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    /// In percent of the product of rate and round trip (BDP).
    Product(u64),
    Bytes(u64),
}

impl Port {
    pub(super) fn new(mbit_s: u64, rtt_ms: u64, queue: Queue) -> Self {
        let (rtt, reordering) = (Duration::from_millis(rtt_ms), Reordering::None);
        Port { mbit_s, rtt, queue, mark: None, reordering }
    }

    pub(super) fn link(self) -> Link {
        let rate = Rate::from_bits(self.mbit_s * 1_000_000);
        let product = u128::from(rate.bits()) * self.rtt.as_nanos() / 8_000_000_000;
        let queue = match self.queue {
            Queue::Product(percent) => product as u64 * percent / 100,
            Queue::Bytes(bytes) => bytes,
        };
        let queue = queue.max(SHORTEST_QUEUE);
        let Port { mark, reordering, .. } = self;
        Link { rate, queue, delay: self.rtt / 2, mark, reordering }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} Mbit/s, {} ms, ", self.mbit_s, self.rtt.as_millis())?;
        match self.queue {
            Queue::Product(percent) => write!(f, "{} BDP", percent as f64 / 100.0)?,
            Queue::Bytes(bytes) => write!(f, "{} KB", bytes / 1000)?,
        }
        match self.reordering {
            Reordering::None => {}
            Reordering::Jitter(most) => {
                write!(f, ", each way give or take {} ms", most.as_millis())?
            }
            Reordering::Skip(percent) => write!(f, ", {percent} % without delay")?,
        }
        self.mark.map_or(Ok(()), |mark| write!(f, ", marks from {} KB", mark / 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_one_product_holds_a_round_trip() {
        let port = Port::new(200, 20, Queue::Product(100));
        let link = port.link();
        assert_eq!((link.queue, link.delay), (500_000, Duration::from_millis(10)));
        assert_eq!(port.to_string(), "200 Mbit/s, 20 ms, 1 BDP");
        let port = Port { mark: Some(50_000), ..Port::new(10, 20, Queue::Product(10)) };
        assert_eq!(port.link().queue, SHORTEST_QUEUE);
        assert_eq!(port.to_string(), "10 Mbit/s, 20 ms, 0.1 BDP, marks from 50 KB");
        let reordering = Reordering::Jitter(Duration::from_millis(5));
        let port = Port { reordering, ..Port::new(10, 20, Queue::Bytes(250_000)) };
        assert_eq!(port.link().reordering, reordering);
        assert_eq!(port.to_string(), "10 Mbit/s, 20 ms, 250 KB, each way give or take 5 ms");
    }
}
