//! `braid-perf spray`: path policies and loss recoveries on a leaf-spine fabric, where links fail.
//!
//! The fabric is made of network namespaces ([`braid_lab`]); every run is two processes of this
//! executable on two of its hosts, as anybody would start them. Link balance is read from the kernel's
//! counters, not from the program that is being judged.

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
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use self::lab::Lab;
use self::record::Record;
use self::run::Troubled;
use self::scenario::Scenario;
use self::trial::{Braid, Sender};
use crate::cli::SprayArgs;
use crate::failure::Failure;
use crate::results::ResultFiles;
use crate::{interrupt, stdio};

/// Seconds of a run where nothing happens, unless told otherwise.
const SECONDS: f64 = 2.0;
const QUICK_SECONDS: f64 = 0.6;
/// Percent of the packets that a lossy spine loses.
const LOSS_PERCENT: f64 = 1.0;

#[derive(Serialize)]
struct Results<'a> {
    message_bytes: u64,
    paths: usize,
    runs: &'a [Record],
}

/// Runs all scenarios, prints a table of each, and writes what was asked for.
pub(crate) fn run(args: &SprayArgs) -> Result<(), Failure> {
    interrupt::take_networks_down()?;
    let files = ResultFiles::create(args.json.as_ref(), args.out.as_ref())?;
    let scenarios = choose(args)?;
    let mut spray = Spray::new(args, &scenarios);
    if let Some(name) = &args.fabric {
        spray.on(&Lab::find(name)?, &scenarios)?;
    } else {
        for group in scenarios.chunk_by(|a, b| a.plan() == b.plan()) {
            spray.on(&Lab::make(group[0].plan())?, group)?;
        }
    }
    spray.progress.finish_and_clear();
    let plots = files.folder();
    files.write(&Results {
        message_bytes: trial::MESSAGE_BYTES,
        paths: trial::PATHS,
        runs: &spray.records,
    })?;
    plots.map_or(Ok(()), |folder| plot::all(folder, &spray.records))
}

fn choose(args: &SprayArgs) -> Result<Vec<Scenario>, Failure> {
    check_names(&args.only)?;
    let wanted = scenario::ALL.into_iter().filter(|scenario| match args.only.is_empty() {
        true => !args.quick || scenario.in_quick(),
        false => args.only.iter().any(|name| name == scenario.name()),
    });
    let Some(name) = &args.fabric else { return Ok(wanted.collect()) };
    let lab = Lab::find(name)?;
    let fitting: Vec<_> = wanted.filter(|scenario| scenario.suits(lab.plan())).collect();
    if fitting.is_empty() {
        return Err(Failure::Usage(format!(
            "no scenario suits fabric `{name}`; leave out --fabric, and those that fit are made"
        )));
    }
    Ok(fitting)
}

fn check_names(names: &[String]) -> Result<(), Failure> {
    let known = scenario::ALL.map(Scenario::name);
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Failure::Usage(format!(
            "no scenario is called `{name}`; there is: {}",
            known.join(", ")
        ))),
        None => Ok(()),
    }
}

struct Spray {
    quick: bool,
    seconds: f64,
    records: Vec<Record>,
    progress: ProgressBar,
}

impl Spray {
    fn new(args: &SprayArgs, scenarios: &[Scenario]) -> Self {
        let runs: usize = scenarios.iter().map(|scenario| scenario.senders(args.quick).len()).sum();
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg}")
            .expect("the template is constant");
        Spray {
            quick: args.quick,
            seconds: args.seconds.unwrap_or(if args.quick { QUICK_SECONDS } else { SECONDS }),
            records: Vec::new(),
            // It draws when told to, never by itself: a thread that ticks takes time from what is measured.
            progress: ProgressBar::new(runs as u64).with_style(style),
        }
    }

    /// Runs scenarios that share a fabric.
    fn on(&mut self, lab: &Lab, scenarios: &[Scenario]) -> Result<(), Failure> {
        for scenario in scenarios {
            let first = self.records.len();
            self.scenario(lab, *scenario)?;
            let records = &self.records[first..];
            let print = || stdio::print(|out| table::print(out, *scenario, lab, records));
            self.progress.suspend(print)?;
        }
        Ok(())
    }

    fn scenario(&mut self, lab: &Lab, scenario: Scenario) -> Result<(), Failure> {
        let trouble = match scenario {
            Scenario::Loss => Some(Trouble::Lossy(LOSS_PERCENT)),
            Scenario::Slow => Some(Trouble::Slow(run::slowed(lab))),
            _ => None,
        };
        let trouble = trouble.map(|what| Troubled::make(lab, 0, what)).transpose()?;
        for sender in scenario.senders(self.quick) {
            let what = describe(scenario, &sender);
            self.progress.set_message(what.clone());
            let record = self.one(lab, scenario, &sender);
            let named = |failure| Failure::Trial(format!("{what}: {failure}"));
            self.records.push(record.map_err(named)?);
            self.progress.inc(1);
        }
        trouble.map_or(Ok(()), Troubled::end)
    }

    fn one(&self, lab: &Lab, scenario: Scenario, sender: &Sender) -> Result<Record, Failure> {
        match (scenario, sender) {
            (Scenario::Cut, Sender::Braid(braid)) => trouble::cut(lab, scenario, braid, 1),
            (Scenario::CutTwo, Sender::Braid(braid)) => trouble::cut(lab, scenario, braid, 2),
            (Scenario::Flap, Sender::Braid(braid)) => trouble::flap(lab, braid),
            (Scenario::Many, Sender::Braid(braid)) => run::many(lab, braid, self.seconds),
            _ => run::steady(lab, scenario, sender, self.seconds),
        }
    }
}

fn describe(scenario: Scenario, sender: &Sender) -> String {
    let name = scenario.name();
    match sender {
        Sender::Braid(Braid { policy, recovery, .. }) => format!("{name}: {policy}, {recovery}"),
        Sender::Tcp(streams) => format!("{name}: {streams} TCP stream(s)"),
    }
}
