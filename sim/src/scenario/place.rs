//! The names of nodes and layers.

use super::quantity::{Text, by_name};
use crate::topology::{Layer, Node, Tier, Topology};

/// A node in text form: `host 3`, `edge 0`, `agg 1`, `core 2`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeName {
    tier: Tier,
    number: u32,
}

const TIERS: &[(&str, Tier)] = &[
    ("host", Tier::Host),
    ("edge", Tier::Edge),
    ("leaf", Tier::Edge),
    ("tor", Tier::Edge),
    ("agg", Tier::Agg),
    ("spine", Tier::Agg),
    ("core", Tier::Core),
];

impl NodeName {
    /// Returns the node with this name.
    pub(super) fn find(self, topology: &Topology) -> Result<Node, String> {
        let NodeName { tier, number } = self;
        let count = match tier {
            Tier::Host => topology.nics.len(),
            _ => topology.switches.iter().filter(|switch| switch.tier == tier).count(),
        };
        if number as usize >= count {
            let tier = tier_name(tier);
            return Err(format!(
                "there is no {tier} {number}: the topology has {count}, numbered from 0"
            ));
        }
        if tier == Tier::Host {
            return Ok(Node::Nic(number));
        }
        let first = topology.switches.iter().position(|switch| switch.tier == tier);
        Ok(Node::Switch(first.unwrap_or(0) as u32 + number))
    }
}

impl Text for NodeName {
    const WHAT: &'static str = "node";
    const EXAMPLE: &'static str = "edge 0";

    fn from_text(text: &str) -> Result<Self, String> {
        let (tier, number) = text.trim().split_once(' ').unwrap_or((text, ""));
        let tier = by_name("kind of node", tier, TIERS)?;
        match number.trim().parse() {
            Ok(number) => Ok(NodeName { tier, number }),
            Err(_) => Err(format!("`{text}` is not a node; write it as in \"edge 0\"")),
        }
    }
}

/// The cables between two tiers in text form: `edge-agg`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LayerName {
    pub(super) low: Tier,
    pub(super) high: Tier,
}

const LAYERS: &[(&str, LayerName)] = &[
    ("host-edge", LayerName { low: Tier::Host, high: Tier::Edge }),
    ("edge-agg", LayerName { low: Tier::Edge, high: Tier::Agg }),
    ("agg-core", LayerName { low: Tier::Agg, high: Tier::Core }),
];

impl Text for LayerName {
    const WHAT: &'static str = "layer";
    const EXAMPLE: &'static str = "edge-agg";

    fn from_text(text: &str) -> Result<Self, String> {
        by_name("layer", text, LAYERS)
    }
}

/// Returns the name of a tier in scenarios and reports.
pub(crate) fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Host => "host",
        Tier::Edge => "edge",
        Tier::Agg => "agg",
        Tier::Core => "core",
    }
}

/// Returns the name of a layer in reports, from the sending to the receiving tier.
pub(crate) fn layer_name(layer: Layer) -> String {
    format!("{}_to_{}", tier_name(layer.from), tier_name(layer.to))
}
