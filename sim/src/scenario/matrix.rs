//! A scenario around a connection matrix.

use std::path::Path;

use braid_cc::CcConfig;
use braid_lb::LbPolicy;
use toml::Spanned;

use super::error::Source;
use super::hosts::HostKeys;
use super::network::NetworkKeys;
use super::quantity::Said;
use super::read::{parse_matrix, read_text};
use super::shape::TopologyKeys;
use super::traffic::WorkloadKeys;
use super::{Keys, Model, Scenario, ScenarioError, SwitchPolicy};
use crate::host::{Paths, Recovery};

/// What a matrix is run on: a model's fat tree, but for what is given here.
#[derive(Clone, PartialEq, Debug)]
pub struct MatrixOptions {
    /// Network and hosts.
    pub model: Model,
    /// Tiers of the fat tree: 2 or 3.
    pub tiers: u32,
    /// Hosts that the fat tree must have at least; `None`: the matrix's nodes.
    pub hosts: Option<u32>,
    /// How switches choose.
    pub switch: Option<SwitchPolicy>,
    /// How senders choose.
    pub lb: Option<LbPolicy>,
    /// What paths are.
    pub paths: Option<Paths>,
    /// How losses are found.
    pub recovery: Option<Recovery>,
    /// How much may be under way.
    pub cc: Option<CcConfig>,
    /// The first run's seed.
    pub seed: u64,
    /// Runs.
    pub runs: u32,
}

impl Scenario {
    /// The scenario that runs a connection matrix on the smallest fat tree with enough hosts.
    ///
    /// # Errors
    /// The file cannot be read, something is wrong in it, or it has more nodes than hosts are wanted.
    pub fn of_matrix(path: &Path, options: &MatrixOptions) -> Result<Scenario, ScenarioError> {
        let file = path.display().to_string();
        let matrix = parse_matrix(&file, &read_text(path)?)?;
        let source = Source { file, text: String::new() };
        let hosts = options.hosts.unwrap_or(matrix.nodes);
        if hosts < matrix.nodes {
            let nodes = matrix.nodes;
            return Err(source.whole(format!(
                "the matrix has {nodes} nodes, which {hosts} hosts are not enough for; give --hosts {nodes}"
            )));
        }
        let topology = TopologyKeys::fat_tree_for(hosts, options.tiers, options.model.links());
        let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into());
        Ok(Scenario {
            name,
            about: format!("a connection matrix on the model {}", options.model),
            seed: options.seed,
            runs: options.runs,
            model: options.model,
            source,
            keys: options.keys(topology),
            matrices: vec![Some(matrix.workload)],
        })
    }
}

impl MatrixOptions {
    fn keys(&self, topology: TopologyKeys) -> Keys {
        let hosts = HostKeys::with(self.lb, self.paths, self.recovery, self.cc.clone());
        Keys {
            name: String::new(),
            about: String::new(),
            model: Some(Said(self.model)),
            seed: Some(self.seed),
            runs: None,
            limit: None,
            topology: Some(Spanned::new(0..0, topology)),
            network: Some(Spanned::new(0..0, NetworkKeys::with_switch(self.switch.clone()))),
            hosts: Some(Spanned::new(0..0, hosts)),
            workload: vec![Spanned::new(0..0, WorkloadKeys::of_file())],
            failure: Vec::new(),
        }
    }
}
