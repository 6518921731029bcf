//! Reports: numbers for programs, a table for people.

mod by_size;
mod failure;
mod files;
mod measured;
mod resources;
mod runs;
mod series;
mod spread;
mod table;
mod timeouts;

pub use by_size::SizeTimes;
pub use failure::RunFailure;
pub use files::{json_text, make_folder, write_json, write_text};
pub use measured::{Drops, GroupTimes, Measured, MessageTimes};
pub use resources::{peak_rss_mb, thread_cpu_time};
pub use runs::run_scenario;
pub use table::{aligned, table, wrapped};
pub use timeouts::DOMINANT;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::host::{Paths, Recovery};
use crate::scenario::{Scenario, ScenarioError};
use crate::simulation::Plan;

/// The results of a scenario's runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The set-up.
    pub set_up: SetUp,
    /// The runs, in the order of their seeds.
    pub runs: Vec<Measured>,
}

/// The set-up of a scenario.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SetUp {
    /// The name of the scenario.
    pub scenario: String,
    /// The purpose of the scenario.
    pub about: String,
    /// The model that the scenario starts from.
    pub model: String,
    /// Number of hosts.
    pub hosts: u32,
    /// Number of interfaces.
    pub interfaces: usize,
    /// Number of switches.
    pub switches: usize,
    /// Number of cables.
    pub cables: usize,
    /// The traffic of the first run.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The switch policy.
    pub switch: String,
    /// The path policy of the senders.
    pub lb: String,
    /// The meaning of path numbers.
    pub paths: String,
    /// The detection of losses.
    pub recovery: String,
    /// The congestion control.
    pub cc: String,
}

/// The size of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Traffic {
    /// Number of messages.
    pub messages: usize,
    /// Payload bytes.
    pub bytes: u64,
    /// Number of steps: joins and computations between messages.
    pub steps: usize,
}

impl Report {
    /// Creates a report without runs from the scenario's first plan.
    pub(crate) fn new(scenario: &Scenario, plan: &Plan) -> Result<Report, ScenarioError> {
        let (topology, host, messages) = (&plan.topology, &plan.host, &plan.workload.messages);
        let set_up = SetUp {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            model: scenario.model.to_string(),
            hosts: topology.hosts(),
            interfaces: topology.nics.len(),
            switches: topology.switches.len(),
            cables: topology.cables.len(),
            traffic: Traffic {
                messages: messages.len(),
                bytes: messages.iter().map(|message| message.bytes).sum(),
                steps: plan.workload.steps.len(),
            },
            switch: scenario.switch()?.to_string(),
            lb: host.lb.to_string(),
            paths: match host.paths {
                Paths::Source => "source".into(),
                Paths::Hashed(count) => format!("hashed:{count}"),
            },
            recovery: match host.recovery {
                Recovery::Ideal => "ideal".into(),
                Recovery::Protocol(recovery) => recovery.to_string(),
            },
            cc: host.cc.to_string(),
        };
        Ok(Report { set_up, runs: Vec::new() })
    }

    /// Returns one object: the set-up, the mean of every number over the runs, and `runs` with each
    /// run. With several runs, `min` and `max` hold the extremes of every number.
    pub fn to_json(&self) -> Value {
        let runs: Vec<Value> = self.runs.iter().map(json_object).collect();
        let mut all = into_map(json_object(&self.set_up));
        let numbers: Vec<Value> = runs.iter().cloned().map(without_groups).collect();
        all.extend(into_map(spread::mean(&numbers)));
        if runs.len() > 1 {
            all.insert("min".into(), spread::min(&numbers));
            all.insert("max".into(), spread::max(&numbers));
        }
        all.insert("runs".into(), Value::Array(runs));
        Value::Object(all)
    }
}

fn json_object(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("plain data has a JSON form")
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Removes groups and seeds, which have no mean.
fn without_groups(mut run: Value) -> Value {
    if let Value::Object(map) = &mut run {
        map.remove("groups");
        map.remove("seed");
    }
    run
}
