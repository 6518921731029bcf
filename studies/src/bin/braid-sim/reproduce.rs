//! `braid-sim reproduce`: the papers' figures.

use std::path::PathBuf;

use braid_studies::{Effort, PAPERS, tables_text, text, write, write_shipped};
use clap::Args;

use crate::failure::Failure;
use crate::stdio;

/// Accepted names of papers that cannot be reproduced yet.
const TO_COME: [&str; 1] = ["all"];

/// Run a paper's scenarios, and compare each claim with the result.
#[derive(Args, Debug)]
pub(crate) struct Reproduce {
    /// The paper: mcc, ofan, pro, rails or themis.
    paper: String,
    /// Use fewer runs and sizes: half a minute.
    #[arg(long)]
    quick: bool,
    /// Only run the paper's main experiments on the hosts that ship, beside the paper's. `--out`
    /// then writes PAPER-shipped.md.
    #[arg(long)]
    shipped: bool,
    /// Runs per point; figures with long runs make fewer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// Seed of the first run; later runs count up from it.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Write tables, JSON and a plot per figure to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write all results as JSON to this file; `-` is standard output, and tables then go to
    /// standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Reproduce {
    /// Runs the study, whatever its verdicts.
    ///
    /// # Errors
    /// No paper has this name, or results cannot be written.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let paper = PAPERS.iter().find(|paper| paper.name == self.paper);
        let paper = paper.ok_or_else(|| Failure::Usage(self.unknown()))?;
        if self.shipped {
            let tables = paper.shipped(&self.effort());
            stdio::print_tables(&tables_text(&tables), self.json.as_deref())?;
            self.out.as_deref().map_or(Ok(()), |dir| write_shipped(paper.name, &tables, dir))?;
            return stdio::write_json(&tables, self.json.as_deref());
        }
        let study = paper.study(&self.effort());
        stdio::print_tables(&text(&study), self.json.as_deref())?;
        self.out.as_deref().map_or(Ok(()), |dir| write(&study, dir))?;
        stdio::write_json(&study, self.json.as_deref())
    }

    fn effort(&self) -> Effort {
        let usual = if self.quick { Effort::QUICK } else { Effort::FULL };
        Effort { seeds: self.seeds.unwrap_or(usual.seeds), first_seed: self.seed, ..usual }
    }

    fn unknown(&self) -> String {
        let built = PAPERS.iter().map(|paper| paper.name).collect::<Vec<_>>().join(", ");
        match TO_COME.contains(&self.paper.as_str()) {
            true => format!("`reproduce {}` is not built yet; there are: {built}", self.paper),
            false => format!("no paper is called `{}`; there are: {built}", self.paper),
        }
    }
}
