//! `braid-perf congestion`: congestion controls on bottlenecks.
//!
//! The networks are emulated ([`braid_lab::emulator`]): rates, queues and delays are exact.
//! Queueing delays and losses are read from the emulator's trace, not from the program under test.
//! Every flow is two processes of this executable on two hosts, without privilege. Controllers take
//! turns, round by round.

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
use braid_lab::pages::did_you_mean;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use self::case::CongestionCase;
use self::lab::EmulatedLab;
pub(crate) use self::options::CongestionOptions;
use self::record::ControllerRecord;
use self::scenario::CongestionScenario;
use crate::failure::Failure;
use crate::results::ResultFiles;
use crate::{interrupt, stdio};

const SECONDS: f64 = 5.0;
const QUICK_SECONDS: f64 = 1.5;
const ROUNDS: u32 = 3;

#[derive(Serialize)]
struct CongestionResults<'a> {
    message_bytes: u64,
    run_seconds: f64,
    cases: &'a [ControllerRecord],
}

/// Runs all scenarios, prints a table of each, and writes the requested files.
pub(crate) fn run(args: &CongestionOptions) -> Result<(), Failure> {
    interrupt::take_networks_down();
    let files = ResultFiles::create(args.json.as_ref(), args.out.as_ref())?;
    let scenarios = choose(args)?;
    let mut bench = Bench::new(args, &scenarios);
    let (mut tables, mut was_interrupted) = (Vec::new(), false);
    for (scenario, cases) in &scenarios {
        let first = bench.records.len();
        let done = cases.iter().try_for_each(|case| bench.case(case));
        was_interrupted = interrupt::interrupted(done)?;
        let records = &bench.records[first..];
        let print = || stdio::print(|out| table::print(out, *scenario, records));
        if !records.is_empty() {
            bench.progress.suspend(print)?;
        }
        tables.push(table::markdown(*scenario, records));
        if was_interrupted {
            break;
        }
    }
    bench.progress.finish_and_clear();
    let folder = files.folder();
    files.write(&CongestionResults {
        message_bytes: flow::MESSAGE_BYTES,
        run_seconds: bench.seconds,
        cases: &bench.records,
    })?;
    if was_interrupted {
        return Err(Failure::Interrupted);
    }
    folder.map_or(Ok(()), |folder| write(folder, &tables, &bench.records))?;
    if args.quick { expect::check(&bench.records) } else { Ok(()) }
}

fn write(folder: &Path, tables: &[String], records: &[ControllerRecord]) -> Result<(), Failure> {
    let file = folder.join("tables.md");
    let what = || format!("cannot write {}", file.display());
    std::fs::write(&file, tables.join("\n")).map_err(|why| Failure::Io { what: what(), why })?;
    plot::all(folder, records)
}

/// Returns the names of the scenarios.
fn scenario_names() -> Vec<String> {
    scenario::ALL.iter().map(|scenario| scenario.name().to_owned()).collect()
}

/// Returns the scenarios with their cases that the command line selects.
fn choose(
    args: &CongestionOptions,
) -> Result<Vec<(CongestionScenario, Vec<CongestionCase>)>, Failure> {
    let known = scenario::ALL.map(CongestionScenario::name);
    if let Some(name) = args.only.iter().find(|name| !known.contains(&name.as_str())) {
        let text = format!(
            "no scenario is called `{name}`; known names: {}{}",
            known.join(", "),
            did_you_mean(name, known)
        );
        return Err(Failure::Usage(text));
    }
    let wanted = |scenario: &CongestionScenario| match args.only.is_empty() {
        true => !args.quick || scenario.in_quick(),
        false => args.only.iter().any(|name| name == scenario.name()),
    };
    let fits =
        |case: &CongestionCase| args.case.as_ref().is_none_or(|text| case.name.contains(text));
    let with_cases = |scenario: CongestionScenario| {
        (scenario, scenario.cases(args.quick).into_iter().filter(fits).collect::<Vec<_>>())
    };
    let mut chosen: Vec<_> = scenario::ALL.into_iter().filter(wanted).map(with_cases).collect();
    chosen.retain(|(_, cases)| !cases.is_empty());
    match (&args.case, chosen.is_empty()) {
        (Some(text), true) => Err(Failure::Usage(format!("no case has `{text}` in its name"))),
        _ => Ok(chosen),
    }
}

/// Returns the default controller, then all others that need no parameter.
fn usual_controllers() -> Vec<CcConfig> {
    let mut all = vec![CcConfig::default()];
    for name in controller_names() {
        all.extend(name.parse::<CcConfig>().ok().filter(|cc| !all.contains(cc)));
    }
    all
}

fn controllers(asked: Option<&Vec<CcConfig>>, case: &CongestionCase) -> Vec<CcConfig> {
    let usual = || usual_controllers().into_iter().chain(case.more_controllers.iter().cloned());
    asked.map_or_else(|| usual().collect(), Vec::clone)
}

struct Bench {
    /// The controllers of the command line. `None`: the usual ones and those of the case.
    asked: Option<Vec<CcConfig>>,
    seconds: f64,
    rounds: u32,
    records: Vec<ControllerRecord>,
    progress: ProgressBar,
}

impl Bench {
    fn new(
        args: &CongestionOptions,
        scenarios: &[(CongestionScenario, Vec<CongestionCase>)],
    ) -> Self {
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
            // Drawn on demand only: a thread that ticks would disturb the measurement.
            progress: ProgressBar::new(runs as u64 * u64::from(rounds)).with_style(style),
        }
    }

    /// Runs every controller in one case, in turn.
    fn case(&mut self, case: &CongestionCase) -> Result<(), Failure> {
        let mut lab = EmulatedLab::make(case)?;
        let controllers = controllers(self.asked.as_ref(), case);
        let mut records: Vec<ControllerRecord> =
            controllers.iter().map(|cc| ControllerRecord::new(case, cc)).collect();
        for _ in 0..self.rounds {
            for (cc, record) in controllers.iter().zip(&mut records) {
                if interrupt::is_requested() {
                    return Err(Failure::Interrupted);
                }
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
