//! `braid-sim compare`: one scenario under several policies, side by side.

use std::path::PathBuf;

use braid_cc::{CcConfig, parse_controllers};
use braid_lab::charts::{Axis, Figure, Kind, Point, Series, draw_all};
use braid_lb::LbPolicy;
use braid_sim::host::Recovery;
use braid_sim::report::{
    DOMINANT, Measured, Report, RunFailure, aligned, make_folder, run_scenario, wrapped,
    write_json, write_text,
};
use braid_sim::scenario::{Policies, Scenario, parse_recovery, parse_time};
use braid_sim::simulation::RunError;
use braid_sim::time::Ps;
use braid_transport::LossRecovery;
use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{progress, scenarios, stdio};

#[derive(Args, Clone, Debug)]
pub(crate) struct CompareArgs {
    /// Scenario file, or a name of `braid-sim list`; docs/simulator.md lists the keys.
    #[arg(value_name = "SCENARIO.toml")]
    file: PathBuf,
    /// Path policies.
    #[arg(long, value_name = "POLICY,..", value_delimiter = ',', required = true)]
    lb: Vec<LbPolicy>,
    /// Congestion controls, with their parameters: `fixed:1M,dcqcn:line=100G` [default: the
    /// library's]
    #[arg(long, value_name = "POLICY,..", value_parser = controllers, default_value_t,
        hide_default_value = true)]
    cc: Controllers,
    /// Loss recovery of all; `ideal` hides the cost of a policy [default: the library's]
    #[arg(long, value_name = "METHOD", value_parser = parse_recovery)]
    recovery: Option<Recovery>,
    /// Shortest retransmission time-out, instead of the scenario's, such as `100us`.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    min_rto: Option<Ps>,
    /// Simulated time after which a run fails, instead of the scenario's, such as `1s`.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    limit: Option<Ps>,
    /// Seed of the first run, instead of the scenario's.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Number of runs of each, instead of the scenario's; the seeds count up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// Write the results to this file too; `-` is standard output, and tables then go to standard
    /// error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write report.json, table.txt and compare.svg to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Controllers in the order of the command line.
#[derive(Clone, Debug)]
struct Controllers(Vec<CcConfig>);

impl Default for Controllers {
    fn default() -> Self {
        Controllers(vec![CcConfig::default()])
    }
}

impl std::fmt::Display for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(","))
    }
}

fn controllers(text: &str) -> Result<Controllers, String> {
    parse_controllers(text).map(Controllers).map_err(|why| why.to_string())
}

/// Runs the comparison.
///
/// # Errors
/// The scenario has an error, a run fails, or its results cannot be written.
pub(crate) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let mut scenario = Scenario::read(&scenarios::file(&args.file)?).map_err(RunFailure::from)?;
    args.limit.into_iter().for_each(|limit| scenario.set_limit(limit));
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    scenario.runs = args.runs.unwrap_or(scenario.runs);
    args.out.as_deref().map_or(Ok(()), make_folder)?;
    let pairs = args.lb.len() * args.cc.0.len();
    let (mut reports, mut unfinished) = (Vec::new(), Vec::new());
    for lb in &args.lb {
        for cc in &args.cc.0 {
            // The recovery of the scenario is replaced, because the comparison is about the
            // protocol that ships.
            let recovery = args.recovery.unwrap_or(Recovery::Protocol(LossRecovery::default()));
            let min_rto = args.min_rto;
            let policies = Policies { lb: *lb, cc: cc.clone(), recovery, min_rto };
            let number = reports.len() + unfinished.len() + 1;
            let name = format!("{number} of {pairs}: {lb} {cc}");
            match run_one(&name, &scenario.with_policies(policies)) {
                Ok(report) => reports.push(report),
                Err(RunFailure::Run { seed, why, .. }) => {
                    unfinished.push(Unfinished {
                        lb: lb.to_string(),
                        cc: cc.to_string(),
                        seed,
                        why,
                    });
                }
                Err(other) => return Err(other.into()),
            }
        }
    }
    let (head, table, notes) = (head(&scenario, &reports), table(&reports), notes(&reports));
    let failed = unfinished.iter().map(|of| wrapped(&of.to_string(), 2) + "\n").collect::<String>();
    let text = match reports.is_empty() {
        true => format!("{head}\n{failed}"),
        false => format!("{head}\n{table}{notes}{failed}"),
    };
    stdio::print_tables(&text, args.json.as_deref())?;
    let json = json(&scenario, &reports, &unfinished);
    if let Some(folder) = &args.out {
        write_json(&folder.join("report.json"), &json)?;
        write_text(&folder.join("table.txt"), &text)?;
        if !reports.is_empty() {
            draw_all(&figures(&reports), &folder.join("compare.svg"))?;
        }
    }
    stdio::write_json(&json, args.json.as_deref())?;
    match unfinished.len() {
        0 => Ok(()),
        failed => Err(Failure::Unfinished { failed, pairs }),
    }
}

