//! Topologies: the wiring of a fabric, and its routes.

mod check;
mod equal_cost;
mod error;
mod fat_tree;
mod leaf_spine;
mod rail_optimised;
mod routes;

pub use equal_cost::{EqualCostRoutes, Uplinks};
pub use error::TopologyError;
pub use fat_tree::FatTree;
pub use leaf_spine::LeafSpine;
pub use rail_optimised::RailOptimised;
pub use routes::Routes;

use crate::time::{Ps, Rate};

/// The distance of a node from the hosts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// A host's network interface.
    Host,
    /// A switch with hosts below: edge, ToR, leaf, rail switch.
    Edge,
    /// A switch above the edges: aggregation, spine.
    Agg,
    /// A switch of the third tier.
    Core,
}

/// A node with ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// A network interface of a host, with one port.
    Nic(u32),
    /// A switch.
    Switch(u32),
}

/// A network interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NicSpec {
    /// The host of the interface.
    pub host: u32,
    /// The number of the interface within its host, from 0.
    pub rail: u32,
    /// The switch at the other end of its cable.
    pub edge: u32,
}

/// A switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchSpec {
    /// The tier of the switch.
    pub tier: Tier,
    /// The pod of the switch; `u32::MAX` in the last tier.
    pub pod: u32,
}

/// A cable: a link in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cable {
    /// The end nearer to the hosts.
    pub low: Node,
    /// The end farther from the hosts.
    pub high: Node,
    /// Speed from the low end to the high one.
    pub up: Rate,
    /// Speed from the high end to the low one.
    pub down: Rate,
    /// Propagation delay.
    pub delay: Ps,
}

/// The pod of switches in the last tier, which belong to none.
const TOP_POD: u32 = u32::MAX;

/// The plan of a fabric, made by [`LeafSpine`], [`FatTree`] or [`RailOptimised`].
///
/// The ports of switch `s` are in the order in which cables name it. Policies that rotate over
/// ports use this order. Cable `c` has the directed ports `2c` (from its low end up) and `2c + 1`
/// (down).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// The interfaces, by number. If each host has one interface, the number is that of the host.
    pub nics: Vec<NicSpec>,
    /// The switches, by number, those of the lowest tier first.
    pub switches: Vec<SwitchSpec>,
    /// The cables, by number.
    pub cables: Vec<Cable>,
}

/// One direction of a cable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u32);

impl PortId {
    /// Returns both directions of a cable: up and down.
    pub const fn of_cable(cable: u32) -> [PortId; 2] {
        [PortId(2 * cable), PortId(2 * cable + 1)]
    }

    /// Returns the other direction of the same cable.
    pub const fn reverse(self) -> PortId {
        PortId(self.0 ^ 1)
    }

    /// Returns the number of the cable.
    pub const fn cable(self) -> usize {
        (self.0 / 2) as usize
    }

    /// Returns whether the port leads away from the hosts.
    pub const fn is_up(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Returns the index of the port in tables with an entry per port.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// All links between two tiers in one direction. Their queues are at `from`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Layer {
    /// The tier of the sending side.
    pub from: Tier,
    /// The tier of the receiving side.
    pub to: Tier,
}

impl Topology {
    /// Returns the number of hosts.
    pub fn hosts(&self) -> u32 {
        self.nics.iter().map(|nic| nic.host + 1).max().unwrap_or(0)
    }

    /// Returns the sending and the receiving node of a port.
    pub fn ends(&self, port: PortId) -> (Node, Node) {
        let cable = &self.cables[port.cable()];
        match port.is_up() {
            true => (cable.low, cable.high),
            false => (cable.high, cable.low),
        }
    }

    /// Returns the tier of a node.
    pub fn tier(&self, node: Node) -> Tier {
        match node {
            Node::Nic(_) => Tier::Host,
            Node::Switch(switch) => self.switches[switch as usize].tier,
        }
    }

    /// Returns the layer of a port.
    pub fn layer(&self, port: PortId) -> Layer {
        let (from, to) = self.ends(port);
        Layer { from: self.tier(from), to: self.tier(to) }
    }

