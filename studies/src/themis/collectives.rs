//! Figure 5: AllReduce and AllToAll in sixteen groups at once, by DCQCN's timers.

mod claims;

use self::claims::{Half, reductions};
use super::outcome::{ThemisOutcome, measure};
use super::setup::{DELAY, ThemisControl, ThemisScheme, ThemisSetup, Timers};
use crate::{Axis, Effort, Figure, Kind, Point, Series, Study, run_all};
use braid_sim::time::Rate;
use braid_sim::topology::LeafSpine;
use braid_sim::workload::{Groups, StartOrder, Workload, all_to_all, ring_all_reduce};

pub(super) const RATE: Rate = Rate::from_gbps(400);
const PAPERS_MEMBERS: u32 = 16;
const PAPERS_BYTES: u64 = 300_000_000;

/// The two halves of the figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ThemisCollective {
    AllReduce,
    AllToAll,
}

impl ThemisCollective {
    pub(super) const BOTH: [ThemisCollective; 2] =
        [ThemisCollective::AllReduce, ThemisCollective::AllToAll];

    pub(super) fn name(self) -> &'static str {
        match self {
            ThemisCollective::AllReduce => "AllReduce",
            ThemisCollective::AllToAll => "AllToAll",
        }
    }

    fn figure(self) -> &'static str {
        match self {
            ThemisCollective::AllReduce => "fig05a",
            ThemisCollective::AllToAll => "fig05b",
        }
    }

    /// Returns the percent by which Themis is faster than adaptive routing: the paper's range.
    fn claimed(self) -> (f64, f64) {
        match self {
            ThemisCollective::AllReduce => (15.6, 75.3),
            ThemisCollective::AllToAll => (11.5, 40.7),
        }
    }

    /// Returns the workload; `bytes` per interface are reduced, or sent to all members of its group
    /// in equal parts.
    pub(super) fn workload(self, scale: ThemisScale, bytes: u64) -> Workload {
        let groups = Groups::strided(scale.members * scale.members, scale.members);
        let groups = groups.expect("as many groups as interfaces per leaf");
        let workload = match self {
            ThemisCollective::AllReduce => ring_all_reduce(&groups, bytes),
            ThemisCollective::AllToAll => {
                all_to_all(&groups, bytes / u64::from(scale.members), StartOrder::Rotated)
            }
        };
        workload.expect("lengths are possible")
    }
}

/// The number of leaves, spines, interfaces per leaf, groups and members of a group; and the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ThemisScale {
    pub(super) members: u32,
    pub(super) bytes: u64,
}

impl ThemisScale {
    pub(super) fn of(effort: &Effort) -> ThemisScale {
        match effort.quick {
            true => ThemisScale { members: 4, bytes: 2_000_000 },
            false => ThemisScale { members: PAPERS_MEMBERS, bytes: 16_000_000 },
        }
    }

    /// Returns the other sizes for which the figure is repeated.
    fn other_sizes(self) -> Vec<u64> {
        let mut sizes = vec![self.bytes / 4, self.bytes * 4];
        if self.members == PAPERS_MEMBERS {
            sizes.push(PAPERS_BYTES);
        }
        sizes
    }

    pub(super) fn fabric(self) -> LeafSpine {
        LeafSpine {
            leaves: self.members,
            hosts_per_leaf: self.members,
            spines: self.members,
            links_per_spine: 1,
            host_rate: RATE,
            fabric_rate: RATE,
            delay: DELAY,
        }
    }
}

/// One run, with the completion time of the slowest group in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CollectiveCase {
    collective: ThemisCollective,
    scheme: ThemisScheme,
    timers: Timers,
    bytes: u64,
}

struct CollectiveRun {
    case: CollectiveCase,
    completion_us: f64,
    drops: u64,
    pauses: u64,
    marks: u64,
    packets: u64,
}

