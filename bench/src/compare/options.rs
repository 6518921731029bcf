//! Options of `compare`.

use std::path::PathBuf;

use braid_lab::pages::named;
use clap::Args;

use super::case::{ALL, Family};
use crate::failure::Failure;
use crate::quantities::parse_seconds;

const ROUNDS: u32 = 3;
const FULL_ROUNDS: u32 = 5;
const SECONDS: f64 = 0.3;
const FULL_SECONDS: f64 = 1.0;
const MTUS: [u32; 2] = [1500, 9000];

/// Returns the names of the families.
fn families() -> Vec<String> {
    ALL.iter().map(|family| family.name().to_owned()).collect()
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CompareOptions {
    /// Write results.json and plots (SVG) into this folder.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// All sizes from 8 bytes to 64 MiB, more and longer rounds: about an hour instead of minutes.
    #[arg(long)]
    pub(super) full: bool,
    /// Only these families of cases, in the usual order; an unknown name lists them all
    #[arg(long, value_name = "FAMILY,..", value_delimiter = ',',
        value_parser = named::<String>(families))]
    only: Vec<String>,
    /// MTUs of the veth pair [default: 1500,9000]
    #[arg(long, value_name = "BYTES,..", value_delimiter = ',')]
    mtu: Vec<u32>,
    /// Seconds of a run [default: 0.3, with --full 1]
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// Rounds; every contestant runs once in each [default: 3, with --full 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Fail after all runs if a contestant could not be measured.
    #[arg(long)]
    pub(super) complete: bool,
    /// Replace the tables of this page (Markdown), and the plots in the folder named after it.
    #[arg(long, value_name = "FILE")]
    pub(super) page: Option<PathBuf>,
    /// Write the results to this file too; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

impl CompareOptions {
    pub(super) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.full { FULL_SECONDS } else { SECONDS })
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.full { FULL_ROUNDS } else { ROUNDS })
    }

    pub(super) fn mtus(&self) -> Result<Vec<u32>, Failure> {
        match self.mtu.iter().find(|mtu| !MTUS.contains(mtu)) {
            Some(mtu) => {
                Err(Failure::Usage(format!("MTU {mtu} is not supported; give one of {MTUS:?}")))
            }
            None if self.mtu.is_empty() => Ok(MTUS.to_vec()),
            None => Ok(self.mtu.clone()),
        }
    }

    pub(super) fn families(&self) -> Result<Vec<Family>, Failure> {
        let known = ALL.map(Family::name);
        if let Some(name) = self.only.iter().find(|name| !known.contains(&name.as_str())) {
            let text = format!("no family is called `{name}`; known names: {}", known.join(", "));
            return Err(Failure::Usage(text));
        }
        let wanted = |family: &Family| {
            self.only.is_empty() || self.only.iter().any(|name| name == family.name())
        };
        Ok(ALL.into_iter().filter(wanted).collect())
    }
}