/// A pair of policies without a result.
struct Unfinished {
    lb: String,
    cc: String,
    seed: u64,
    why: RunError,
}

impl std::fmt::Display for Unfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Unfinished { lb, cc, seed, why } = self;
        write!(f, "No result: {lb} {cc}, seed {seed}: {why}")
    }
}

fn run_one(name: &str, scenario: &Scenario) -> Result<Report, RunFailure> {
    let bar = progress::bar(name, scenario)?;
    let report = run_scenario(scenario, None, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    report
}

fn head(scenario: &Scenario, reports: &[Report]) -> String {
    let Some(Report { set_up, .. }) = reports.first() else { return String::new() };
    let about = format!("{}: {}", scenario.name, scenario.about);
    let what = format!(
        "{} hosts, {} switches, switch {}, paths {}, recovery {}, {} run(s) from seed {}",
        set_up.hosts,
        set_up.switches,
        set_up.switch,
        set_up.paths,
        set_up.recovery,
        scenario.runs,
        scenario.seed
    );
    format!("{}\n{}\n", wrapped(&about, 0), wrapped(&what, 0))
}

/// A quantity of a run: its heading in the table, its label in a figure, and its value.
struct ComparedQuantity {
    heading: &'static str,
    label: &'static str,
    of: fn(&Measured) -> f64,
    decimals: usize,
}

const QUANTITIES: [ComparedQuantity; 8] = [
    ComparedQuantity {
        heading: "slowdown",
        label: "completion time by its lower bound",
        of: |run| run.slowdown,
        decimals: 3,
    },
    ComparedQuantity {
        heading: "cct[us]",
        label: "completion time [us]",
        of: |run| run.cct_us,
        decimals: 1,
    },
    ComparedQuantity {
        heading: "p99[us]",
        label: "messages, 99 of 100 [us]",
        of: |run| run.message_us.p99,
        decimals: 1,
    },
    ComparedQuantity {
        heading: "p99/alone",
        label: "messages by their time alone, 99 of 100",
        of: |run| run.message_slowdown.p99,
        decimals: 2,
    },
    ComparedQuantity {
        heading: "max queue[pkt]",
        label: "longest queue [packets]",
        of: |run| f64::from(run.max_queue_packets),
        decimals: 0,
    },
    ComparedQuantity {
        heading: "resent",
        label: "packets sent again",
        of: |run| run.retransmissions as f64,
        decimals: 0,
    },
    ComparedQuantity {
        heading: "spurious[%]",
        label: "sent again needlessly [%]",
        of: |run| 100.0 * run.spurious_share,
        decimals: 2,
    },
    ComparedQuantity {
        heading: "drops",
        label: "packets lost",
        of: |run| run.drops.total as f64,
        decimals: 0,
    },
];

/// The quantities with a figure.
const DRAWN: [usize; 5] = [0, 2, 3, 4, 5];

fn values(report: &Report, of: fn(&Measured) -> f64) -> Vec<f64> {
    report.runs.iter().map(of).collect()
}

fn mean(report: &Report, of: fn(&Measured) -> f64) -> f64 {
    let values = values(report, of);
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Formats the means over the runs.
fn table(reports: &[Report]) -> String {
    // One column for both names, because both are repeated when the table continues below.
    let width = reports.iter().map(|report| report.set_up.lb.chars().count()).max().unwrap_or(0);
    let pair = |lb: &str, cc: &str| format!("{lb:<width$}  {cc}");
    let headings = QUANTITIES.iter().map(|each| each.heading.to_owned());
    let mut rows = vec![std::iter::once(pair("lb", "cc")).chain(headings).collect::<Vec<_>>()];
    for report in reports {
        let set_up = &report.set_up;
        let numbers =
            QUANTITIES.iter().map(|each| format!("{:.*}", each.decimals, mean(report, each.of)));
        rows.push(std::iter::once(pair(&set_up.lb, &set_up.cc)).chain(numbers).collect());
    }
    aligned(&rows)
}

/// Says which results are about time-outs rather than about the policies.
fn notes(reports: &[Report]) -> String {
    let mut dominated = Vec::new();
    for report in reports {
        let share = mean(report, |run| run.timeout_share);
        if share > DOMINANT {
            let Report { set_up, .. } = report;
            dominated.push(format!("{:.0} % of {} {}", 100.0 * share, set_up.lb, set_up.cc));
        }
    }
    if dominated.is_empty() {
        return String::new();
    }
    let text = format!(
        "Time-outs dominate {} of {} results: they take {} of the completion time. Such results \
         depend on min_rto and the loss recovery more than on the policies; compare --min-rto 100us \
         with --min-rto 1ms, or choose another --recovery.",
        dominated.len(),
        reports.len(),
        dominated.join(", ")
    );
    format!("\n{}\n", wrapped(&text, 0))
}

fn json(scenario: &Scenario, reports: &[Report], unfinished: &[Unfinished]) -> Value {
    let without = |Unfinished { lb, cc, seed, why }: &Unfinished| json!({ "lb": lb, "cc": cc, "seed": seed, "why": why.to_string() });
    json!({
        "scenario": scenario.name,
        "about": scenario.about,
        "seed": scenario.seed,
        "runs": scenario.runs,
        "compared": reports.iter().map(Report::to_json).collect::<Vec<_>>(),
        "unfinished": unfinished.iter().map(without).collect::<Vec<_>>(),
    })
}

/// Returns the figures: a group of bars per path policy, a bar per congestion control.
fn figures(reports: &[Report]) -> Vec<Figure> {
    DRAWN.iter().map(|index| figure(reports, &QUANTITIES[*index])).collect()
}

fn figure(reports: &[Report], quantity: &ComparedQuantity) -> Figure {
    let mut groups: Vec<&str> = Vec::new();
    let mut series: Vec<Series> = Vec::new();
    for report in reports {
        let (lb, cc) = (&report.set_up.lb, &report.set_up.cc);
        let group = groups.iter().position(|name| name == lb).unwrap_or_else(|| {
            groups.push(lb);
            groups.len() - 1
        });
        let point = Point::bar(group, lb, &values(report, quantity.of));
        match series.iter_mut().find(|series| series.name == *cc) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name: cc.clone(), points: vec![point] }),
        }
    }
    let points = || series.iter().flat_map(|series| &series.points);
    let least = points().map(|point| point.y.min).fold(f64::INFINITY, f64::min);
    let most = points().map(|point| point.y.max).fold(0.0, f64::max);
    // A wider spread is unreadable on a linear axis.
    let is_wide = least > 0.0 && most / least > 20.0;
    Figure {
        id: quantity.heading.to_owned(),
        title: quantity.label.to_owned(),
        x: Axis::linear(""),
        y: Axis { label: quantity.heading.to_owned(), log: is_wide },
        kind: Kind::Bars,
        series,
    }
}
