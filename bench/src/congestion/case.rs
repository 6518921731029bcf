//! A case: a network, and the flows on it.

use std::time::Duration;

use braid::CcConfig;
use braid_lab::Rate;
use braid_lab::emulator::{Link, Reordering, Topology};

use super::flow::Flow;
use super::scenario::CongestionScenario;

/// Bytes of a full packet on a link.
const PACKET: u64 = 1514;
/// The shortest queue: an initial window (RFC 6928).
const SHORTEST_QUEUE: u64 = 10 * PACKET;

#[derive(Clone, Debug)]
pub(super) struct CongestionCase {
    pub(super) scenario: CongestionScenario,
    pub(super) name: String,
    pub(super) topology: Topology,
    pub(super) flows: Vec<Flow>,
    /// The links whose queues are evaluated.
    pub(super) bottlenecks: Vec<usize>,
    /// The round trip with empty queues.
    pub(super) rtt: Duration,
    /// Controllers that are run in this case only.
    pub(super) more_controllers: Vec<CcConfig>,
}

impl CongestionCase {
    /// Creates a case in which the senders on hosts 0, 1 and so on all send to the next host.
    pub(super) fn to_one(
        scenario: CongestionScenario,
        name: &str,
        port: SwitchPort,
        flows: Vec<Flow>,
    ) -> Self {
        let hosts = 1 + flows.iter().map(|flow| flow.to).max().unwrap_or(0);
        CongestionCase {
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

    /// Returns the rate of all bottlenecks together.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bits(self.links().map(|link| link.rate.bits()).sum())
    }

    /// Returns the number of each bottleneck and its rate in bits per second.
    pub(super) fn bottleneck_rates(&self) -> impl Iterator<Item = (usize, u64)> {
        self.bottlenecks.iter().copied().zip(self.links().map(|link| link.rate.bits()))
    }

    /// Returns the queue of the first bottleneck in bytes.
    pub(super) fn queue(&self) -> u64 {
        self.links().next().map_or(0, |link| link.queue)
    }

    /// Returns whether the bottleneck loses packets at random.
    pub(super) fn loses(&self) -> bool {
        self.links().any(|link| link.loss_percent > 0)
    }

    /// Returns whether the bottleneck marks packets.
    pub(super) fn marks(&self) -> bool {
        self.links().any(|link| link.mark.is_some())
    }
}

/// A port of a switch to which all hosts of a network are attached. Each direction takes half of
/// the round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwitchPort {
    pub(super) mbit_s: u64,
    pub(super) rtt: Duration,
    pub(super) queue: Queue,
    /// Number of bytes above which its queue marks.
    pub(super) mark: Option<u64>,
    /// Whether packets overtake each other behind it.
    pub(super) reordering: Reordering,
    /// Percentage of packets that are lost at random behind it.
    pub(super) loss_percent: u32,
}

/// The length of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    /// Percent of the product of rate and round trip (BDP).
    Product(u64),
    Bytes(u64),
}

impl SwitchPort {
    pub(super) fn new(mbit_s: u64, rtt_ms: u64, queue: Queue) -> Self {
        let (rtt, reordering) = (Duration::from_millis(rtt_ms), Reordering::None);
        SwitchPort { mbit_s, rtt, queue, mark: None, reordering, loss_percent: 0 }
    }

    pub(super) fn link(self) -> Link {
        let rate = Rate::from_bits(self.mbit_s * 1_000_000);
        let product = u128::from(rate.bits()) * self.rtt.as_nanos() / 8_000_000_000;
        let queue = match self.queue {
            Queue::Product(percent) => product as u64 * percent / 100,
            Queue::Bytes(bytes) => bytes,
        };
        let queue = queue.max(SHORTEST_QUEUE);
        let SwitchPort { mark, reordering, loss_percent, .. } = self;
        Link { rate, queue, delay: self.rtt / 2, mark, reordering, loss_percent }
    }
}

impl std::fmt::Display for SwitchPort {
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
        if self.loss_percent > 0 {
            write!(f, ", {} % lost at random", self.loss_percent)?;
        }
        self.mark.map_or(Ok(()), |mark| write!(f, ", marks from {} KB", mark / 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_one_product_holds_a_round_trip() {
        let port = SwitchPort::new(200, 20, Queue::Product(100));
        let link = port.link();
        assert_eq!((link.queue, link.delay), (500_000, Duration::from_millis(10)));
        assert_eq!(port.to_string(), "200 Mbit/s, 20 ms, 1 BDP");
        let port = SwitchPort { mark: Some(50_000), ..SwitchPort::new(10, 20, Queue::Product(10)) };
        assert_eq!(port.link().queue, SHORTEST_QUEUE);
        assert_eq!(port.to_string(), "10 Mbit/s, 20 ms, 0.1 BDP, marks from 50 KB");
        let lossy = SwitchPort { loss_percent: 5, ..SwitchPort::new(10, 20, Queue::Product(100)) };
        assert_eq!(lossy.link().loss_percent, 5);
        assert_eq!(lossy.to_string(), "10 Mbit/s, 20 ms, 1 BDP, 5 % lost at random");
        let reordering = Reordering::Jitter(Duration::from_millis(5));
        let port = SwitchPort { reordering, ..SwitchPort::new(10, 20, Queue::Bytes(250_000)) };
        assert_eq!(port.link().reordering, reordering);
        assert_eq!(port.to_string(), "10 Mbit/s, 20 ms, 250 KB, each way give or take 5 ms");
    }
}
