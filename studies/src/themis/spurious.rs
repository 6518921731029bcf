//! Figure 1: the effect of random spraying on RNICs in a network without losses.

use super::outcome::{Sample, ThemisOutcome, measure};
use super::setup::{DELAY, PAYLOAD, ThemisControl, ThemisScheme, ThemisSetup, Timers};
use crate::{Axis, Claim, Effort, Figure, Kind, Point, Series, Spread, Study, Verdict, run_all};
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::LeafSpine;
use braid_sim::workload::{Groups, ring};

const RATE: Rate = Rate::from_gbps(100);
/// Four leaves with two hosts each. The paper shows eight nodes in two rings, but no switches.
const FABRIC: LeafSpine = LeafSpine {
    leaves: 4,
    hosts_per_leaf: 2,
    spines: 2,
    links_per_spine: 1,
    host_rate: RATE,
    fabric_rate: RATE,
    delay: DELAY,
};
const SEEDS: u32 = 3;
/// NS-3's default, the payload of table 1's packets, and that of the other studies.
const PAYLOADS: [u16; 3] = [1000, 1500, PAYLOAD];

/// A case of the figure.
#[derive(Clone, Copy, PartialEq, Debug)]
struct SpuriousCase {
    scheme: ThemisScheme,
    control: ThemisControl,
    payload: u16,
}

impl SpuriousCase {
    fn spraying(control: ThemisControl) -> SpuriousCase {
        SpuriousCase { scheme: ThemisScheme::Random, control, payload: PAYLOAD }
    }

    fn name(self) -> String {
        let control = match self.control {
            ThemisControl::Dcqcn(timers) => timers.name(),
            ThemisControl::Constant(percent) => format!("{percent} %"),
        };
        match (self.scheme, self.control, self.payload) {
            (ThemisScheme::Random, ThemisControl::Dcqcn(_), PAYLOAD) => control,
            (ThemisScheme::Random, _, payload) => format!("{payload} B"),
            (scheme, ..) => scheme.name().to_owned(),
        }
    }

    /// Returns whether the case is plotted over time.
    fn is_traced(self) -> bool {
        let shown = [Timers::RECOMMENDED, Timers::EAGER].map(ThemisControl::Dcqcn);
        let schemes = [ThemisScheme::Random, ThemisScheme::Themis];
        shown.contains(&self.control) && schemes.contains(&self.scheme) && self.payload == PAYLOAD
    }
}

/// A case and its runs, one per seed.
struct SpuriousRuns {
    case: SpuriousCase,
    runs: Vec<ThemisOutcome>,
}

impl SpuriousRuns {
    /// Returns a quantity in percent.
    fn percent(&self, of: impl Fn(&ThemisOutcome) -> f64) -> Vec<f64> {
        self.runs.iter().map(|run| 100.0 * of(run)).collect()
    }

    fn mean(&self, of: impl Fn(&ThemisOutcome) -> f64) -> f64 {
        Spread::of(&self.percent(of)).mean
    }
}

/// Returns all cases of a kind, in order.
fn of_kind(measured: &[SpuriousRuns], is: impl Fn(SpuriousCase) -> bool) -> Vec<&SpuriousRuns> {
    measured.iter().filter(|measured| is(measured.case)).collect()
}

fn is_dcqcn(case: SpuriousCase) -> bool {
    matches!(case.control, ThemisControl::Dcqcn(_))
}

/// Returns whether the case is random spraying with timers of the grid.
fn is_of_grid(case: SpuriousCase) -> bool {
    is_dcqcn(case) && case == SpuriousCase::spraying(case.control)
}