    /// Returns the ports of a node, in the order of its cables.
    pub fn ports_of(&self, node: Node) -> impl Iterator<Item = PortId> + '_ {
        let cables = self.cables.iter().zip(0_u32..);
        cables.filter_map(move |(cable, index)| match () {
            () if cable.low == node => Some(PortId(2 * index)),
            () if cable.high == node => Some(PortId(2 * index + 1)),
            () => None,
        })
    }

    /// Returns the highest tier on a shortest route between two interfaces.
    pub fn meeting_tier(&self, src: u32, dst: u32) -> Tier {
        let (a, b) = (self.nics[src as usize].edge, self.nics[dst as usize].edge);
        let pod = |edge: u32| self.switches[edge as usize].pod;
        match () {
            () if a == b => Tier::Edge,
            () if pod(a) == pod(b) => Tier::Agg,
            () => Tier::Core,
        }
    }

    /// Returns the port of each interface, by its number.
    ///
    /// # Panics
    /// Panics if a cable names an interface that does not exist.
    pub fn nic_ports(&self) -> Vec<PortId> {
        let mut ports = vec![PortId(u32::MAX); self.nics.len()];
        for (cable, index) in self.cables.iter().zip(0..) {
            if let Node::Nic(nic) = cable.low {
                ports[nic as usize] = PortId::of_cable(index)[0];
            }
        }
        ports
    }

    /// Returns the ports of a node that lead to another node, in the order of its cables.
    pub fn ports_between(&self, from: Node, to: Node) -> impl Iterator<Item = PortId> + '_ {
        self.ports_of(from).filter(move |port| self.ends(*port).1 == to)
    }

    /// Returns the speed of one direction of a cable.
    pub fn rate(&self, port: PortId) -> Rate {
        let cable = &self.cables[port.cable()];
        if port.is_up() { cable.up } else { cable.down }
    }

    /// Sets the speed of one direction of a cable.
    pub fn set_port_rate(&mut self, port: PortId, rate: Rate) {
        let cable = &mut self.cables[port.cable()];
        match port.is_up() {
            true => cable.up = rate,
            false => cable.down = rate,
        }
    }

    /// Sets the speed of all cables between two neighbours, in both directions.
    ///
    /// # Errors
    /// No cable leads from `low` up to `high`.
    pub fn set_rate(&mut self, low: Node, high: Node, rate: Rate) -> Result<(), TopologyError> {
        let up: Vec<PortId> = self.ports_between(low, high).filter(|port| port.is_up()).collect();
        if up.is_empty() {
            return Err(TopologyError::NoCable { low, high });
        }
        for port in up {
            self.set_port_rate(port, rate);
            self.set_port_rate(port.reverse(), rate);
        }
        Ok(())
    }

    /// Returns the highest oversubscription of a switch in either direction, at least 1. It is the
    /// rate of its links to the hosts over that of its links away from them, rounded up.
    pub fn oversubscription(&self) -> u32 {
        // By switch: the rates of its links below and above it, each up and down.
        let mut rates = vec![[[0_u64; 2]; 2]; self.switches.len()];
        for cable in &self.cables {
            for (node, side) in [(cable.high, 0), (cable.low, 1)] {
                if let Node::Switch(switch) = node {
                    let [up, down] = &mut rates[switch as usize][side];
                    *up += cable.up.bps();
                    *down += cable.down.bps();
                }
            }
        }
        let ratio = |below: u64, above: u64| if above == 0 { 1 } else { below.div_ceil(above) };
        let of = |[below, above]: [[u64; 2]; 2]| {
            ratio(below[0], above[0]).max(ratio(below[1], above[1]))
        };
        let highest = rates.into_iter().map(of).max().unwrap_or(1).max(1);
        u32::try_from(highest).unwrap_or(u32::MAX)
    }

    fn add_switches(&mut self, count: u32, spec: impl Fn(u32) -> SwitchSpec) {
        self.switches.extend((0..count).map(spec));
    }

    fn add_nic(&mut self, host: u32, rail: u32, edge: u32, rate: Rate, delay: Ps) {
        let nic = self.nics.len() as u32;
        self.nics.push(NicSpec { host, rail, edge });
        self.add_cable(Node::Nic(nic), Node::Switch(edge), rate, delay);
    }

    fn add_cable(&mut self, low: Node, high: Node, rate: Rate, delay: Ps) {
        self.cables.push(Cable { low, high, up: rate, down: rate, delay });
    }
}
