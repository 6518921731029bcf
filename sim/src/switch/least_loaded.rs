//! Adaptive routing as in switch chips: a random port among those of the best grade. Grades are
//! updated at fixed intervals (PRO, section VI: "link load and queue length updated every 1 us").
//!
//! The grading of ports in chips is not public. Here the queue counts first, then the load since
//! the last reading, both in eight grades as in such chips. A grade of queue is the length that
//! drains in an interval; a grade of load is an eighth of the link.

use super::offer::{Offer, pick_lowest};
use super::port_policy::{PortPolicy, PortRng};
use crate::port::Port;
use crate::time::Ps;
use crate::topology::{PortId, Topology};

const GRADES: u64 = 8;

#[derive(Clone, Debug)]
pub(crate) struct LeastLoaded {
    every: Ps,
    looked: Ps,
    /// The uplinks of the switch, sorted.
    ports: Vec<Seen>,
}

/// A port at its last reading.
#[derive(Clone, Copy, Debug)]
struct Seen {
    port: PortId,
    /// The grade; lower is better.
    quality: u64,
    busy_time: Ps,
}

impl LeastLoaded {
    pub(crate) fn new(topology: &Topology, switch: u32, every: Ps) -> Self {
        let mut ports: Vec<Seen> = topology
            .uplinks(switch)
            .map(|port| Seen { port, quality: 0, busy_time: Ps::ZERO })
            .collect();
        ports.sort_unstable_by_key(|seen| seen.port);
        LeastLoaded { every, looked: Ps::ZERO, ports }
    }
}

impl PortPolicy for LeastLoaded {
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
        let elapsed = offer.now.since(self.looked);
        if elapsed >= self.every {
            self.looked = offer.now;
            for seen in &mut self.ports {
                seen.look(&offer.queues[seen.port.index()], elapsed, self.every);
            }
        }
        let ports = &self.ports;
        let quality = |port: PortId| {
            let at = ports.binary_search_by_key(&port, |seen| seen.port);
            at.map_or(0, |at| ports[at].quality)
        };
        pick_lowest(offer.ports, quality, &mut rng.0)
    }
}

impl Seen {
    fn look(&mut self, port: &Port, elapsed: Ps, every: Ps) {
        let drains_in = u128::from(port.bytes) * 8_000_000_000_000 / u128::from(port.rate.bps());
        let queue = (drains_in / u128::from(every.0.max(1))).min(u128::from(GRADES - 1)) as u64;
        let busy = port.busy_time - self.busy_time;
        let load = (GRADES * busy.0 / elapsed.0.max(1)).min(GRADES - 1);
        self.busy_time = port.busy_time;
        self.quality = queue * GRADES + load;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Class, Packet};
    use crate::port::Speeds;
    use crate::time::Rate;
    use crate::topology::LeafSpine;

    const EVERY: Ps = Ps::from_micros(1);

    fn topology() -> Topology {
        let plan = LeafSpine::k_ary(8, Rate::from_gbps(200), EVERY).unwrap();
        plan.build().unwrap()
    }

    /// Returns the ports that the policy chooses 100 times at one instant.
    fn chosen(
        policy: &mut LeastLoaded,
        queues: &[Port],
        topology: &Topology,
        now: Ps,
    ) -> Vec<PortId> {
        let packet = Packet::new(0, 31, 0, Class::Data, 1000);
        let ports: Vec<PortId> = topology.uplinks(0).collect();
        let offer = Offer { now, switch: 0, packet: &packet, ports: &ports, queues, topology };
        let mut rng = PortRng::from_seed(1);
        let mut chosen: Vec<PortId> = (0..100).map(|_| policy.choose(&offer, &mut rng)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    #[test]
    fn a_queue_is_noticed_an_interval_later_and_counts_before_load() {
        let topology = topology();
        let mut queues = Port::all(&topology, &mut Speeds::default());
        let mut policy = LeastLoaded::new(&topology, 0, EVERY);
        let all = chosen(&mut policy, &queues, &topology, Ps::ZERO);
        assert_eq!(all.len(), 4);

        // 25 KB drain in a microsecond at 200 Gb/s: 24 KB have grade 0 and 26 KB have grade 1.
        queues[all[0].index()].bytes = 26_000;
        queues[all[1].index()].bytes = 24_000;
        queues[all[2].index()].busy_time = Ps::from_nanos(500);
        let before = EVERY - Ps(1);
        assert_eq!(chosen(&mut policy, &queues, &topology, before), all, "it has not looked yet");
        assert_eq!(chosen(&mut policy, &queues, &topology, EVERY), [all[1], all[3]]);

        // No packet was sent since, so only the long queue still counts.
        assert_eq!(chosen(&mut policy, &queues, &topology, EVERY * 2), all[1..]);
    }
}
