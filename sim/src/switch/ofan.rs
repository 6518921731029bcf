//! OFAN: destination rotation in the switch (OFAN, section 7). An edge switch rotates over its
//! uplinks with a pointer per destination edge, an aggregation switch with one per destination pod.
//! Data and control have separate pointers. Each starts at a random port in a random order.
//!
//! If failures leave unequal routes, a port occurs as often as it is offered: an interleaved
//! weighted round robin (OFAN, appendix F.4).
//!
//! The two variants of that appendix are options: pointers that start at the shortest queue and
//! take the ports in their own order, and ports that all have one turn.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::offer::{Offer, pick_lowest};
use super::port_policy::{PortPolicy, PortRng};
use crate::topology::PortId;

#[derive(Clone, Debug)]
pub(crate) struct Ofan {
    by_edge: bool,
    from_shortest: bool,
    weighted: bool,
    /// Two pointers by destination edge or pod, for data and for control, created on first use.
    pointers: Vec<Option<WeightedPointer>>,
}

#[derive(Clone, Debug)]
struct WeightedPointer {
    schedule: Vec<PortId>,
    at: usize,
}

impl Ofan {
    /// Creates the state of a switch; `by_edge`: it is an edge switch.
    pub(crate) fn new(by_edge: bool, from_shortest: bool, weighted: bool) -> Self {
        Ofan { by_edge, from_shortest, weighted, pointers: Vec::new() }
    }
}

impl PortPolicy for Ofan {
    fn choose(&mut self, offer: &Offer<'_>, rng: &mut PortRng) -> PortId {
        let edge = offer.topology.nics[offer.packet.dst as usize].edge;
        let target = match self.by_edge {
            true => edge,
            false => offer.topology.switches[edge as usize].pod,
        };
        let at = 2 * target as usize + offer.packet.class as usize;
        if at >= self.pointers.len() {
            self.pointers.resize(at + 1, None);
        }
        let rng = &mut rng.0;
        let Ofan { from_shortest, weighted, .. } = *self;
        let start = || match (weighted, from_shortest) {
            (true, false) => WeightedPointer::new(offer.ports, rng),
            (false, false) => WeightedPointer::new(&once(offer.ports), rng),
            (_, true) => WeightedPointer::from_shortest(offer, weighted, rng),
        };
        self.pointers[at].get_or_insert_with(start).next(offer.ports)
    }

    fn on_routes_changed(&mut self) {
        self.pointers.clear();
    }
}

impl WeightedPointer {
    fn new(ports: &[PortId], rng: &mut Pcg64Mcg) -> Self {
        let schedule = schedule(ports, rng);
        WeightedPointer { at: rng.random_range(0..schedule.len()), schedule }
    }

    /// Returns a pointer whose first turn is the port with the shortest queue, in the order of the
    /// ports.
    fn from_shortest(offer: &Offer<'_>, weighted: bool, rng: &mut Pcg64Mcg) -> Self {
        let mut order = once(offer.ports);
        let shortest = pick_lowest(&order, |port| offer.queued(port), rng);
        let first = order.iter().position(|port| *port == shortest).unwrap_or(0);
        order.rotate_left(first);
        let schedule = if weighted { interleaved(offer.ports, &order) } else { order };
        WeightedPointer { at: schedule.len() - 1, schedule }
    }

    /// Returns the next port that is on a route. Another edge of the same pod may be reachable by
    /// fewer ports than the schedule has. If it is reachable by none of them, the choice is one of
    /// the offered ports.
    fn next(&mut self, ports: &[PortId]) -> PortId {
        for _ in 0..self.schedule.len() {
            self.at = (self.at + 1) % self.schedule.len();
            let port = self.schedule[self.at];
            if ports.contains(&port) {
                return port;
            }
        }
        ports[self.at % ports.len()]
    }
}

/// Returns the ports in a random order, interleaved by the number of times that they are offered.
fn schedule(ports: &[PortId], rng: &mut Pcg64Mcg) -> Vec<PortId> {
    let mut order = once(ports);
    order.shuffle(rng);
    interleaved(ports, &order)
}

/// Returns each port once, in their own order.
fn once(ports: &[PortId]) -> Vec<PortId> {
    let mut order = ports.to_vec();
    order.sort_unstable();
    order.dedup();
    order
}

