//! Open load: messages of random sizes that start at random times, whatever the network does.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::error::{WorkloadError, possible_count};
use super::message::{Message, Start, Workload};
use super::permutation::Pairs;
use super::sizes::Sizes;
use crate::time::Ps;
use crate::topology::{PortId, Topology};

/// The queue pairs of messages with the same source and destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueuePairs {
    /// They share one, as RDMA applications do, and keep their order.
    PerPair,
    /// Each message has its own, like a flow of TCP.
    PerMessage,
}

/// Messages that start as a Poisson process at each interface.
#[derive(Clone, PartialEq, Debug)]
pub struct Poisson {
    /// Payload that an interface starts on average, as a share of its link's rate.
    pub load: f64,
    /// The sizes.
    pub sizes: Sizes,
    /// No message starts later.
    pub duration: Ps,
    /// The allowed pairs of sender and receiver.
    pub pairs: Pairs,
    /// The queue pairs.
    pub queue_pairs: QueuePairs,
}

impl Poisson {
    /// Returns the messages, by start. Each destination is drawn from all allowed ones, in
    /// proportion to the rate of its link.
    ///
    /// # Errors
    /// The messages are too many, none starts in time, or an interface has no allowed destination.
    pub fn workload(&self, topology: &Topology, seed: u64) -> Result<Workload, WorkloadError> {
        let bps = |port: PortId| topology.rate(port).bps() as f64;
        let rates: Vec<f64> = topology.nic_ports().into_iter().map(bps).collect();
        let expected = self.expected(&rates);
        possible_count(expected as u64)?;
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let choose = Destinations::new(topology, &rates, self.pairs)?;
        let mut arrivals = Vec::with_capacity(expected as usize);
        for (src, rate) in (0..).zip(&rates) {
            let pause = self.pause(*rate);
            let mut at = exponential(pause, &mut rng);
            while at <= self.duration {
                let dst = choose.draw(src, &mut rng);
                let bytes = self.sizes.draw(&mut rng);
                arrivals.push((at, Message::at_once(src, dst, bytes, 0)));
                at += exponential(pause, &mut rng);
            }
        }
        possible_count(arrivals.len() as u64)?;
        if arrivals.is_empty() {
            return Err(WorkloadError::NoArrival { expected: format!("{expected:.3}") });
        }
        arrivals.sort_by_key(|(at, message)| (*at, message.src));
        let message = |(number, (at, message)): (u32, (Ps, Message))| {
            let queue = match self.queue_pairs {
                QueuePairs::PerPair => 0,
                QueuePairs::PerMessage => number,
            };
            Message { start: Start::At(at), queue, ..message }
        };
        let messages: Vec<Message> = (0..).zip(arrivals).map(message).collect();
        Ok(Workload::from(messages))
    }

    /// Returns the mean time in seconds between two messages of an interface.
    fn pause(&self, bits_per_second: f64) -> f64 {
        self.sizes.mean() * 8.0 / (self.load * bits_per_second)
    }

    /// Returns the mean number of messages.
    fn expected(&self, rates: &[f64]) -> f64 {
        rates.iter().map(|rate| self.duration.as_secs_f64() / self.pause(*rate)).sum()
    }
}

/// Draws a time between two arrivals of a Poisson process, from its mean in seconds.
fn exponential(mean: f64, rng: &mut Pcg64Mcg) -> Ps {
    let share: f64 = rng.random();
    Ps((-(1.0 - share).ln() * mean * 1e12) as u64)
}

/// The interfaces as destinations: the sum of the rates up to each.
struct Destinations {
    /// The place of each interface. Messages leave the place of their source.
    places: Vec<u32>,
    up_to: Vec<f64>,
}

impl Destinations {
    fn new(
        topology: &Topology,
        rates: &[f64],
        pairs: Pairs,
    ) -> Result<Destinations, WorkloadError> {
        let places = pairs.places(topology);
        if places.windows(2).all(|pair| pair[0] == pair[1]) {
            return Err(WorkloadError::NoDestination { node: 0 });
        }
        let mut sum = 0.0;
        let mut add = |rate: &f64| {
            sum += rate;
            sum
        };
        Ok(Destinations { places, up_to: rates.iter().map(&mut add).collect() })
    }

