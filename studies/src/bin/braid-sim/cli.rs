//! The command line.

use std::path::PathBuf;

use braid_cc::CcConfig;
use braid_lb::LbPolicy;
use braid_sim::host::{Paths, Recovery};
use braid_sim::scenario::{
    MatrixOptions, Model, SwitchPolicy, parse_paths, parse_recovery, parse_time,
};
use braid_sim::time::Ps;
use clap::{Args, Parser, Subcommand};

use crate::compare::CompareArgs;
use crate::reproduce::Reproduce;

/// A packet-level simulator that drives the shipped protocol in virtual time.
///
/// Exit 0: done; 1: a run failed; 2: bad usage, or an error in a scenario, matrix or trace.
#[derive(Parser, Debug)]
#[command(name = "braid-sim", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the scenarios found here, the models and the policies, with a line each.
    List,
    /// Run scenarios (TOML; docs/simulator.md lists the keys).
    Run(RunArgs),
    /// Run connection matrices (`Nodes N`, `Connections M`, lines `src->dst start T size S`), or
    /// traces in the GOAL format, text or binary.
    Matrix(MatrixArgs),
    /// Compare path policies and congestion controls on one scenario, side by side.
    Compare(CompareArgs),
    /// Reproduce a paper's figures, claim by claim.
    Reproduce(Reproduce),
    /// Man pages and completions; the installation writes them.
    #[command(name = braid_lab::pages::COMMAND, hide = true)]
    WritePages(braid_lab::pages::Options),
}

/// The destinations of results in addition to stdout.
#[derive(Args, Clone, Debug)]
pub(crate) struct Output {
    /// Write the results to this file too; several scenarios make an array. `-` is standard output,
    /// and tables then go to standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write report.json, table.txt and every message's times (CSV) to this folder; several
    /// scenarios get a folder each.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RunArgs {
    /// Scenario files, or names of `braid-sim list`.
    #[arg(required = true, value_name = "SCENARIO.toml")]
    pub(crate) files: Vec<PathBuf>,
    /// Seed of the first run, instead of the scenario's.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Number of runs, instead of the scenario's; the seeds count up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: Option<u32>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct MatrixArgs {
    /// Connection matrix files, or traces.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Model of network and hosts: ofan, pro or uec.
    #[arg(long, value_name = "MODEL", default_value = "uec")]
    pub(crate) model: Model,
    /// Path policy, instead of the model's.
    #[arg(long, value_name = "POLICY")]
    pub(crate) lb: Option<LbPolicy>,
    /// Switch policy, instead of the model's, such as `round-robin:permute=1`.
    #[arg(long = "switch", value_name = "POLICY")]
    pub(crate) switch: Option<SwitchPolicy>,
    /// Meaning of path numbers: `source`, or `hashed:N` [default: the one that fits the switches]
    #[arg(long, value_name = "PATHS", value_parser = parse_paths)]
    pub(crate) paths: Option<Paths>,
    /// Loss recovery, instead of the model's; includes `ideal`.
    #[arg(long, value_name = "METHOD", value_parser = parse_recovery)]
    pub(crate) recovery: Option<Recovery>,
    /// Congestion control, instead of the model's, such as `fixed:512K`.
    #[arg(long, value_name = "POLICY")]
    pub(crate) cc: Option<CcConfig>,
    /// Shortest retransmission time-out, instead of the model's, such as `100us`.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) min_rto: Option<Ps>,
    /// Simulated time after which a run fails [default: 10 s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) limit: Option<Ps>,
    /// Hosts of the fat tree, rounded up to the next possible number [default: its nodes or ranks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) hosts: Option<u32>,
    /// Tiers of the fat tree.
    #[arg(long, value_name = "T", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(2..=3))]
    pub(crate) tiers: u32,
    /// Seed of the first run.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of runs; the seeds count up.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
    #[command(flatten)]
    pub(crate) output: Output,
}

impl MatrixArgs {
    /// Returns the options of the matrix runs.
    pub(crate) fn options(&self) -> MatrixOptions {
        MatrixOptions {
            model: self.model,
            tiers: self.tiers,
            hosts: self.hosts,
            switch: self.switch.clone(),
            lb: self.lb,
            paths: self.paths,
            recovery: self.recovery,
            cc: self.cc.clone(),
            min_rto: self.min_rto,
            limit: self.limit,
            seed: self.seed,
            runs: self.runs,
        }
    }
}
