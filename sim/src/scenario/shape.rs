//! `[topology]`: the wiring of the fabric.

use serde::Deserialize;
use toml::Spanned;

use super::error::Refusal;
use super::quantity::Parsed;
use crate::time::{Ps, Rate};
use crate::topology::{FatTree, LeafSpine, RailOptimised, Topology, TopologyError};

/// Maximum number of interfaces, which bounds the memory of a run.
const MOST_INTERFACES: u64 = 1 << 16;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum TopologyKeys {
    FatTree(FatTreeKeys),
    Pods(PodsKeys),
    LeafSpine(LeafSpineKeys),
    RailOptimised(RailKeys),
}

/// A k-ary fat tree: switches of `k` ports with as much bandwidth up as down.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FatTreeKeys {
    k: u32,
    #[serde(default = "three")]
    tiers: u32,
    rate: Parsed<Rate>,
    delay: Parsed<Ps>,
}

fn three() -> u32 {
    3
}

/// A three-tier fabric of any other shape.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PodsKeys {
    pods: u32,
    edges_per_pod: u32,
    aggs_per_pod: u32,
    cores: u32,
    hosts_per_edge: u32,
    rate: Parsed<Rate>,
    fabric_rate: Option<Parsed<Rate>>,
    delay: Parsed<Ps>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeafSpineKeys {
    leaves: u32,
    hosts_per_leaf: u32,
    spines: u32,
    #[serde(default = "one")]
    links_per_spine: u32,
    rate: Parsed<Rate>,
    fabric_rate: Option<Parsed<Rate>>,
    delay: Parsed<Ps>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RailKeys {
    hosts: u32,
    rails: u32,
    hosts_per_leaf: Option<u32>,
    spines: u32,
    #[serde(default = "one")]
    links_per_spine: u32,
    rate: Parsed<Rate>,
    fabric_rate: Option<Parsed<Rate>>,
    delay: Parsed<Ps>,
}

/// Interfaces with links of their own rate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterfaceKeys {
    /// The numbers of the first and of the last one.
    range: [u32; 2],
    rate: Parsed<Rate>,
}

/// Sets the rates of interfaces' links, in both directions.
pub(super) fn set_rates(
    all: &[Spanned<InterfaceKeys>],
    topology: &mut Topology,
) -> Result<(), Refusal> {
    let count = topology.nics.len() as u32;
    for (number, keys) in all.iter().enumerate() {
        let InterfaceKeys { range: [first, last], rate: Parsed(rate) } = *keys.get_ref();
        if first > last || last >= count {
            return Err(Refusal::of(
                keys,
                format!(
                    "range = [{first}, {last}] are no interfaces; give the first and the last of \
                     0 to {}",
                    count - 1
                ),
            ));
        }
        let overlaps = |other: &&Spanned<InterfaceKeys>| {
            let [from, to] = other.get_ref().range;
            first <= to && from <= last
        };
        if let Some(other) = all[..number].iter().find(overlaps) {
            let [from, to] = other.get_ref().range;
            return Err(Refusal::of(
                keys,
                format!(
                    "range = [{first}, {last}] overlaps with [{from}, {to}]; name each interface \
                     once"
                ),
            ));
        }
        for port in &topology.nic_ports()[first as usize..=last as usize] {
            topology.set_port_rate(*port, rate);
            topology.set_port_rate(port.reverse(), rate);
        }
    }
    Ok(())
}

fn one() -> u32 {
    1
}

impl TopologyKeys {
    /// Returns the smallest fat tree with at least this many hosts.
    pub(super) fn fat_tree_for(hosts: u32, tiers: u32, (rate, delay): (Rate, Ps)) -> TopologyKeys {
        let holds = |k: &u64| match tiers {
            2 => k * k / 2 >= hosts.into(),
            _ => k * k * k / 4 >= hosts.into(),
        };
        let k = (2_u64..).step_by(2).find(holds).unwrap_or(2) as u32;
        TopologyKeys::FatTree(FatTreeKeys { k, tiers, rate: Parsed(rate), delay: Parsed(delay) })
    }

    /// Returns the plan, or the reason why there is none.
    pub(super) fn build(&self) -> Result<Topology, String> {
        let interfaces = self.interfaces();
        if interfaces > MOST_INTERFACES {
            return Err(format!(
                "{interfaces} interfaces are too many for one run; give at most {MOST_INTERFACES}"
            ));
        }
        match self {
            TopologyKeys::FatTree(keys) => keys.build(),
            TopologyKeys::Pods(keys) => keys.build().map_err(|error| error.to_string()),
            TopologyKeys::LeafSpine(keys) => keys.build().map_err(|error| error.to_string()),
            TopologyKeys::RailOptimised(keys) => keys.build().map_err(|error| error.to_string()),
        }
    }

    fn interfaces(&self) -> u64 {
        let factors: &[u32] = match self {
            TopologyKeys::FatTree(keys) if keys.tiers == 2 => &[keys.k, keys.k / 2],
            TopologyKeys::FatTree(keys) => &[keys.k, keys.k / 2, keys.k / 2],
            TopologyKeys::Pods(keys) => &[keys.pods, keys.edges_per_pod, keys.hosts_per_edge],
            TopologyKeys::LeafSpine(keys) => &[keys.leaves, keys.hosts_per_leaf],
            TopologyKeys::RailOptimised(keys) => &[keys.hosts, keys.rails],
        };
        factors.iter().fold(1, |product: u64, factor| product.saturating_mul((*factor).into()))
    }
}

impl FatTreeKeys {
    fn build(&self) -> Result<Topology, String> {
        let FatTreeKeys { k, tiers, rate: Parsed(rate), delay: Parsed(delay) } = *self;
        let built = match tiers {
            2 => LeafSpine::k_ary(k, rate, delay).and_then(|plan| plan.build()),
            3 => FatTree::k_ary(k, rate, delay).and_then(|plan| plan.build()),
            _ => return Err(format!("tiers = {tiers} is not possible: give 2 or 3")),
        };
        built.map_err(|error| error.to_string())
    }
}

impl PodsKeys {
    fn build(&self) -> Result<Topology, TopologyError> {
        let plan = FatTree {
            pods: self.pods,
            edges_per_pod: self.edges_per_pod,
            aggs_per_pod: self.aggs_per_pod,
            cores: self.cores,
            hosts_per_edge: self.hosts_per_edge,
            host_rate: self.rate.0,
            fabric_rate: self.fabric_rate.unwrap_or(self.rate).0,
            delay: self.delay.0,
        };
        plan.build()
    }
}

impl LeafSpineKeys {
    fn build(&self) -> Result<Topology, TopologyError> {
        let plan = LeafSpine {
            leaves: self.leaves,
            hosts_per_leaf: self.hosts_per_leaf,
            spines: self.spines,
            links_per_spine: self.links_per_spine,
            host_rate: self.rate.0,
            fabric_rate: self.fabric_rate.unwrap_or(self.rate).0,
            delay: self.delay.0,
        };
        plan.build()
    }
}

impl RailKeys {
    fn build(&self) -> Result<Topology, TopologyError> {
        let plan = RailOptimised {
            hosts: self.hosts,
            rails: self.rails,
            hosts_per_leaf: self.hosts_per_leaf.unwrap_or(self.hosts),
            spines: self.spines,
            links_per_spine: self.links_per_spine,
            host_rate: self.rate.0,
            fabric_rate: self.fabric_rate.unwrap_or(self.rate).0,
            delay: self.delay.0,
        };
        plan.build()
    }
}
