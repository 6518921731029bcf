//! The fabric of a run, and the ranks of this program on it.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use braid::RailScheme;
use braid_lab::traffic::Workload;
use braid_lab::{Owner, RailFabric, RailPlan, Rate};
use serde::Deserialize;

use super::super::args::AllToAllArgs;
use super::super::launch::{self, Dropped};
use super::super::report::AllToAllReport;
use super::Shape;
use crate::failure::Failure;
use crate::program;
use crate::scratch::Scratch;
use braid_lab::process::Program;

/// Options that are set for each rank, or are not passed on.
const OF_FABRIC: [Dropped; 6] = [
    ("--fabric", false),
    ("--rail-policies", true),
    ("--out", true),
    ("--rate", true),
    ("--matrix", true),
    ("--json", true),
];
const NAME: &str = "alltoall";
/// Default rate of a rail.
const RATE: Rate = Rate::from_bits(100_000_000);
/// Jumbo frames: headers are a hundredth of the bytes.
const MTU: u32 = 9000;
/// Time limit of a run, in addition to the multiple of its bound.
const LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a round as a multiple of its bound.
const SLOWEST: f64 = 20.0;

pub(super) struct RailLab {
    fabric: RailFabric,
    shape: Shape,
    rate: Rate,
    args: AllToAllArgs,
    program: PathBuf,
    scratch: Scratch,
}

/// The result file of rank 0.
#[derive(Deserialize)]
struct Written {
    matrices: Vec<AllToAllReport>,
}

impl RailLab {
    /// Makes a fabric that is removed on drop.
    pub(super) fn make(args: &AllToAllArgs, shape: Shape) -> Result<Self, Failure> {
        let rate = args.rate.unwrap_or(RATE);
        let args = AllToAllArgs { rate: Some(rate), ..args.clone() };
        let Shape { domains, rails } = shape;
        let queue = braid_lab::Plan::queue_for(rate);
        let plan = RailPlan { name: NAME.to_owned(), domains, rails, rate, mtu: MTU, queue };
        let program = std::env::current_exe()
            .map_err(|why| Failure::Io { what: "cannot find this program".to_owned(), why })?;
        let fabric = RailFabric::up(plan, Owner::Process)?;
        Ok(RailLab { fabric, shape, rate, args, program, scratch: Scratch::make()? })
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the arguments, with a rate.
    pub(super) fn args(&self) -> &AllToAllArgs {
        &self.args
    }

    /// Returns the namespaces of the hosts, and the address of each on rail 0.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (String, Ipv4Addr)> + '_ {
        let domains = self.fabric.domains().into_iter().enumerate();
        domains.map(|(domain, namespace)| (namespace, self.fabric.addresses(domain)[0]))
    }

    /// Returns the addresses by host and rail.
    pub(super) fn addresses(&self) -> Vec<Vec<IpAddr>> {
        let of = |domain| self.fabric.addresses(domain).into_iter().map(IpAddr::from).collect();
        (0..self.shape.domains).map(of).collect()
    }

    pub(super) fn command_on(&self, domain: usize, program: &Path) -> Command {
        self.fabric.command_on(domain, program)
    }

    /// Returns the time limit of a run of this workload.
    pub(super) fn limit(&self, workload: Workload) -> Duration {
        let matrix = workload.matrix(self.shape.domains, self.args.size, self.args.engine.seed);
        let bits = braid_lab::traffic::busiest(&matrix) as f64 * 8.0;
        let bound = bits / (self.shape.rails as f64 * self.rate.bits() as f64);
        LIMIT + Duration::from_secs_f64(bound * SLOWEST * f64::from(self.args.rounds + 1))
    }

    /// Runs one workload with a rank on each host.
    pub(super) fn run(
        &self,
        workload: Workload,
        policy: RailScheme,
    ) -> Result<AllToAllReport, Failure> {
        let json = self.scratch().join("ranks.json");
        let ranks = (0..self.shape.domains).map(|rank| self.rank(rank, workload, policy, &json));
        let mut ranks = ranks.collect::<Result<Vec<_>, _>>()?;
        let limit = self.limit(workload);
        ranks.iter_mut().try_for_each(|rank| rank.wait(limit))?;
        let unreadable = |why: &dyn std::fmt::Display| {
            Failure::Trial(format!("rank 0 has left no results: {why}"))
        };
        let text = std::fs::read_to_string(&json).map_err(|why| unreadable(&why))?;
        let written: Written = serde_json::from_str(&text).map_err(|why| unreadable(&why))?;
        written.matrices.into_iter().next().ok_or_else(|| unreadable(&"the list is empty"))
    }

    fn rank(
        &self,
        rank: usize,
        workload: Workload,
        policy: RailScheme,
        json: &Path,
    ) -> Result<Program, Failure> {
        let mut command = self.command_on(rank, &self.program);
        let rails: Vec<String> =
            self.fabric.addresses(rank).iter().map(ToString::to_string).collect();
        command
            .args(launch::arguments(&OF_FABRIC))
            .args(["--matrix", &workload.to_string(), "--rate", &self.rate.to_string()])
            .args(["--rail-policy", policy.name(), "--rails", &rails.join(",")])
            .args(["--json", &json.to_string_lossy()]);
        let variables =
            launch::variables(rank, self.shape.domains, self.fabric.addresses(0)[0].into());
        command.envs(variables);
        program::start(&format!("rank {rank}"), command)
    }
}