    fn draw(&self, src: u32, rng: &mut Pcg64Mcg) -> u32 {
        let place = self.places[src as usize];
        let all = self.up_to.last().copied().unwrap_or_default();
        loop {
            let at = rng.random::<f64>() * all;
            let drawn = self.up_to.partition_point(|sum| *sum <= at).min(self.places.len() - 1);
            if self.places[drawn] != place {
                return drawn as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Rate;
    use crate::topology::{FatTree, LeafSpine, Node};

    fn fat_tree() -> Topology {
        FatTree::k_ary(4, Rate::from_gbps(100), Ps::ZERO).unwrap().build().unwrap()
    }

    fn load() -> Poisson {
        Poisson {
            load: 0.5,
            sizes: Sizes::parse("1000,50\n9000,100").unwrap(),
            duration: Ps::from_micros(1000),
            pairs: Pairs::Any,
            queue_pairs: QueuePairs::PerPair,
        }
    }

    fn starts(workload: &Workload) -> Vec<Ps> {
        let start = |message: &Message| match message.start {
            Start::At(at) => at,
            Start::After(_) => panic!("{message:?}"),
        };
        workload.messages.iter().map(start).collect()
    }

    #[test]
    fn the_load_is_the_requested_share_of_the_links() {
        let workload = load().workload(&fat_tree(), 1).unwrap();
        workload.check(16).unwrap();
        let bytes: u64 = workload.messages.iter().map(|message| message.bytes).sum();
        // 16 links of 100 Gb/s for 1 ms are 200 MB.
        let share = bytes as f64 / 200e6;
        assert!((0.47..0.53).contains(&share), "{share}");
        let starts = starts(&workload);
        assert!(starts.is_sorted() && starts[starts.len() - 1] <= Ps::from_micros(1000));
        assert_ne!(workload, load().workload(&fat_tree(), 2).unwrap());
        assert_eq!(workload, load().workload(&fat_tree(), 1).unwrap());
    }

    /// The times between arrivals of a Poisson process have a standard deviation equal to their
    /// mean.
    #[test]
    fn arrivals_are_a_poisson_process() {
        let workload = load().workload(&fat_tree(), 3).unwrap();
        let starts = starts(&workload);
        let between: Vec<f64> =
            starts.windows(2).map(|pair| pair[1].since(pair[0]).as_micros_f64()).collect();
        let mean = between.iter().sum::<f64>() / between.len() as f64;
        let square = |gap: &f64| (gap - mean).powi(2);
        let deviation = (between.iter().map(square).sum::<f64>() / between.len() as f64).sqrt();
        assert!((0.9..1.1).contains(&(deviation / mean)), "{deviation} of {mean}");
    }

    #[test]
    fn faster_interfaces_send_and_receive_more() {
        let mut topology = fat_tree();
        for cable in &mut topology.cables {
            if cable.low == Node::Nic(0) {
                (cable.up, cable.down) = (Rate::from_gbps(400), Rate::from_gbps(400));
            }
        }
        let workload = load().workload(&topology, 1).unwrap();
        let count = |is: fn(&Message) -> u32, nic: u32| {
            workload.messages.iter().filter(|message| is(message) == nic).count() as f64
        };
        let sent = count(|message| message.src, 0) / count(|message| message.src, 1);
        let received = count(|message| message.dst, 0) / count(|message| message.dst, 1);
        assert!((3.5..4.5).contains(&sent), "{sent}");
        assert!((3.2..4.5).contains(&received), "{received}");
    }

    #[test]
    fn pairs_and_queue_pairs_are_as_requested() {
        let topology = fat_tree();
        let plan =
            Poisson { pairs: Pairs::InterPod, queue_pairs: QueuePairs::PerMessage, ..load() };
        let workload = plan.workload(&topology, 1).unwrap();
        assert!(workload.messages.iter().all(|message| message.src / 4 != message.dst / 4));
        assert!(workload.messages.iter().zip(0..).all(|(message, number)| message.queue == number));
    }

    #[test]
    fn impossible_loads_are_refused() {
        let plan = LeafSpine::k_ary(4, Rate::from_gbps(100), Ps::ZERO).unwrap();
        let one_pod = plan.build().unwrap();
        let error = |plan: Poisson| plan.workload(&one_pod, 1).unwrap_err().to_string();
        let inter_pod = Poisson { pairs: Pairs::InterPod, ..load() };
        assert!(error(inter_pod).contains("node 0 may send to nobody"));
        let long = Poisson { duration: Ps::from_micros(3_600_000_000), ..load() };
        assert!(error(long).contains("messages are too many"));
        let short = Poisson { duration: Ps(1), ..load() };
        assert!(error(short).contains("no message starts"));
    }
}