/// Adds the parts of the figure with their claims and choices.
pub(super) fn add(study: &mut Study, effort: &Effort) {
    let recommended = SpuriousCase::spraying(ThemisControl::Dcqcn(Timers::RECOMMENDED));
    let mut cases: Vec<SpuriousCase> = grid(effort)
        .into_iter()
        .map(|timers| SpuriousCase::spraying(ThemisControl::Dcqcn(timers)))
        .collect();
    for payload in PAYLOADS.into_iter().filter(|payload| *payload != PAYLOAD) {
        cases.push(SpuriousCase { payload, ..recommended });
    }
    cases.push(SpuriousCase { scheme: ThemisScheme::Themis, ..recommended });
    cases.push(SpuriousCase { scheme: ThemisScheme::ThemisLooksBack, ..recommended });
    cases.push(SpuriousCase { scheme: ThemisScheme::RandomGoBackN, ..recommended });
    for payload in PAYLOADS {
        let case = |percent| SpuriousCase {
            payload,
            ..SpuriousCase::spraying(ThemisControl::Constant(percent))
        };
        cases.extend(CONSTANT.map(case));
    }
    let measured = run(&cases, effort);
    let traced = of_kind(&measured, SpuriousCase::is_traced);
    study.figures.push(over_time(&traced, "fig01b", "retransmissions [% of packets]", |sample| {
        100.0 * sample.resent
    }));
    study.figures.push(over_time(&traced, "fig01c", "sending rate [Gb/s]", |sample| sample.gbps));
    let by_timers = of_kind(&measured, is_of_grid);
    study.figures.push(shares(&by_timers, "fig01d", "Random spraying by DCQCN timers TI/TD in us"));
    let variations = of_kind(&measured, |case| is_dcqcn(case) && !is_of_grid(case));
    study.figures.push(shares(
        &[&by_timers[..1], &variations].concat(),
        "fig01-variations",
        "Timers 900/4: random spraying, with smaller packets, and Themis",
    ));
    study.figures.push(by_rate(&of_kind(&measured, |case| !is_dcqcn(case))));
    study.figures.push(shares(
        &of_kind(&measured, is_at_papers_rate),
        "fig01-payload",
        "Random spraying at a constant 86 % of the line rate, by payload",
    ));
    study.claims.extend(claims(&measured));
    study.choices.extend(choices(&measured));
}

/// Constant rates in percent of the line rate; one is that of the paper.
const CONSTANT: [u64; 6] = [50, 70, 80, 86, 92, 98];
const PAPERS_RATE: u64 = 86;

fn is_at_papers_rate(case: SpuriousCase) -> bool {
    case.control == ThemisControl::Constant(PAPERS_RATE)
}

fn grid(effort: &Effort) -> Vec<Timers> {
    match effort.quick {
        true => vec![Timers::RECOMMENDED, Timers::EAGER],
        false => Timers::grid(),
    }
}

fn run(cases: &[SpuriousCase], effort: &Effort) -> Vec<SpuriousRuns> {
    let bytes = if effort.quick { 5_000_000 } else { 100_000_000 };
    let interval = Ps::from_micros(if effort.quick { 50 } else { 250 });
    let seeds = effort.seeds(SEEDS);
    let jobs: Vec<(SpuriousCase, u64)> =
        cases.iter().flat_map(|case| seeds.clone().map(move |seed| (*case, seed))).collect();
    let outcomes = run_all("themis fig 1", jobs, |(case, seed)| {
        let SpuriousCase { scheme, control, payload } = case;
        let setup = ThemisSetup { payload, ..ThemisSetup::new(scheme, control, RATE, seed) };
        let rings = Groups::strided(8, 2).and_then(|groups| ring(&groups, bytes));
        let workload = rings.expect("the paper's rings are possible");
        measure(setup.plan(&FABRIC, workload), RATE, setup.packet(), Some(interval))
    });
    let mut runs = outcomes.chunks(seeds.count()).map(<[ThemisOutcome]>::to_vec);
    cases
        .iter()
        .map(|case| SpuriousRuns { case: *case, runs: runs.next().unwrap_or_default() })
        .collect()
}

/// Plots the flow from node 0 to node 2 in the first run.
fn over_time(
    measured: &[&SpuriousRuns],
    id: &str,
    label: &str,
    value: impl Fn(&Sample) -> f64,
) -> Figure {
    let series = measured.iter().map(|measured| {
        let points = measured.runs[0].trace.iter();
        let name = match measured.case.scheme {
            ThemisScheme::Random => format!("random {}", measured.case.name()),
            scheme => scheme.name().to_owned(),
        };
        let points = points.map(|sample| Point::at(sample.at_us, &[value(sample)])).collect();
        Series { name, points }
    });
    Figure {
        id: id.to_owned(),
        title: "The flow from node 0 to node 2".to_owned(),
        x: Axis::linear("time [us]"),
        y: Axis::linear(label),
        kind: Kind::Lines,
        series: series.collect(),
    }
}

/// Plots the three quantities of the figure for each case.
fn shares(measured: &[&SpuriousRuns], id: &str, title: &str) -> Figure {
    let series = |name: &str, of: fn(&ThemisOutcome) -> f64| {
        let points = measured.iter().enumerate().map(|(group, measured)| {
            Point::bar(group, measured.case.name(), &measured.percent(of))
        });
        Series { name: name.to_owned(), points: points.collect() }
    };
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        x: Axis::linear(""),
        y: Axis::linear("share [%]"),
        kind: Kind::Bars,
        series: vec![
            series("retransmissions", |run| run.resent),
            series("sending rate", |run| run.sending_rate),
            series("throughput", |run| run.throughput),
        ],
    }
}

