//! Sections 3.4 and 6: lost packets, and a failed link.

use super::outcome::{ThemisOutcome, measure};
use super::setup::{DELAY, ThemisControl, ThemisScheme, ThemisSetup};
use crate::{Axis, Claim, Effort, Figure, Kind, Point, Series, Study, Verdict, run_all};
use braid_sim::simulation::Change;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Tier};
use braid_sim::workload::{Groups, ring};

const RATE: Rate = Rate::from_gbps(100);
/// Four leaves of four hosts, four spines: four rings, each with a host per leaf.
const FABRIC: LeafSpine = LeafSpine {
    leaves: 4,
    hosts_per_leaf: 4,
    spines: 4,
    links_per_spine: 1,
    host_rate: RATE,
    fabric_rate: RATE,
    delay: DELAY,
};
/// Percent of their links' rate at which hosts send, so that a loss costs only the time of its
/// recovery.
const SENDING: u64 = 70;
/// Duration of each silent failure of a link.
const GAP: Ps = Ps::from_micros(2);
/// Time from one such failure to the next.
const EVERY: Ps = Ps::from_micros(100);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LinkFailure {
    /// A link between leaf and spine loses its packets from time to time.
    Flapping,
    /// The link is removed, and routing knows it.
    Gone,
}

impl LinkFailure {
    fn name(self) -> &'static str {
        match self {
            LinkFailure::Flapping => "losses",
            LinkFailure::Gone => "a link gone",
        }
    }

    fn changes(self, cable: u32) -> Vec<(Ps, Change)> {
        let cut = |up| Change::Cable { cable, up };
        match self {
            LinkFailure::Gone => vec![(Ps::ZERO, cut(false)), (Ps::ZERO, Change::Converge)],
            LinkFailure::Flapping => (1..=5)
                .flat_map(|time| [(EVERY * time, cut(false)), (EVERY * time + GAP, cut(true))])
                .collect(),
        }
    }
}

const SCHEMES: [ThemisScheme; 5] = [
    ThemisScheme::Ecmp,
    ThemisScheme::Random,
    ThemisScheme::Themis,
    ThemisScheme::ThemisLooksBack,
    ThemisScheme::ThemisUncompensated,
];

/// Every scheme under every failure.
struct FailureRuns(Vec<(LinkFailure, ThemisScheme, ThemisOutcome)>);

pub(super) fn add(study: &mut Study, effort: &Effort) {
    let bytes = if effort.quick { 8_000_000 } else { 40_000_000 };
    let failures = [LinkFailure::Flapping, LinkFailure::Gone];
    let cases = failures.into_iter().flat_map(|failure| SCHEMES.map(|scheme| (failure, scheme)));
    let runs = FailureRuns(run_all("themis failures", cases.collect(), |(failure, scheme)| {
        (failure, scheme, run(failure, scheme, bytes, effort.first_seed))
    }));
    let bars = |scheme: ThemisScheme| Series {
        name: scheme.name().into(),
        points: failures
            .iter()
            .enumerate()
            .map(|(group, failure)| {
                Point::bar(group, failure.name(), &[runs.of(*failure, scheme).completion_us])
            })
            .collect(),
    };
    study.figures.push(Figure {
        id: "failures".into(),
        title: format!("Four rings of {} MB on a fabric that fails", bytes / 1_000_000),
        x: Axis::linear(""),
        y: Axis::log("completion [us]"),
        kind: Kind::Bars,
        series: SCHEMES.map(bars).into(),
    });
    study.claims.push(compensation(&runs));
    study.claims.push(fallback(&runs));
    study.choices.push(format!(
        "Sections 3.4 and 6 have no figure. Here four leaves of four hosts and four spines carry \
            four rings, each host \
         sends at {SENDING} % of its link's rate whatever happens, and a link between leaf and \
         spine loses what it \
         carries for 2 us five times, unnoticed, or is gone, which routing knows. Time-outs are 1 \
         ms. One seed"
    ));
}

fn run(failure: LinkFailure, scheme: ThemisScheme, bytes: u64, seed: u64) -> ThemisOutcome {
    let control = ThemisControl::Constant(SENDING);
    let setup = ThemisSetup::new(scheme, control, RATE, seed);
    let rings = Groups::strided(16, 4).and_then(|groups| ring(&groups, bytes));
    let mut plan = setup.plan(&FABRIC, rings.expect("there is a ring per host of a leaf"));
    let mut cables = plan.topology.cables.iter().zip(0..);
    let uplink = cables.find(|(cable, _)| plan.topology.tier(cable.low) == Tier::Edge);
    plan.changes = failure.changes(uplink.expect("leaves have links up").1);
    measure(plan, RATE, setup.packet(), None)
}

impl FailureRuns {
    fn of(&self, failure: LinkFailure, scheme: ThemisScheme) -> &ThemisOutcome {
        let mut runs = self.0.iter();
        let found = runs.find(|(under, with, _)| (*under, *with) == (failure, scheme));
        &found.expect("every scheme was run under every failure").2
    }

    fn listed(&self, failure: LinkFailure, schemes: &[ThemisScheme]) -> String {
        let said = |scheme: &ThemisScheme| {
            let ThemisOutcome { completion_us, drops, again, timeouts, .. } =
                self.of(failure, *scheme);
            let name = scheme.name();
            format!(
                "{name}: {drops} lost, {again} resent, {timeouts} time-outs, {completion_us:.0} us"
            )
        };
        schemes.iter().map(said).collect::<Vec<_>>().join("; ")
    }
}

fn compensation(runs: &FailureRuns) -> Claim {
    let schemes =
        [ThemisScheme::Themis, ThemisScheme::ThemisLooksBack, ThemisScheme::ThemisUncompensated];
    let [with, _, without] = schemes.map(|scheme| runs.of(LinkFailure::Flapping, scheme));
    Claim {
        figure: "section 3.4".into(),
        says: "what is lost after its NACK was blocked waits for a time-out, unless the switch \
            sends the NACK later"
            .into(),
        measured: runs.listed(LinkFailure::Flapping, &schemes),
        verdict: Verdict::of(
            with.drops > 0
                && with.timeouts < without.timeouts
                && with.completion_us < without.completion_us,
            "there are as many time-outs with compensation as without",
        ),
    }
}

fn fallback(runs: &FailureRuns) -> Claim {
    let schemes = [ThemisScheme::Themis, ThemisScheme::Ecmp, ThemisScheme::Random];
    let themis = runs.of(LinkFailure::Gone, ThemisScheme::Themis);
    Claim {
        figure: "section 6".into(),
        says: "where a link has failed, switches turn Themis off and go back to ECMP".into(),
        measured: runs.listed(LinkFailure::Gone, &schemes),
        verdict: Verdict::of(
            themis.again == 0 && themis.drops == 0,
            "packets are resent although none is lost",
        ),
    }
}
