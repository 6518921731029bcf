//! `braid-perf congestion`: congestion controls where networks are narrow.
//!
//! The networks are emulated ([`braid_lab::emulator`]): rates, queues and delays are exact, and queueing delays and losses are
//! read from the emulator's trace, not from the program that is being judged. Every flow is two processes of this executable
//! on two hosts, without privilege. Controllers take turns, round by round.

mod case;
mod expect;
mod flow;
mod lab;
mod metric;
mod options;
mod plot;
mod record;
mod run;
mod scenario;
mod table;
mod trace;
mod udp;

use std::path::Path;

use braid::CcConfig;
use braid::congestion::controller_names;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use self::case::Case;
use self::lab::Lab;
pub(crate) use self::options::Options;
use self::record::Record;
use self::scenario::Scenario;
use crate::failure::Failure;
use crate::results::ResultFiles;
use crate::{interrupt, stdio};

const SECONDS: f64 = 5.0;
const QUICK_SECONDS: f64 = 1.5;
const ROUNDS: u32 = 3;

#[derive(Serialize)]
struct Results<'a> {
    message_bytes: u64,
    run_seconds: f64,
    cases: &'a [Record],
}

/// Runs all scenarios, prints a table of each, and writes what was asked for.
pub(crate) fn run(args: &Options) -> Result<(), Failure> {
    interrupt::take_networks_down()?;
    let files = ResultFiles::create(args.json.as_ref(), args.out.as_ref())?;
    let scenarios = choose(args)?;
    let mut bench = Bench::new(args, &scenarios);
    let mut tables = Vec::new();
    for (scenario, cases) in &scenarios {
        let first = bench.records.len();
        cases.iter().try_for_each(|case| bench.case(case))?;
        let records = &bench.records[first..];
        let print = || stdio::print(|out| table::print(out, *scenario, records));
        bench.progress.suspend(print)?;
        tables.push(table::markdown(*scenario, records));
    }
    bench.progress.finish_and_clear();
    let folder = files.folder();
    files.write(&Results {
        message_bytes: flow::MESSAGE_BYTES,
        run_seconds: bench.seconds,
        cases: &bench.records,
    })?;
    folder.map_or(Ok(()), |folder| write(folder, &tables, &bench.records))?;
    if args.quick { expect::check(&bench.records) } else { Ok(()) }
}

fn write(folder: &Path, tables: &[String], records: &[Record]) -> Result<(), Failure> {
    let file = folder.join("tables.md");
    let what = || format!("cannot write {}", file.display());
    std::fs::write(&file, tables.join("\n")).map_err(|why| Failure::Io { what: what(), why })?;
    plot::all(folder, records)
}

/// The scenarios with their cases, without those that the command line leaves out.
fn choose(args: &Options) -> Result<Vec<(Scenario, Vec<Case>)>, Failure> {
    let known = scenario::ALL.map(Scenario::name);
    if let Some(name) = args.only.iter().find(|name| !known.contains(&name.as_str())) {
        let text = format!("no scenario is called `{name}`; there is: {}", known.join(", "));
        return Err(Failure::Usage(text));
    }
    let wanted = |scenario: &Scenario| match args.only.is_empty() {
        true => !args.quick || scenario.in_quick(),
        false => args.only.iter().any(|name| name == scenario.name()),
    };
    let fits = |case: &Case| args.case.as_ref().is_none_or(|text| case.name.contains(text));
    let with_cases = |scenario: Scenario| {
        (scenario, scenario.cases(args.quick).into_iter().filter(fits).collect::<Vec<_>>())
    };
    let mut chosen: Vec<_> = scenario::ALL.into_iter().filter(wanted).map(with_cases).collect();
    chosen.retain(|(_, cases)| !cases.is_empty());
    match (&args.case, chosen.is_empty()) {
        (Some(text), true) => Err(Failure::Usage(format!("no case has `{text}` in its name"))),
        _ => Ok(chosen),
    }
}

/// The default controller first, then all that need no parameter.
fn usual_controllers() -> Vec<CcConfig> {
    let mut all = vec![CcConfig::default()];
    for name in controller_names() {
        all.extend(name.parse::<CcConfig>().ok().filter(|cc| !all.contains(cc)));
    }
    all
}

fn controllers(asked: Option<&Vec<CcConfig>>, case: &Case) -> Vec<CcConfig> {
    let usual = || usual_controllers().into_iter().chain(case.more_controllers.iter().cloned());
    asked.map_or_else(|| usual().collect(), Vec::clone)
}

struct Bench {
    /// As the command line names them; otherwise the usual ones, and what a case is for.
    asked: Option<Vec<CcConfig>>,
    seconds: f64,
    rounds: u32,
    records: Vec<Record>,
    progress: ProgressBar,
}

impl Bench {
    fn new(args: &Options, scenarios: &[(Scenario, Vec<Case>)]) -> Self {
        let asked = args.cc.as_ref().map(|list| list.0.clone());
        let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { ROUNDS });
        let cases = scenarios.iter().flat_map(|(_, cases)| cases);
        let runs: usize = cases.map(|case| controllers(asked.as_ref(), case).len()).sum();
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg}")
            .expect("the template is constant");
        Bench {
            asked,
            seconds: args.seconds.unwrap_or(if args.quick { QUICK_SECONDS } else { SECONDS }),
            rounds,
            records: Vec::new(),
            // It draws when told to, never by itself: a thread that ticks takes time from what is measured.
            progress: ProgressBar::new(runs as u64 * u64::from(rounds)).with_style(style),
        }
    }

    /// Every controller in one case, taking turns.
    fn case(&mut self, case: &Case) -> Result<(), Failure> {
        let mut lab = Lab::make(case)?;
        let controllers = controllers(self.asked.as_ref(), case);
        let mut records: Vec<Record> = controllers.iter().map(|cc| Record::new(case, cc)).collect();
        for _ in 0..self.rounds {
            for (cc, record) in controllers.iter().zip(&mut records) {
                let what = format!("{}: {}, {cc}", case.scenario.name(), case.name);
                self.progress.set_message(what.clone());
                let outcome = run::run(&mut lab, case, cc, self.seconds);
                let outcome = outcome.map_err(|why| Failure::Trial(format!("{what}: {why}")))?;
                record.add(&outcome.measured, outcome.samples);
                self.progress.inc(1);
            }
        }
        self.records.append(&mut records);
        Ok(())
    }
}