/// Plots retransmissions at a constant rate, which does not depend on them.
fn by_rate(measured: &[&SpuriousRuns]) -> Figure {
    let line = |payload| {
        let points = measured.iter().filter(|measured| measured.case.payload == payload);
        let points = points.filter_map(|measured| match measured.case.control {
            ThemisControl::Constant(percent) => {
                Some(Point::at(percent as f64, &measured.percent(|run| run.resent)))
            }
            ThemisControl::Dcqcn(_) => None,
        });
        Series { name: format!("{payload} B"), points: points.collect() }
    };
    Figure {
        id: "fig01-rate".to_owned(),
        title: "Random spraying at a constant rate".to_owned(),
        x: Axis::linear("sending rate [% of the line's]"),
        y: Axis::linear("retransmissions [% of packets]"),
        kind: Kind::Lines,
        series: PAYLOADS.map(line).into(),
    }
}

/// Tolerance of a share, in percentage points.
const NEAR: f64 = 2.0;

/// A number of the figure. The three belong together (71 % = 86 % of 84 %), but the paper does not
/// give this figure's timers. At a rate of 86 % it can be checked whether the others follow.
struct PaperShare {
    says: &'static str,
    percent: f64,
    of: fn(&ThemisOutcome) -> f64,
}

impl PaperShare {
    fn claim(self, at_papers_rate: &[&SpuriousRuns], of_grid: &[&SpuriousRuns]) -> Claim {
        let PaperShare { says, percent, of } = self;
        let by_payload: Vec<String> = at_papers_rate
            .iter()
            .map(|measured| format!("{:.1} % with {} B", measured.mean(of), measured.case.payload))
            .collect();
        let (min, max) = range(of_grid, of);
        let text = format!(
            "at a constant {PAPERS_RATE} % of the line rate {}; under DCQCN {min:.1} to {max:.1} \
                % over the grid of \
             timers with {PAYLOAD} B",
            by_payload.join(", ")
        );
        let near = (at_papers_rate[0].mean(of) - percent).abs() <= NEAR;
        claim(says, text, Verdict::of(near, "packets overtake each other less or more often here"))
    }
}

/// Returns the least and the most of the means.
fn range(measured: &[&SpuriousRuns], of: fn(&ThemisOutcome) -> f64) -> (f64, f64) {
    let all = measured.iter().map(|measured| measured.mean(of)).collect::<Vec<f64>>();
    let Spread { min, max, .. } = Spread::of(&all);
    (min, max)
}

/// Judges the rate, which follows from timers that the paper does not give.
fn rate(of_grid: &[&SpuriousRuns]) -> Claim {
    let recommended = of_grid[0].mean(|run| run.sending_rate);
    let (min, max) = range(of_grid, |run| run.sending_rate);
    let percent = PAPERS_RATE as f64;
    let why = format!(
        "the paper does not give this figure's timers, and they decide: the more often a NACK may \
            cut and the slower \
         the rate recovers, the lower the load, and with it reordering. {percent} % is {} the \
         grid's range",
        if (min..=max).contains(&percent) { "within" } else { "outside" }
    );
    let text = format!(
        "{recommended:.1} % with the recommended timers 900/4; {min:.1} to {max:.1} % over the grid"
    );
    let near = (recommended - percent).abs() <= NEAR;
    let verdict = if near { Verdict::Reproduced } else { Verdict::NotJudged(why) };
    claim("DCQCN, cut by NACKs, lets flows send at 86 % of the line rate", text, verdict)
}

fn claims(measured: &[SpuriousRuns]) -> Vec<Claim> {
    let of_grid = of_kind(measured, is_of_grid);
    let recommended = of_grid[0];
    let drops: u64 = measured.iter().flat_map(|case| &case.runs).map(|run| run.drops).sum();
    let resent = recommended.mean(|run| run.resent);
    let mut claims = vec![claim(
        "no packet is lost, and still packets are retransmitted",
        format!("{drops} packets lost in all runs; {resent:.2} % of packets retransmitted"),
        Verdict::of(drops == 0 && resent > 0.0, "packets are lost, or none is retransmitted"),
    )];
    let at_papers_rate = of_kind(measured, is_at_papers_rate);
    let shares = [
        PaperShare {
            says: "where flows send at 86 % of the line rate, 16 % of packets are spurious \
                retransmissions",
            percent: 16.0,
            of: |run| run.resent,
        },
        PaperShare {
            says: "where flows send at 86 % of the line rate, throughput is 71 % of the ideal",
            percent: 71.0,
            of: |run| run.throughput,
        },
    ];
    claims.extend(shares.into_iter().map(|share| share.claim(&at_papers_rate, &of_grid)));
    claims.push(rate(&of_grid));
    claims.push(cause(recommended));
    claims.push(throughout(&of_grid));
    claims.push(product(&of_grid));
    claims.extend(remedies(measured, recommended));
    claims
}

