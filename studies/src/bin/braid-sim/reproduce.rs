//! `braid-sim reproduce`: the papers' figures.

use std::path::{Path, PathBuf};

use braid_sim::report::aligned;
use braid_studies::{Effort, PAPERS, Page, Paper, paper, tables_text, text, write, write_shipped};
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
    /// Use fewer runs and sizes: half a minute. They judge no claim.
    #[arg(long)]
    quick: bool,
    /// Only run the paper's main experiments on the hosts that ship, beside the paper's. `--out`
    /// then writes PAPER-shipped.md.
    #[arg(long, conflicts_with_all = ["only", "check"])]
    shipped: bool,
    /// List the experiments of the study, with the processor time of each, and run nothing.
    #[arg(long, conflicts_with_all = ["shipped", "check", "only"])]
    experiments: bool,
    /// Only run these experiments of `--experiments`, without the hosts that ship.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Run with the seeds of this page of an earlier study, and fail if a verdict differs.
    #[arg(long, value_name = "PAGE.md", conflicts_with_all = ["quick", "seeds", "seed"])]
    check: Option<PathBuf>,
    /// Runs per point; figures with long runs make fewer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// Seed of the first run; later runs count up from it [default: 1]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The commit of this program, for the page to name it.
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Write tables, JSON and a plot per figure to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write all results as JSON to this file; `-` is standard output, and tables then go to
    /// standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Reproduce {
    /// Runs the study, whatever its verdicts, unless they are to be those of a page.
    ///
    /// # Errors
    /// No paper or experiment has this name, results cannot be written, or verdicts differ from
    /// the page.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let paper = paper(&self.paper).ok_or_else(|| Failure::Usage(self.unknown()))?;
        if self.experiments {
            return self.list(paper);
        }
        if self.shipped {
            let tables = paper.shipped(&self.effort());
            stdio::print_tables(&tables_text(&tables), self.json.as_deref())?;
            self.out.as_deref().map_or(Ok(()), |dir| write_shipped(paper.name, &tables, dir))?;
            return stdio::write_json(&tables, self.json.as_deref());
        }
        let page = self.check.as_deref().map(|path| Ok::<_, Failure>((path, Page::read(path)?)));
        let page = page.transpose()?;
        let effort = page.as_ref().map_or_else(|| self.effort(), |(_, page)| page.effort());
        let mut study = match self.only.is_empty() {
            true => paper.study(&effort),
            false => paper.part(&effort, &self.only)?,
        };
        study.origin.commit.clone_from(&self.commit);
        stdio::print_tables(&text(&study), self.json.as_deref())?;
        self.out.as_deref().map_or(Ok(()), |dir| write(&study, dir))?;
        stdio::write_json(&study, self.json.as_deref())?;
        page.map_or(Ok(()), |(path, page)| {
            let found = page.compare(&study, self.only.is_empty());
            stdio::print_tables(&found.text(paper.name, path), self.json.as_deref())?;
            verdict(found.verdicts.len(), path)
        })
    }

    /// Lists the experiments, with the processor time of each.
    fn list(&self, paper: &Paper) -> Result<(), Failure> {
        let experiments = paper.experiments(&self.effort());
        let row = |name: &str, time: &str| vec![name.to_owned(), time.to_owned()];
        let heading = std::iter::once(row("experiment", "CPU time [s]"));
        let each = experiments.iter().map(|of| row(of.name, &of.cpu_s.to_string()));
        stdio::print_tables(
            &aligned(&heading.chain(each).collect::<Vec<_>>()),
            self.json.as_deref(),
        )?;
        stdio::write_json(&experiments, self.json.as_deref())
    }

    fn effort(&self) -> Effort {
        let usual = if self.quick { Effort::QUICK } else { Effort::FULL };
        Effort {
            seeds: self.seeds.unwrap_or(usual.seeds),
            first_seed: self.seed.unwrap_or(usual.first_seed),
            ..usual
        }
    }

    fn unknown(&self) -> String {
        let built = PAPERS.iter().map(|paper| paper.name).collect::<Vec<_>>().join(", ");
        match TO_COME.contains(&self.paper.as_str()) {
            true => format!("`reproduce {}` is not built yet; there are: {built}", self.paper),
            false => format!("no paper is called `{}`; there are: {built}", self.paper),
        }
    }
}

/// Fails if verdicts differ from the page.
fn verdict(count: usize, page: &Path) -> Result<(), Failure> {
    match count {
        0 => Ok(()),
        count => Err(Failure::Verdicts { count, page: page.to_owned() }),
    }
}
