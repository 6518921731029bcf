//! What runs come to: numbers for programs, a table for people.

mod failure;
mod files;
mod measured;
mod resources;
mod runs;
mod spread;
mod table;

pub use failure::RunFailure;
pub use files::{json_text, make_folder, write_json, write_text};
pub use measured::{Drops, GroupTimes, Measured, MessageTimes};
pub use resources::{peak_rss_mb, thread_cpu_time};
pub use runs::run_scenario;
pub use table::{aligned, table, wrapped};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::host::{Paths, Recovery};
use crate::scenario::{Scenario, ScenarioError};
use crate::simulation::Plan;

/// A scenario's runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// What was run.
    pub set_up: SetUp,
    /// In the order of their seeds.
    pub runs: Vec<Measured>,
}

/// What was run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SetUp {
    /// The scenario's name.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// What it starts from.
    pub model: String,
    /// Hosts.
    pub hosts: u32,
    /// Their interfaces.
    pub interfaces: usize,
    /// Switches.
    pub switches: usize,
    /// Cables.
    pub cables: usize,
    /// Messages of the first run.
    pub messages: usize,
    /// Their payload.
    pub bytes: u64,
    /// How switches choose.
    pub switch: String,
    /// How senders choose.
    pub lb: String,
    /// What paths are.
    pub paths: String,
    /// How losses are found.
    pub recovery: String,
    /// How much may be under way.
    pub cc: String,
}

impl Report {
    /// Of a scenario whose first plan this is; without runs yet.
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
            messages: messages.len(),
            bytes: messages.iter().map(|message| message.bytes).sum(),
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

    /// One object: the set-up, every number as its mean over the runs, and `runs` with each of them. With
    /// several runs `min` and `max` hold the smallest and the largest of every number.
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

/// Groups and seeds have no mean.
fn without_groups(mut run: Value) -> Value {
    if let Value::Object(map) = &mut run {
        map.remove("groups");
        map.remove("seed");
    }
    run
}