/// Returns rounds over the ports in this order. Each round has the ports that are not used up.
fn interleaved(ports: &[PortId], order: &[PortId]) -> Vec<PortId> {
    let weight = |port: &PortId| ports.iter().filter(|other| *other == port).count();
    let rounds = order.iter().map(weight).max().unwrap_or(0);
    let round = |round| order.iter().copied().filter(move |port| weight(port) > round);
    (0..rounds).flat_map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::super::trial::Trial;
    use super::*;
    use crate::packet::Class::{Control, Data};

    struct Edge {
        trial: Trial,
        ofan: Ofan,
        rng: PortRng,
    }

    impl Edge {
        fn new(seed: u64) -> Edge {
            let rng = PortRng::from_seed(seed);
            Edge { trial: Trial::new(), ofan: Ofan::new(true, false, true), rng }
        }

        fn next(&mut self, dst: u32, class: crate::packet::Class) -> PortId {
            let Edge { trial, ofan, rng } = self;
            trial.offer(dst, class, |offer| ofan.choose(offer, rng))
        }
    }

    /// Hosts 124 to 127 are below one edge switch, hosts 120 to 123 below another.
    #[test]
    fn all_hosts_of_an_edge_share_a_turn_and_no_others() {
        let mut edge = Edge::new(1);
        let alone: Vec<PortId> = (0..8).map(|_| edge.next(124, Data)).collect();
        let mut mixed = Vec::new();
        let mut edge = Edge::new(1);
        for dst in [124, 125, 126, 127, 127, 124, 124, 125] {
            mixed.push(edge.next(dst, Data));
            edge.next(120, Data);
            edge.next(124, Control);
        }
        assert_eq!(alone, mixed);
    }

    #[test]
    fn every_round_takes_every_port_once() {
        let mut edge = Edge::new(2);
        for _ in 0..5 {
            let mut round: Vec<PortId> = (0..4).map(|_| edge.next(60, Data)).collect();
            round.sort_unstable();
            assert_eq!(round, edge.trial.uplinks());
        }
    }

    #[test]
    fn turns_start_at_random_ports_in_random_orders() {
        let mut orders: Vec<Vec<PortId>> = (0..40)
            .map(|seed| {
                let mut edge = Edge::new(seed);
                (0..4).map(|_| edge.next(60, Data)).collect()
            })
            .collect();
        orders.sort_unstable();
        orders.dedup();
        assert!(orders.len() > 12, "{} of 24 orders in 40 draws", orders.len());
    }

    /// The paper's example: weights 2, 2, 2, 1 (appendix F.4).
    #[test]
    fn weights_are_interleaved() {
        let [a, b, c, d] = [2, 4, 6, 8].map(PortId);
        let drawn = schedule(&[a, b, c, d, a, b, c], &mut PortRng::from_seed(4).0);
        assert_eq!(drawn.len(), 7);
        let mut first = drawn[..4].to_vec();
        assert_eq!(
            first.iter().filter(|port| **port != d).copied().collect::<Vec<_>>(),
            drawn[4..]
        );
        first.sort_unstable();
        assert_eq!(first, [a, b, c, d]);
    }

    #[test]
    fn a_pointer_can_start_at_the_shortest_queue_and_keep_the_order() {
        let mut edge = Edge::new(3);
        edge.ofan = Ofan::new(true, true, true);
        let uplinks = edge.trial.uplinks();
        for (port, bytes) in uplinks.iter().zip([500, 300, 100, 200]) {
            edge.trial.queues[port.index()].bytes = bytes;
        }
        let turns: Vec<PortId> = (0..5).map(|_| edge.next(60, Data)).collect();
        assert_eq!(turns, [2, 3, 0, 1, 2].map(|at: usize| uplinks[at]));
    }

    /// Three routes lead by one port and one by another.
    #[test]
    fn without_weights_each_port_has_one_turn() {
        let [a, b] = [2, 4].map(PortId);
        let ports = [a, b, a, a];
        let mut rng = PortRng::from_seed(5);
        assert_eq!(WeightedPointer::new(&ports, &mut rng.0).schedule.len(), 4);
        assert_eq!(WeightedPointer::new(&once(&ports), &mut rng.0).schedule.len(), 2);
    }

    #[test]
    fn a_port_that_does_not_lead_on_is_passed_over() {
        let [a, b, c] = [2, 4, 6].map(PortId);
        let mut pointer = WeightedPointer { schedule: vec![a, b, c], at: 0 };
        assert_eq!([(); 4].map(|()| pointer.next(&[a, c])), [c, a, c, a]);
        assert_eq!(pointer.next(&[PortId(8)]), PortId(8));
    }
}
