//! Scenarios: TOML files that describe a run. Every quantity has its unit, and every key is
//! checked.
//!
//! `docs/simulator.md` lists the keys. A scenario starts from a [`Model`] and changes its values
//! key by key. Every error is a [`ScenarioError`]: one line with the place and the remedy.

mod error;
mod failures;
mod hosts;
mod matrix;
mod model;
mod network;
pub(crate) mod place;
mod profile;
mod quantity;
mod rails;
mod read;
mod shape;
mod spraying;
mod switching;
mod traffic;

pub use error::ScenarioError;
pub use hosts::{Policies, parse_paths, parse_recovery, parse_time};
pub use matrix::MatrixOptions;
pub use model::{MODELS, Model};
pub use read::OpenFile;
pub use switching::{SWITCH_POLICIES, SwitchPolicy};

use braid_wire::MAX_RAILS;
use serde::Deserialize;
use toml::Spanned;

use self::error::{Refusal, SourceText};
use self::failures::FailureKeys;
use self::hosts::HostKeys;
use self::network::{Network, NetworkKeys};
use self::profile::Profile;
use self::quantity::Parsed;
use self::rails::RailUseKeys;
use self::shape::{InterfaceKeys, TopologyKeys};
use self::spraying::SprayingKeys;
use self::traffic::{WorkloadFile, WorkloadKeys};
use crate::fabric::NetworkConfig;
use crate::host::{DataPath, HostConfig, Paths};
use crate::planning::{Planned, planned};
use crate::simulation::{Change, Plan};
use crate::time::Ps;
use crate::topology::{EqualCostRoutes, Topology};
use crate::workload::Workload;

/// A run, or several runs that differ by their seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name of the scenario.
    pub name: String,
    /// The purpose of the scenario.
    pub about: String,
    /// The seed of the first run. Later runs count up from it.
    pub seed: u64,
    /// Number of runs.
    pub runs: u32,
    /// The model that the scenario starts from.
    pub model: Model,
    source: SourceText,
    keys: Keys,
    /// The content of the file that each workload names, if it names one.
    files: Vec<Option<WorkloadFile>>,
}

/// The keys of a scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    name: String,
    #[serde(default)]
    about: String,
    model: Option<Parsed<Model>>,
    seed: Option<u64>,
    runs: Option<Spanned<u32>>,
    limit: Option<Parsed<Ps>>,
    sample: Option<Spanned<Parsed<Ps>>>,
    topology: Option<Spanned<TopologyKeys>>,
    #[serde(default)]
    interfaces: Vec<Spanned<InterfaceKeys>>,
    network: Option<Spanned<NetworkKeys>>,
    profile: Option<Parsed<Profile>>,
    hosts: Option<Spanned<HostKeys>>,
    #[serde(default)]
    spraying: SprayingKeys,
    #[serde(default)]
    rails: RailUseKeys,
    #[serde(default)]
    workload: Vec<Spanned<WorkloadKeys>>,
    #[serde(default)]
    failure: Vec<Spanned<FailureKeys>>,
}

/// Maximum number of runs of one scenario.
const MOST_RUNS: u32 = 10_000;

/// Maximum number of intervals at which queues and links are read, which bounds their memory.
const MOST_SAMPLES: u64 = 1_000_000;

/// Time that a run may take unless the scenario says otherwise.
const DEFAULT_LIMIT: Ps = Ps::from_micros(10_000_000);

impl Scenario {
    /// Returns the plan of the run with this seed, which decides all random choices: the pattern,
    /// the failures, the network, the hosts.
    ///
    /// # Errors
    /// The scenario describes something that cannot be built.
    pub fn plan(&self, seed: u64) -> Result<Plan, ScenarioError> {
        let topology = self.topology()?;
        let network = self.network()?;
        let mut host = self.host(&network, &topology)?;
        let (workload, gpus) = self.planned(&topology, self.workload(&topology, seed)?)?;
        host.nvlink = self.keys.rails.nvlink(gpus);
        let frame = u32::from(network.frames.payload) + network.frames.header;
        Ok(Plan {
            workload,
            changes: self.changes(&topology, seed)?,
            topology,
            network: NetworkConfig {
                frames: network.frames,
                buffer: network.buffer,
                marking: network.marking,
                pause: network.pause,
                control_first: network.control_first,
                control_hashed: network.control_hashed,
                trim: network.trim,
                policy: network.switch.resolve(network.room_of_port(), frame),
            },
            host,
            seed,
            limit: self.keys.limit.map_or(DEFAULT_LIMIT, |Parsed(limit)| limit),
        })
    }

    /// Returns the same scenario with other host policies.
    pub fn with_policies(&self, policies: Policies) -> Scenario {
        let mut other = self.clone();
        let none = || Spanned::new(0..0, HostKeys::default());
        other.keys.hosts.get_or_insert_with(none).get_mut().set(policies);
        other
    }

    /// Sets the simulated time that a run may take.
    pub fn set_limit(&mut self, limit: Ps) {
        self.keys.limit = Some(Parsed(limit));
    }