/// Adds both halves with their claims, dependences and choices.
pub(super) fn add(study: &mut Study, effort: &Effort) {
    let scale = ThemisScale::of(effort);
    let timers = match effort.quick {
        true => vec![Timers::RECOMMENDED, Timers::EAGER],
        false => Timers::grid(),
    };
    let measured = run(&cases(scale, &timers), scale, effort);
    for collective in ThemisCollective::BOTH {
        study.figures.push(by_timers(&measured, collective, scale, &timers));
    }
    study.figures.push(by_scheme(&measured, scale));
    study.figures.push(by_size(&measured));
    for collective in ThemisCollective::BOTH {
        let half = Half { measured: &measured, collective, scale, timers: &timers };
        study.claims.extend(half.claims());
    }
    study.choices.extend(choices(&measured, scale));
}

/// The schemes of the figure.
const COMPARED: [ThemisScheme; 3] =
    [ThemisScheme::Ecmp, ThemisScheme::Adaptive, ThemisScheme::Themis];
/// The schemes compared with the recommended timers only.
const BESIDE: [ThemisScheme; 4] = [
    ThemisScheme::Random,
    ThemisScheme::Shortest,
    ThemisScheme::PsnSpraying,
    ThemisScheme::ThemisLooksBack,
];

fn cases(scale: ThemisScale, timers: &[Timers]) -> Vec<CollectiveCase> {
    let mut cases = Vec::new();
    for collective in ThemisCollective::BOTH {
        let case = |scheme, timers, bytes| CollectiveCase { collective, scheme, timers, bytes };
        let grid = timers.iter().flat_map(|timers| COMPARED.map(|scheme| (scheme, *timers)));
        cases.extend(grid.map(|(scheme, timers)| case(scheme, timers, scale.bytes)));
        let recommended = Timers::RECOMMENDED;
        cases.extend(BESIDE.map(|scheme| case(scheme, recommended, scale.bytes)));
        for bytes in scale.other_sizes() {
            cases.extend(SIZED.map(|scheme| case(scheme, recommended, bytes)));
        }
    }
    // The longest first, so that no core is left with one at the end.
    cases.sort_by_key(|case| std::cmp::Reverse(case.bytes));
    cases
}

/// The schemes compared at several sizes.
const SIZED: [ThemisScheme; 2] = [ThemisScheme::Adaptive, ThemisScheme::Themis];

fn run(cases: &[CollectiveCase], scale: ThemisScale, effort: &Effort) -> Vec<CollectiveRun> {
    let seed = effort.first_seed;
    run_all("themis fig 5", cases.to_vec(), |case| {
        let CollectiveCase { collective, scheme, timers, bytes } = case;
        let control = ThemisControl::Dcqcn(timers);
        let setup = ThemisSetup::new(scheme, control, RATE, seed);
        let plan = setup.plan(&scale.fabric(), collective.workload(scale, bytes));
        let outcome = measure(plan, RATE, setup.packet(), None);
        let ThemisOutcome { completion_us, drops, pauses, marks, packets, .. } = outcome;
        CollectiveRun { case, completion_us, drops, pauses, marks, packets }
    })
}

fn completion_us(measured: &[CollectiveRun], case: CollectiveCase) -> f64 {
    let found = measured.iter().find(|measured| measured.case == case);
    found.expect("every case of the figures was run").completion_us
}

fn by_timers(
    measured: &[CollectiveRun],
    collective: ThemisCollective,
    scale: ThemisScale,
    timers: &[Timers],
) -> Figure {
    let series = COMPARED.map(|scheme| {
        let points = timers.iter().enumerate().map(|(group, timers)| {
            let case = CollectiveCase { collective, scheme, timers: *timers, bytes: scale.bytes };
            Point::bar(group, timers.name(), &[completion_us(measured, case)])
        });
        Series { name: scheme.name().to_owned(), points: points.collect() }
    });
    let (name, megabytes) = (collective.name(), scale.bytes as f64 / 1e6);
    Figure {
        id: collective.figure().to_owned(),
        title: format!("{name} of {megabytes} MB by DCQCN timers TI/TD in us"),
        x: Axis::linear(""),
        y: Axis::log("slowest group's completion [us]"),
        kind: Kind::Bars,
        series: series.to_vec(),
    }
}

