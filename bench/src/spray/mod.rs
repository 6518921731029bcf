//! `braid-perf spray`: path policies and loss recovery methods on a leaf-spine fabric with failing
//! links.
//!
//! The fabric is made of network namespaces ([`braid_lab`]). Every run is two processes of this
//! executable on two of its hosts, with its public options. Link balance is read from the kernel's
//! counters, not from the program under test.

mod lab;
mod plot;
mod record;
mod run;
mod scenario;
mod table;
mod timeline;
mod trial;
mod trouble;

use braid_lab::Trouble;
use braid_lab::pages::did_you_mean;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use self::lab::SpineLab;
use self::record::SprayRecord;
use self::run::Troubled;
use self::scenario::SprayScenario;
use self::trial::{BraidSender, Sender};
use crate::cli::SprayArgs;
use crate::failure::Failure;
use crate::results::ResultFiles;
use crate::{interrupt, stdio};

/// Default seconds of a run without events.
const SECONDS: f64 = 2.0;
const QUICK_SECONDS: f64 = 0.6;
/// Percent of the packets that a lossy spine drops.
const LOSS_PERCENT: f64 = 1.0;

#[derive(Serialize)]
struct SprayResults<'a> {
    message_bytes: u64,
    paths: usize,
    runs: &'a [SprayRecord],
}

/// Runs all scenarios, prints a table of each, and writes the requested files.
pub(crate) fn run(args: &SprayArgs) -> Result<(), Failure> {
    interrupt::take_networks_down();
    let files = ResultFiles::create(args.json.as_ref(), args.out.as_ref())?;
    let scenarios = choose(args)?;
    let mut spray = Spray::new(args, &scenarios);
    let done = spray.all(args, &scenarios);
    let was_interrupted = interrupt::interrupted(done)?;
    spray.progress.finish_and_clear();
    let plots = files.folder();
    files.write(&SprayResults {
        message_bytes: trial::MESSAGE_BYTES,
        paths: trial::PATHS,
        runs: &spray.records,
    })?;
    if was_interrupted {
        return Err(Failure::Interrupted);
    }
    plots.map_or(Ok(()), |folder| plot::all(folder, &spray.records))
}

fn choose(args: &SprayArgs) -> Result<Vec<SprayScenario>, Failure> {
    check_names(&args.only)?;
    let wanted = scenario::ALL.into_iter().filter(|scenario| match args.only.is_empty() {
        true => !args.quick || scenario.in_quick(),
        false => args.only.iter().any(|name| name == scenario.name()),
    });
    let Some(name) = &args.fabric else { return Ok(wanted.collect()) };
    let lab = SpineLab::find(name)?;
    let fitting: Vec<_> = wanted.filter(|scenario| scenario.suits(lab.plan())).collect();
    if fitting.is_empty() {
        return Err(Failure::Usage(format!(
            "no scenario suits fabric `{name}`; remove --fabric to make one for each scenario"
        )));
    }
    Ok(fitting)
}

/// Returns the names of the scenarios.
pub(crate) fn scenario_names() -> Vec<String> {
    scenario::ALL.iter().map(|scenario| scenario.name().to_owned()).collect()
}

fn check_names(names: &[String]) -> Result<(), Failure> {
    let known = scenario::ALL.map(SprayScenario::name);
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Failure::Usage(format!(
            "no scenario is called `{name}`; known names: {}{}",
            known.join(", "),
            did_you_mean(name, known)
        ))),
        None => Ok(()),
    }
}

struct Spray {
    quick: bool,
    seconds: f64,
    records: Vec<SprayRecord>,
    progress: ProgressBar,
}

impl Spray {
    fn new(args: &SprayArgs, scenarios: &[SprayScenario]) -> Self {
        let runs: usize = scenarios.iter().map(|scenario| scenario.senders(args.quick).len()).sum();
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg}")
            .expect("the template is constant");
        Spray {
            quick: args.quick,
            seconds: args.seconds.unwrap_or(if args.quick { QUICK_SECONDS } else { SECONDS }),
            records: Vec::new(),
            // Drawn on demand only: a thread that ticks would disturb the measurement.
            progress: ProgressBar::new(runs as u64).with_style(style),
        }
    }

    fn all(&mut self, args: &SprayArgs, scenarios: &[SprayScenario]) -> Result<(), Failure> {
        if let Some(name) = &args.fabric {
            return self.on(&SpineLab::find(name)?, scenarios);
        }
        let mut groups = scenarios.chunk_by(|a, b| a.plan() == b.plan());
        groups.try_for_each(|group| self.on(&SpineLab::make(group[0].plan())?, group))
    }

    /// Runs scenarios that share a fabric, until one fails. The records of the failed one so far
    /// are printed, too.
    fn on(&mut self, lab: &SpineLab, scenarios: &[SprayScenario]) -> Result<(), Failure> {
        for scenario in scenarios {
            let first = self.records.len();
            let done = self.scenario(lab, *scenario);
            let records = &self.records[first..];
            let print = || stdio::print(|out| table::print(out, *scenario, lab, records));
            if !records.is_empty() {
                self.progress.suspend(print)?;
            }
            done?;
        }
        Ok(())
    }

    fn scenario(&mut self, lab: &SpineLab, scenario: SprayScenario) -> Result<(), Failure> {
        let trouble = match scenario {
            SprayScenario::Loss => Some(Trouble::Lossy(LOSS_PERCENT)),
            SprayScenario::Slow => Some(Trouble::Slow(run::slowed(lab))),
            _ => None,
        };
        let trouble = trouble.map(|what| Troubled::make(lab, 0, what)).transpose()?;
        for sender in scenario.senders(self.quick) {
            if interrupt::is_requested() {
                return Err(Failure::Interrupted);
            }
            let what = describe(scenario, &sender);
            self.progress.set_message(what.clone());
            let record = self.one(lab, scenario, &sender);
            let named = |failure| Failure::Trial(format!("{what}: {failure}"));
            self.records.push(record.map_err(named)?);
            self.progress.inc(1);
        }
        trouble.map_or(Ok(()), Troubled::end)
    }

    fn one(
        &self,
        lab: &SpineLab,
        scenario: SprayScenario,
        sender: &Sender,
    ) -> Result<SprayRecord, Failure> {
        match (scenario, sender) {
            (
                SprayScenario::Cut | SprayScenario::Cuts | SprayScenario::FarCuts,
                Sender::BraidSender(braid),
            ) => trouble::cut(lab, scenario, braid, 1),
            (SprayScenario::CutTwo, Sender::BraidSender(braid)) => {
                trouble::cut(lab, scenario, braid, 2)
            }
            (SprayScenario::Flap, Sender::BraidSender(braid)) => trouble::flap(lab, braid),
            (SprayScenario::Many, Sender::BraidSender(braid)) => {
                run::many(lab, braid, self.seconds)
            }
            _ => run::steady(lab, scenario, sender, self.seconds),
        }
    }
}

fn describe(scenario: SprayScenario, sender: &Sender) -> String {
    let name = scenario.name();
    match sender {
        Sender::BraidSender(BraidSender { policy, recovery, .. }) => {
            format!("{name}: {policy}, {recovery}")
        }
        Sender::Tcp(streams) => format!("{name}: {streams} TCP stream(s)"),
    }
}
