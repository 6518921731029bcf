//! Scenarios made from a connection matrix or a trace.

use std::path::Path;

use braid_cc::CcConfig;
use braid_lb::LbPolicy;
use toml::Spanned;

use super::error::SourceText;
use super::hosts::HostKeys;
use super::network::NetworkKeys;
use super::quantity::Parsed;
use super::rails::RailUseKeys;
use super::read::{parse_goal, parse_matrix, read_bytes};
use super::shape::TopologyKeys;
use super::spraying::SprayingKeys;
use super::traffic::{WorkloadFile, WorkloadKeys};
use super::{Keys, Model, Scenario, ScenarioError, SwitchPolicy};
use crate::host::{Paths, Recovery};
use crate::time::Ps;
use crate::workload::goal::Goal;

/// The options of a matrix run: a model's fat tree with the given changes.
#[derive(Clone, PartialEq, Debug)]
pub struct MatrixOptions {
    /// The model of network and hosts.
    pub model: Model,
    /// Tiers of the fat tree: 2 or 3.
    pub tiers: u32,
    /// Minimum number of hosts of the fat tree. Default: the nodes of the matrix, or the ranks of
    /// the trace.
    pub hosts: Option<u32>,
    /// The switch policy.
    pub switch: Option<SwitchPolicy>,
    /// The path policy.
    pub lb: Option<LbPolicy>,
    /// The meaning of path numbers.
    pub paths: Option<Paths>,
    /// The detection of losses.
    pub recovery: Option<Recovery>,
    /// The congestion control.
    pub cc: Option<CcConfig>,
    /// The shortest retransmission time-out.
    pub min_rto: Option<Ps>,
    /// The simulated time that a run may take.
    pub limit: Option<Ps>,
    /// The seed of the first run.
    pub seed: u64,
    /// Number of runs.
    pub runs: u32,
}

impl Scenario {
    /// Creates the scenario that runs a connection matrix, or a trace in the GOAL format, on the
    /// smallest fat tree with enough hosts.
    ///
    /// # Errors
    /// The file cannot be read, has an error, or has more nodes than `hosts`.
    pub fn of_matrix(path: &Path, options: &MatrixOptions) -> Result<Scenario, ScenarioError> {
        let file = path.display().to_string();
        let bytes = read_bytes(path)?;
        let (kind, nodes, content) = match Goal::is_trace(&bytes) {
            true => {
                let goal = parse_goal(&file, &bytes)?;
                ("trace", goal.ranks, WorkloadFile::Goal(goal))
            }
            false => {
                let matrix = parse_matrix(&file, bytes)?;
                ("connection matrix", matrix.nodes, WorkloadFile::Matrix(matrix.workload))
            }
        };
        let source = SourceText { file, text: String::new() };
        let hosts = options.hosts.unwrap_or(nodes);
        if hosts < nodes {
            return Err(source.whole(format!(
                "the {kind} has {nodes} nodes, more than {hosts} hosts; give --hosts {nodes}"
            )));
        }
        let topology = TopologyKeys::fat_tree_for(hosts, options.tiers, options.model.links());
        let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into());
        Ok(Scenario {
            name,
            about: format!("a {kind} on the model {}", options.model),
            seed: options.seed,
            runs: options.runs,
            model: options.model,
            source,
            keys: options.keys(topology, &content),
            files: vec![Some(content)],
        })
    }
}

impl MatrixOptions {
    fn keys(&self, topology: TopologyKeys, content: &WorkloadFile) -> Keys {
        let hosts =
            HostKeys::with(self.lb, self.paths, self.recovery, self.cc.clone(), self.min_rto);
        Keys {
            name: String::new(),
            about: String::new(),
            model: Some(Parsed(self.model)),
            seed: Some(self.seed),
            runs: None,
            limit: self.limit.map(Parsed),
            sample: None,
            topology: Some(Spanned::new(0..0, topology)),
            interfaces: Vec::new(),
            network: Some(Spanned::new(0..0, NetworkKeys::with_switch(self.switch.clone()))),
            profile: None,
            hosts: Some(Spanned::new(0..0, hosts)),
            spraying: SprayingKeys::default(),
            rails: RailUseKeys::default(),
            workload: vec![Spanned::new(0..0, WorkloadKeys::of_file(content))],
            failure: Vec::new(),
        }
    }
}