fn by_scheme(measured: &[CollectiveRun], scale: ThemisScale) -> Figure {
    let schemes = COMPARED.into_iter().chain(BESIDE);
    let series = schemes.map(|scheme| {
        let points = ThemisCollective::BOTH.into_iter().enumerate().map(|(group, collective)| {
            let timers = Timers::RECOMMENDED;
            let case = CollectiveCase { collective, scheme, timers, bytes: scale.bytes };
            Point::bar(group, collective.name(), &[completion_us(measured, case)])
        });
        Series { name: scheme.name().to_owned(), points: points.collect() }
    });
    Figure {
        id: "fig05-schemes".to_owned(),
        title: "All schemes with the recommended timers 900/4".to_owned(),
        x: Axis::linear(""),
        y: Axis::linear("slowest group's completion [us]"),
        kind: Kind::Bars,
        series: series.collect(),
    }
}

fn by_size(measured: &[CollectiveRun]) -> Figure {
    let mut series = Vec::new();
    for collective in ThemisCollective::BOTH {
        let mut points: Vec<Point> = reductions_by_size(measured, collective)
            .map(|(bytes, percent)| Point::at(bytes as f64 / 1e6, &[percent]))
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        series.push(Series { name: collective.name().to_owned(), points });
    }
    Figure {
        id: "fig05-size".to_owned(),
        title: "Themis against adaptive routing by size, timers 900/4".to_owned(),
        x: Axis::log("size [MB]"),
        y: Axis::linear("shorter completion [%]"),
        kind: Kind::Lines,
        series,
    }
}

/// Returns the percent by which Themis is faster than adaptive routing with the recommended timers,
/// for each size.
fn reductions_by_size(
    measured: &[CollectiveRun],
    collective: ThemisCollective,
) -> impl Iterator<Item = (u64, f64)> + '_ {
    let themis = measured.iter().filter(move |measured| {
        let CollectiveCase { scheme, timers, .. } = measured.case;
        let is_wanted = scheme == ThemisScheme::Themis && timers == Timers::RECOMMENDED;
        is_wanted && measured.case.collective == collective
    });
    themis.map(|themis| {
        let adaptive = CollectiveCase { scheme: ThemisScheme::Adaptive, ..themis.case };
        (themis.case.bytes, reduction(completion_us(measured, adaptive), themis.completion_us))
    })
}

/// Returns the reduction in percent of `from`.
fn reduction(from: f64, to: f64) -> f64 {
    100.0 * (from - to) / from
}

/// Formats the pauses in all runs of each scheme: "ECMP 12, Themis 0".
fn pauses_by_scheme(measured: &[CollectiveRun]) -> String {
    let of = |scheme| {
        let runs = measured.iter().filter(|run| run.case.scheme == scheme);
        format!("{} {}", scheme.name(), runs.map(|run| run.pauses).sum::<u64>())
    };
    COMPARED.into_iter().chain(BESIDE).map(of).collect::<Vec<_>>().join(", ")
}

fn choices(measured: &[CollectiveRun], scale: ThemisScale) -> Vec<String> {
    let drops: u64 = measured.iter().map(|measured| measured.drops).sum();
    let sizes = ThemisCollective::BOTH
        .map(|collective| format!("{} {}", collective.name(), reductions(measured, collective)));
    vec![
        format!(
            "Fig. 5: over the timers {} MB instead of 300 MB, one seed: the paper's size takes \
                minutes for each of \
             72 points. Themis' advantage over adaptive routing with 900/4 by size: {}",
            scale.bytes as f64 / 1e6,
            sizes.join("; ")
        ),
        "Fig. 5: AllReduce goes round a ring; in AllToAll an interface sends the given size in \
            equal parts \
         to the members of its group, itself included, all at once in rotated order"
            .into(),
        format!(
            "Buffers of 64 MB per switch are shared with a dynamic threshold (alpha 1), and a \
                link that fills its \
             part is stopped (PFC). In all runs of figure 5 {drops} packets were lost; pause \
             frames: {}",
            pauses_by_scheme(measured)
        ),
    ]
}