    /// Returns the seeds of the runs.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..self.runs).map(move |run| first.wrapping_add(run.into()))
    }

    /// Returns the interval at which queues and links are read, if the scenario asks for that.
    pub fn sample(&self) -> Option<Ps> {
        self.keys.sample.as_ref().map(|every| every.get_ref().0)
    }

    /// Returns the switch policy in its text form.
    ///
    /// # Errors
    /// The network cannot be built.
    pub fn switch(&self) -> Result<SwitchPolicy, ScenarioError> {
        Ok(self.network()?.switch)
    }

    fn topology(&self) -> Result<Topology, ScenarioError> {
        let mut topology = match &self.keys.topology {
            Some(keys) => {
                let built = keys.get_ref().build();
                built.map_err(|what| self.source.error(keys.span(), what))?
            }
            None => self.model.topology().map_err(|error| self.source.whole(error))?,
        };
        shape::set_rates(&self.keys.interfaces, &mut topology)
            .map_err(|Refusal { at, what }| self.source.error(at, what))?;
        Ok(topology)
    }

    fn network(&self) -> Result<Network, ScenarioError> {
        let model = self.model.network();
        match &self.keys.network {
            Some(keys) => {
                let network = keys.get_ref().apply(model);
                network.map_err(|what| self.source.error(keys.span(), what))
            }
            None => Ok(model),
        }
    }

    fn host(&self, network: &Network, topology: &Topology) -> Result<HostConfig, ScenarioError> {
        let source = network.switch.is_source();
        let Parsed(profile) = self.keys.profile.unwrap_or(Parsed(Profile::default()));
        let base = profile.host(self.model);
        let mut host = match &self.keys.hosts {
            None => {
                let paths = hosts::fitting_paths(base.paths, source);
                check_paths(paths, topology)
                    .map(|()| HostConfig { paths, ..base })
                    .map_err(|what| self.source.whole(what))?
            }
            Some(keys) => {
                let host = keys.get_ref().apply(base, source);
                host.and_then(|host| check_paths(host.paths, topology).map(|()| host))
                    .map_err(|what| self.source.error(keys.span(), what))?
            }
        };
        let refuse = |Refusal { at, what }: Refusal| self.source.error(at, what);
        self.keys.rails.apply(&mut host, topology).map_err(refuse)?;
        self.keys.spraying.apply(&mut host, topology).map_err(refuse)?;
        check_data_path(host.data_path, topology).map_err(|what| self.source.whole(what))?;
        Ok(host)
    }

    /// Returns the workload over planned rails, if the scenario plans them, and the GPUs of each of
    /// its messages.
    fn planned(
        &self,
        topology: &Topology,
        workload: Workload,
    ) -> Result<(Workload, Vec<(u32, u32)>), ScenarioError> {
        let Some(chunk) = self.keys.rails.plan() else {
            let gpus = workload.messages.iter().map(|message| (message.src, message.dst));
            let gpus = gpus.collect();
            return Ok((workload, gpus));
        };
        planned(topology, &workload, chunk.get_ref().0.0)
            .map(|Planned { workload, gpus }| (workload, gpus))
            .map_err(|error| self.source.error(chunk.span(), error))
    }

    fn workload(&self, topology: &Topology, seed: u64) -> Result<Workload, ScenarioError> {
        let mut all = Workload::default();
        for ((keys, file), number) in self.keys.workload.iter().zip(&self.files).zip(0_u64..) {
            // Workloads of the same kind get different random numbers.
            let seed = seed.wrapping_add(number << 32);
            let built = keys.get_ref().build(topology, file.as_ref(), seed);
            let built = built.map_err(|what| self.source.error(keys.span(), what))?;
            all.append(built);
        }
        match all.messages.is_empty() {
            true => Err(self.source.whole("nothing is sent; add a [[workload]]")),
            false => Ok(all),
        }
    }

    fn changes(&self, topology: &Topology, seed: u64) -> Result<Vec<(Ps, Change)>, ScenarioError> {
        let mut all = Vec::new();
        for (keys, number) in self.keys.failure.iter().zip(1_u64..) {
            let changes = keys.get_ref().changes(topology, seed.wrapping_add(number << 40));
            all.extend(changes.map_err(|what| self.source.error(keys.span(), what))?);
        }
        // Routing learns of all events of the same instant.
        all.sort_by_key(|(at, change)| (*at, *change == Change::Converge));
        Ok(all)
    }
}

/// Checks that every path has a number.
fn check_paths(paths: Paths, topology: &Topology) -> Result<(), String> {
    let (count, most) = (EqualCostRoutes::new(topology).most() as usize, braid_wire::MAX_PATHS);
    match paths == Paths::Source && count > most {
        true => Err(format!(
            "{count} paths between two edges exceed the limit of {most}; \
             take paths = \"hashed:256\""
        )),
        false => Ok(()),
    }
}

/// Checks that hosts have no more interfaces than there can be rails, if they use several.
fn check_data_path(data_path: DataPath, topology: &Topology) -> Result<(), String> {
    let rails = topology.nics.len() / topology.hosts().max(1) as usize;
    match data_path != DataPath::Own && rails > MAX_RAILS {
        true => Err(format!(
            "hosts of {rails} interfaces would have as many rails, and {MAX_RAILS} is the limit; \
             give fewer"
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
