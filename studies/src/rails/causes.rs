//! Experiments on parameters that the paper does not give, which explain why its claims are
//! reproduced or not.

use braid_lab::traffic::{Phase, Workload};

use super::load::{Load, Numbering};
use super::outcome::RailsOutcome;
use super::results::{Results, bars, listed};
use super::scale::RailsScale;
use super::scheme::RailsScheme;
use super::setup::RailsSetup;
use super::skew::{RECEIVERS, SENDERS};
use crate::{Axis, Figure, Kind, Point, Series, Study};

/// A change to a set-up.
type RailsChange = (&'static str, fn(RailsSetup) -> RailsSetup);

/// Schemes under several changes, by completion time over T*.
struct Cause {
    id: &'static str,
    title: &'static str,
    load: Load,
    schemes: &'static [RailsScheme],
    changes: &'static [RailsChange],
}

const CORE: Cause = Cause {
    id: "causes-core",
    title: "Uniform load by uplinks of a leaf for each of its interfaces",
    load: Load::UNIFORM,
    schemes: &RailsScheme::COMPARED,
    changes: &[
        ("half", |usual| RailsSetup { spines: usual.domains / 2, ..usual }),
        ("one to one", |usual| usual),
        ("twice", |usual| RailsSetup { spines: 2 * usual.domains, ..usual }),
    ],
};
const DOMAINS: Cause = Cause {
    id: "causes-domains",
    title: "Uniform load by domains",
    load: Load::UNIFORM,
    schemes: &RailsScheme::COMPARED,
    changes: &[
        ("usual", |usual| usual),
        ("twice as many", |usual| RailsSetup {
            domains: 2 * usual.domains,
            spines: 2 * usual.spines,
            ..usual
        }),
    ],
};
const CONTROL: Cause = Cause {
    id: "causes-control",
    title: "One domain to another, from one GPU to one, by window or control",
    load: Load::FromOne,
    schemes: &[RailsScheme::ECMP, RailsScheme::REPS, RailsScheme::RAILS],
    changes: &[
        ("64 KB", |usual| RailsSetup { cc: "fixed:64K", ..usual }),
        ("400 KB", |usual| usual),
        ("Swift", |usual| RailsSetup { cc: "swift:start=400000", ..usual }),
    ],
};
const PLACEMENT: Cause = Cause {
    id: "causes-placement",
    title: "Sparsity of five eighths by where the idle GPUs are",
    load: Load::Gpus(Workload::Sparse(0.625), Numbering::Across),
    schemes: &RailsScheme::COMPARED,
    changes: &[
        ("5 of 8 GPUs of each domain", |usual| usual),
        ("5 of 8 domains", |usual| RailsSetup {
            load: Load::Gpus(Workload::Sparse(0.625), Numbering::ByDomain),
            ..usual
        }),
    ],
};
const PATHS: Cause = Cause {
    id: "causes-path",
    title: "Other readings of the data paths",
    load: Load::UNIFORM,
    schemes: &[
        RailsScheme::ECMP,
        RailsScheme::ECMP_ANY,
        RailsScheme::MIN_RTT,
        RailsScheme::MIN_RTT_ALIGNED,
        RailsScheme::REPS,
        RailsScheme::REPS_OWN,
        RailsScheme::REPS_ALIGNED,
        RailsScheme::RAILS,
        RailsScheme::ONLINE,
    ],
    changes: &[
        ("uniform", |usual| usual),
        ("senders", |usual| RailsSetup { load: SENDERS, ..usual }),
        ("receivers", |usual| RailsSetup { load: RECEIVERS, ..usual }),
    ],
};
const QUEUES: Cause = Cause {
    id: "causes-queue",
    title: "Skewed senders by what may wait for an interface",
    load: SENDERS,
    schemes: &[RailsScheme::MIN_RTT, RailsScheme::REPS],
    changes: &[
        ("32 KiB", |usual| RailsSetup { send_queue: 32 << 10, ..usual }),
        ("256 KiB", |usual| usual),
        ("any", |usual| RailsSetup { send_queue: u64::MAX, ..usual }),
    ],
};
const NVLINK: Cause = Cause {
    id: "causes-nvlink",
    title: "An expert's data on one GPU, by the rate of a GPU's NVLink",
    load: Load::Sparse(Phase::Start),
    schemes: &[RailsScheme::ECMP, RailsScheme::MIN_RTT, RailsScheme::RAILS],
    changes: &[
        ("R2", |usual| RailsSetup { nvlink: Some(1), ..usual }),
        ("2 R2", |usual| RailsSetup { nvlink: Some(2), ..usual }),
        ("3 R2", |usual| RailsSetup { nvlink: Some(3), ..usual }),
        ("4 R2", |usual| RailsSetup { nvlink: Some(4), ..usual }),
        ("8 R2", |usual| RailsSetup { nvlink: Some(8), ..usual }),
        ("no limit", |usual| usual),
    ],
};
const CHUNKS: Cause = Cause {
    id: "causes-chunk",
    title: "RailS by its longest chunk",
    load: RECEIVERS,
    schemes: &[RailsScheme::RAILS],
    changes: &[
        ("4 KiB", |usual| RailsSetup { chunk: 4 << 10, ..usual }),
        ("32 KiB", |usual| usual),
        ("256 KiB", |usual| RailsSetup { chunk: 256 << 10, ..usual }),
        ("whole flows", |usual| RailsSetup { chunk: u64::MAX / 2, ..usual }),
    ],
};

const SIZES: Cause = Cause {
    id: "causes-size",
    title: "Uniform load by what is sent",
    load: Load::UNIFORM,
    schemes: &[RailsScheme::ECMP, RailsScheme::RAILS],
    changes: &[
        ("a quarter", |usual| RailsSetup { mean: usual.mean / 4, ..usual }),
        ("usual", |usual| usual),
        ("four times", |usual| RailsSetup { mean: 4 * usual.mean, ..usual }),
    ],
};

const EXPERIMENTS: [&Cause; 9] =
    [&PATHS, &CORE, &DOMAINS, &CONTROL, &PLACEMENT, &QUEUES, &NVLINK, &CHUNKS, &SIZES];

/// The exponents of Zipf.
const EXPONENTS: [f64; 6] = [0.6, 0.9, 1.05, 1.2, 1.5, 2.0];
/// A kind of skew, by exponent.
type Skew = (&'static str, fn(f64) -> Load);
const SKEWS: [Skew; 2] = [("senders", Load::skewed_senders), ("receivers", Load::skewed_receivers)];

impl Cause {
    fn setup(
        &self,
        scale: &RailsScale,
        scheme: RailsScheme,
        of: fn(RailsSetup) -> RailsSetup,
    ) -> RailsSetup {
        of(scale.setup(scheme, self.load))
    }

    fn setups(&self, scale: &RailsScale) -> Vec<RailsSetup> {
        let schemes = self.schemes.iter();
        schemes
            .flat_map(|scheme| self.changes.iter().map(|(_, of)| self.setup(scale, *scheme, *of)))
            .collect()
    }

    fn figure(&self, results: &Results) -> Figure {
        let head = [self.id, self.title, "completion time over T*"];
        bars(head, self.changes, self.schemes, |scheme, of| {
            results.runs.values(&self.setup(&results.scale, scheme, of), RailsOutcome::over_bound)
        })
    }

    /// Formats a quantity under each change: `half: ECMP 2.17, RailS 1.09; ...`.
    fn text(&self, results: &Results, of: impl Fn(&RailsSetup) -> String) -> String {
        let each = self.changes.iter().map(|(name, change)| {
            let of = |scheme| of(&self.setup(&results.scale, scheme, *change));
            format!("{name}: {}", listed(self.schemes, of))
        });
        each.collect::<Vec<_>>().join("; ")
    }

    fn over_bound(&self, results: &Results) -> String {
        self.text(results, |setup| {
            format!("{:.2}", results.runs.mean(setup, RailsOutcome::over_bound))
        })
    }
}

pub(super) fn setups(scale: &RailsScale) -> Vec<RailsSetup> {
    let mut all: Vec<RailsSetup> =
        EXPERIMENTS.iter().flat_map(|experiment| experiment.setups(scale)).collect();
    for (_, load) in SKEWS {
        let loads = EXPONENTS.iter().map(|exponent| load(*exponent));
        all.extend(loads.flat_map(|load| {
            [RailsScheme::PLB, RailsScheme::RAILS].map(|scheme| scale.setup(scheme, load))
        }));
    }
    all.extend(tie_loads().map(|load| scale.setup(RailsScheme::TIES_BY_GPU, load)));
    all
}

pub(super) fn add(results: &Results, study: &mut Study) {
    study.figures.extend(EXPERIMENTS.iter().map(|experiment| experiment.figure(results)));
    study.figures.push(by_exponent(results));
    study.choices.push(format!(
        "Figure causes-domains has twice as many domains, completion time over T*: {}",
        DOMAINS.over_bound(results)
    ));
    study.choices.push(format!(
        "A third of the bandwidth-delay product for a window spoils theorem 1; completion time \
            over T* by window: {}",
        CONTROL.over_bound(results)
    ));
    study.choices.push(ties(results));
    let lost = results.runs.sum(|run| run.lost);
    study.choices.push(format!("{lost} packets were lost in all runs"));
}

fn by_exponent(results: &Results) -> Figure {
    let series = SKEWS.map(|(name, load)| {
        let over = |exponent: &f64| {
            let base = (RailsScheme::PLB, RailsOutcome::bus_gbps as fn(&RailsOutcome) -> f64);
            results.over((RailsScheme::RAILS, RailsOutcome::bus_gbps), base, load(*exponent))
        };
        let points = EXPONENTS.iter().map(|exponent| Point::at(*exponent, &over(exponent)));
        Series { name: name.to_owned(), points: points.collect() }
    });
    Figure {
        id: "causes-zipf".to_owned(),
        title: "RailS by how skewed the load is".to_owned(),
        x: Axis::linear("exponent of Zipf"),
        y: Axis::linear("bus bandwidth over PLB's"),
        kind: Kind::Lines,
        series: series.into(),
    }
}

pub(super) fn exponent(results: &Results) -> String {
    let times = |load| results.times(RailsScheme::RAILS, RailsScheme::PLB, load);
    let each = EXPONENTS[1..3].iter().map(|exponent| {
        let [senders, receivers] = SKEWS.map(|(_, load)| times(load(*exponent)));
        format!("{senders:.2} and {receivers:.2} with {exponent}")
    });
    format!(
        "the exponent of Zipf is unstated and decides: RailS has so many times PLB's bus \
            bandwidth for skewed senders and receivers: \
         {} (figure causes-zipf)",
        each.collect::<Vec<_>>().join(", ")
    )
}

pub(super) fn collisions() -> &'static str {
    "every interface carries as much, so that only collisions on the way through the spines make \
        a difference, which RailS does not \
     take; how many uplinks there are is unstated (figure causes-core)"
}

pub(super) fn idle_receivers() -> &'static str {
    "where the idle receivers are is unstated, and decides: a domain whose idle GPUs have idle \
        interfaces can use them, one without \
     cannot gain (figure causes-placement); with k of 8 GPUs receiving in each domain the bound \
     is 8/k"
}