/// Judges whether a flow resends from the start to the end, with the timers under which it resends
/// most.
fn throughout(of_grid: &[&SpuriousRuns]) -> Claim {
    let resends = |measured: &&&SpuriousRuns| measured.mean(|run| run.resent);
    let traced = of_grid.iter().filter(|measured| measured.case.is_traced());
    let most = traced.max_by(|a, b| resends(a).total_cmp(&resends(b)));
    let trace = most.map_or(&[][..], |measured| &measured.runs[0].trace[..]);
    let shares: Vec<f64> = trace.iter().map(|sample| 100.0 * sample.resent).collect();
    let Spread { mean, min, .. } = Spread::of(&shares);
    claim(
        "the retransmission ratio of a flow stays high throughout the transmission",
        format!(
            "{:.1} % on average, at least {min:.1} % in any of {} intervals, timers {}",
            mean,
            shares.len(),
            most.map_or(String::new(), |measured| measured.case.name())
        ),
        Verdict::of(min > 0.5 * mean && mean > 1.0, "in some interval it is below half the mean"),
    )
}

/// Judges 71 % = 86 % of 84 %.
fn product(of_grid: &[&SpuriousRuns]) -> Claim {
    let apart = of_grid.iter().map(|measured| {
        let of = |of: fn(&ThemisOutcome) -> f64| measured.mean(of);
        let useful = 1.0 - of(|run| run.resent) / 100.0;
        (of(|run| run.throughput) - of(|run| run.sending_rate) * useful).abs()
    });
    let most = apart.fold(0.0, f64::max);
    claim(
        "throughput is the sending rate times the share of useful packets (71 % = 86 % of 84 %)",
        format!("at most {most:.2} points apart over the grid of timers"),
        Verdict::of(most < 1.0, "they are more than a point apart"),
    )
}

/// Judges go-back-N (section 1), and Themis on the same network.
fn remedies(measured: &[SpuriousRuns], recommended: &SpuriousRuns) -> [Claim; 2] {
    let of = |scheme| {
        let usual = SpuriousCase { scheme, ..recommended.case };
        of_kind(measured, |case| case == usual)[0]
    };
    let text = |runs: &SpuriousRuns| {
        format!(
            "{:.2} % resent, throughput {:.1} %",
            runs.mean(|run| run.resent),
            runs.mean(|run| run.throughput)
        )
    };
    let older = of(ThemisScheme::RandomGoBackN);
    let themis = [ThemisScheme::Themis, ThemisScheme::ThemisLooksBack].map(of);
    [
        claim(
            "RNICs with go-back-N drop what comes out of order, and do worse under spraying \
                (section 1)",
            format!("{}; selective repeat {}", text(older), text(recommended)),
            Verdict::of(
                older.mean(|run| run.throughput) < recommended.mean(|run| run.throughput),
                "it has as much throughput",
            ),
        ),
        claim(
            "Themis blocks the invalid NACKs: no spurious retransmission, and no slow start",
            format!(
                "as printed {}; looking back {}; without {}",
                text(themis[0]),
                text(themis[1]),
                text(recommended)
            ),
            Verdict::of(
                themis.iter().all(|runs| {
                    runs.mean(|run| run.resent) == 0.0 && runs.mean(|run| run.throughput) > 90.0
                }),
                "packets are resent, or the rate is cut",
            ),
        ),
    ]
}

fn claim(says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: "fig01".to_owned(), says: says.to_owned(), measured, verdict }
}

/// Judges whether NACKs alone reduce the rate.
fn cause(recommended: &SpuriousRuns) -> Claim {
    let marks: u64 = recommended.runs.iter().map(|run| run.marks).sum();
    let rate = recommended.mean(|run| run.sending_rate);
    claim(
        "no congestion occurs: all rate cuts are triggered by NACKs",
        format!("{marks} congestion marks, yet flows send at {rate:.1} % of the line rate"),
        Verdict::of(marks == 0 && rate < 95.0, "there are marks, or the rate is not cut"),
    )
}

fn choices(measured: &[SpuriousRuns]) -> Vec<String> {
    let small = of_kind(measured, |case| is_dcqcn(case) && case.payload == PAYLOADS[0])[0];
    vec![
        "Fig. 1: four leaves of two hosts, two spines; the paper shows eight nodes and no switches"
            .into(),
        format!(
            "Fig. 1: header 62 B, ACK 64 B; the payload is 4096 B where nothing else is said, \
                which the paper does not \
             state (its table 1 has an MTU of 1500 B, NS-3's default is 1000 B). With 1000 B and \
             the recommended timers \
             {:.2} % of packets are retransmitted, the rate is {:.1} % and the throughput {:.1} % \
             of the line's",
            small.mean(|run| run.resent),
            small.mean(|run| run.sending_rate),
            small.mean(|run| run.throughput)
        ),
    ]
}
