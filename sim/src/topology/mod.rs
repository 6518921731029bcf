//! What is wired to what, and which routes lead where.

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

/// How far from the hosts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// A host's network interface.
    Host,
    /// A switch with hosts below it: edge, ToR, leaf, rail switch.
    Edge,
    /// A switch above those: aggregation, spine.
    Agg,
    /// The third tier.
    Core,
}

/// Something with ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// A network interface of a host; it has one port.
    Nic(u32),
    /// A switch.
    Switch(u32),
}

/// A network interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NicSpec {
    /// The host it is in.
    pub host: u32,
    /// Which of the host's it is, from 0.
    pub rail: u32,
    /// The switch it is wired to.
    pub edge: u32,
}

/// A switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchSpec {
    /// Its tier.
    pub tier: Tier,
    /// Its pod; switches of the last tier are in pod `u32::MAX`.
    pub pod: u32,
}

/// A cable: a link in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cable {
    /// The end nearer to the hosts.
    pub low: Node,
    /// The end farther from them.
    pub high: Node,
    /// Speed from the low end to the high one.
    pub up: Rate,
    /// Speed from the high end to the low one.
    pub down: Rate,
    /// How long a bit is under way.
    pub delay: Ps,
}

/// The pod of the switches that are in none: those of the last tier.
const TOP_POD: u32 = u32::MAX;

/// A fabric's plan; [`LeafSpine`], [`FatTree`] and [`RailOptimised`] make them.
///
/// Switch `s` has its ports in the order in which cables name it: a policy that goes "port by port"
/// means this order. Cable `c` has the directed ports `2c` (from its low end up) and `2c + 1` (down).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Topology {
    /// By number; for hosts with one interface each, the number is the host's.
    pub nics: Vec<NicSpec>,
    /// By number: all of the lowest tier first.
    pub switches: Vec<SwitchSpec>,
    /// By number.
    pub cables: Vec<Cable>,
}

/// One direction of a cable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u32);

impl PortId {
    /// The other direction of the same cable.
    pub const fn reverse(self) -> PortId {
        PortId(self.0 ^ 1)
    }

    /// The cable.
    pub const fn cable(self) -> usize {
        (self.0 / 2) as usize
    }

    /// Whether it leads away from the hosts.
    pub const fn is_up(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Its place in what is kept for each port.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The links of one kind, by the tiers that they join; `from` is where its queues are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Layer {
    /// The sending side's tier.
    pub from: Tier,
    /// The receiving side's.
    pub to: Tier,
}

impl Topology {
    /// Hosts.
    pub fn hosts(&self) -> u32 {
        self.nics.iter().map(|nic| nic.host + 1).max().unwrap_or(0)
    }

    /// Where a port sends from and to.
    pub fn ends(&self, port: PortId) -> (Node, Node) {
        let cable = &self.cables[port.cable()];
        match port.is_up() {
            true => (cable.low, cable.high),
            false => (cable.high, cable.low),
        }
    }

    /// A node's tier.
    pub fn tier(&self, node: Node) -> Tier {
        match node {
            Node::Nic(_) => Tier::Host,
            Node::Switch(switch) => self.switches[switch as usize].tier,
        }
    }

    /// A port's layer.
    pub fn layer(&self, port: PortId) -> Layer {
        let (from, to) = self.ends(port);
        Layer { from: self.tier(from), to: self.tier(to) }
    }

    /// The ports by which a node sends, in the order of its cables.
    pub fn ports_of(&self, node: Node) -> impl Iterator<Item = PortId> + '_ {
        let cables = self.cables.iter().zip(0_u32..);
        cables.filter_map(move |(cable, index)| match () {
            () if cable.low == node => Some(PortId(2 * index)),
            () if cable.high == node => Some(PortId(2 * index + 1)),
            () => None,
        })
    }

    /// The highest tier that a shortest route between two interfaces climbs to.
    pub fn meeting_tier(&self, src: u32, dst: u32) -> Tier {
        let (a, b) = (self.nics[src as usize].edge, self.nics[dst as usize].edge);
        let pod = |edge: u32| self.switches[edge as usize].pod;
        match () {
            () if a == b => Tier::Edge,
            () if pod(a) == pod(b) => Tier::Agg,
            () => Tier::Core,
        }
    }

    /// The ports by which a node sends straight to another, in the order of its cables.
    pub fn ports_between(&self, from: Node, to: Node) -> impl Iterator<Item = PortId> + '_ {
        self.ports_of(from).filter(move |port| self.ends(*port).1 == to)
    }

    /// Speed of one direction of a cable.
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
    /// There is no cable from `low` up to `high`.
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