pub(super) fn busy_interfaces(results: &Results) -> String {
    let error = |setup: &RailsSetup| {
        format!("{:.3}", results.runs.mean(setup, |run| run.send_mse().of_max))
    };
    format!(
        "an interface that is busy takes no more here, so that a busy host uses all of them, \
            whatever its policy; how much may wait \
         for an interface decides what the others do (figure causes-queue). Sending errors by \
         that: {}",
        QUEUES.text(results, error)
    )
}

pub(super) fn where_flows_end() -> &'static str {
    "all that ends at the destination GPU's own interface is bound by that, and all that ends at \
        the sender's rail is not, whatever \
     the scheme (figure causes-path)"
}

/// Formats RailS' time over T* by message size.
pub(super) fn sizes(results: &Results) -> String {
    let each = SIZES.changes.iter().map(|(name, change)| {
        let setup = SIZES.setup(&results.scale, RailsScheme::RAILS, *change);
        format!("{name} {:.3}", results.runs.mean(&setup, RailsOutcome::over_bound))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the time over T* for the largest size.
pub(super) fn largest(results: &Results) -> f64 {
    let (_, change) = SIZES.changes[SIZES.changes.len() - 1];
    let setup = SIZES.setup(&results.scale, RailsScheme::RAILS, change);
    results.runs.mean(&setup, RailsOutcome::over_bound)
}

pub(super) fn nvlink(results: &Results) -> String {
    let sooner = NVLINK.changes.iter().map(|(name, change)| {
        let [ecmp, ours] = [RailsScheme::ECMP, RailsScheme::RAILS].map(|scheme| {
            let setup = NVLINK.setup(&results.scale, scheme, *change);
            results.runs.mean(&setup, RailsOutcome::total_us)
        });
        format!("{name}: {:.1} %", 100.0 * (1.0 - ours / ecmp))
    });
    format!(
        "eight interfaces in place of one would be 87.5 %, and the rate R1 at which NVLink takes \
            data from the GPU that has it all \
         is what limits it, which the paper does not state. Less time than ECMP by R1: {}",
        sooner.collect::<Vec<_>>().join(", ")
    )
}

pub(super) fn normalisation(results: &Results) -> String {
    let each = EXPONENTS.map(|exponent| {
        let mse =
            results.mse(RailsScheme::PLB, Load::skewed_senders(exponent), RailsOutcome::send_mse);
        format!("{exponent}: {:.3} and {:.2}", mse.of_max, mse.of_mean)
    });
    format!(
        "how the error is normalised is unstated. Of eight interfaces one that has everything \
            makes 0.109 over the square of the \
         highest load, so that 0.15 is out of reach for a load that falls by Zipf; over the \
         square of the mean it makes 7. PLB's \
         sending error over max² and mean² by exponent: {}",
        each.join(", ")
    )
}

/// Returns the loads for which ties could matter.
fn tie_loads() -> impl Iterator<Item = Load> {
    let phase = Phase::Start;
    [Load::UNIFORM, Load::sparse(5), SENDERS, RECEIVERS, Load::Dense(phase), Load::Sparse(phase)]
        .into_iter()
}

fn ties(results: &Results) -> String {
    let each = tie_loads().map(|load| {
        let time = results.times(RailsScheme::RAILS, RailsScheme::TIES_BY_GPU, load);
        let error = results.mse(RailsScheme::TIES_BY_GPU, load, RailsOutcome::receive_mse).of_max;
        format!("{time:.3} ({error:.4})")
    });
    format!(
        "Among equally loaded rails the one that has carried least to the destination is taken, \
            from another start for each pair of \
         domains. With ties by GPU, as Algorithm 2 is printed, the time over that, and the \
         receiving error over max², are, under \
         uniform, sparse 0.6, skewed senders, skewed receivers, dense and sparse expert load: {}",
        each.collect::<Vec<_>>().join(", ")
    )
}
