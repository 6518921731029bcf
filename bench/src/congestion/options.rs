//! Options of `congestion`.

use std::path::PathBuf;

use braid::CcConfig;
use braid::congestion::parse_controllers;
use braid_lab::pages::named;
use clap::Args;

use crate::quantities::parse_seconds;

#[derive(Args, Clone, Debug)]
pub(crate) struct CongestionOptions {
    /// Controllers, with their parameters: `swift,fixed:256K,dcqcn:line=25G,alpha=1us` [default:
    /// the default one, and all that need no parameter]
    #[arg(long, value_name = "POLICY,..", value_parser = controllers)]
    pub(super) cc: Option<Controllers>,
    /// Write results.json, tables (Markdown) and plots (SVG) into this folder.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Run a subset of the runs, each shortened, and check limits that every controller must meet:
    /// under a minute.
    #[arg(long)]
    pub(super) quick: bool,
    /// Only these scenarios, in the usual order; an unknown name lists them all
    #[arg(long, value_name = "SCENARIO,..", value_delimiter = ',',
        value_parser = named::<String>(super::scenario_names))]
    pub(super) only: Vec<String>,
    /// Only cases whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(super) case: Option<String>,
    /// Seconds of a run [default: 5, with --quick 1.5]
    #[arg(long, value_parser = parse_seconds)]
    pub(super) seconds: Option<f64>,
    /// Rounds; every controller runs once in each, and medians are shown [default: 3, with --quick
    /// 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: Option<u32>,
    /// Write the results to this file too.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// Controllers in the order of the command line.
#[derive(Clone, Debug)]
pub(super) struct Controllers(pub(super) Vec<CcConfig>);

fn controllers(text: &str) -> Result<Controllers, String> {
    parse_controllers(text).map(Controllers).map_err(|why| why.to_string())
}
