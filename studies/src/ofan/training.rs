//! Figure 14: the rings of FSDP training on 1,024 GPUs.

use super::congestion::OfanControl;
use super::scheme::BEST;
use super::scheme::OfanScheme::{self, HostPktAr, Ofan, SwitchPktAr};
use super::setup::{OfanOutcome, OfanSetup, Traffic};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};
use braid_sim::workload::Fsdp;

/// A model's name and its packets per flow.
type Model = (&'static str, u64);

const MODELS: [Model; 3] = [("7B", 104), ("70B", 418), ("405B", 1570)];
/// Factor by which OFAN's increase is smaller in the paper. Half of it counts as the same.
const TIMES: f64 = 52.0;

/// The claim about models of several sizes.
const AS_MODELS_GROW: &str =
    "the increase drops as the model grows with OFAN, and stays with the baselines";

/// A model and a congestion control.
type ModelAndControl = (Model, OfanControl);

pub(super) fn run(effort: &Effort, study: &mut Study) {
    let models: &[Model] = if effort.quick { &MODELS[..1] } else { &MODELS };
    let controls = [OfanControl::FixedRate, OfanControl::MSwift];
    let places: Vec<ModelAndControl> =
        models.iter().flat_map(|model| controls.map(|control| (*model, control))).collect();
    let make = |scheme, ((_, packets), control): ModelAndControl, seed| {
        control.of(setup(effort, packets, OfanSetup::new(scheme, seed)))
    };
    let sweep = Sweep::run("Fig. 14", &BEST, &places, effort.seeds(2), make);
    study.figures.push(Figure {
        id: "fig14".into(),
        title: "A phase of FSDP training with Llama".into(),
        x: Axis::linear("model"),
        y: Axis::linear("CCT beyond the lower bound [%]"),
        kind: Kind::Bars,
        series: sweep.bars(
            |((name, _), control)| format!("{name}, {}", control.name()),
            OfanOutcome::increase,
        ),
    });
    study.claims.push(times_smaller(&sweep, models[models.len() - 1]));
    study.claims.extend(utilisation_and_queues(&sweep, models[models.len() - 1]));
    study.claims.push(match effort.quick {
        true => Claim::left_out("fig. 14", AS_MODELS_GROW),
        false => as_models_grow(&sweep, models),
    });
    study.choices.push(
        "Fig. 14: MSwift as in Fig. 13, and without it. One phase (a layer) per run, since all \
            layers are alike: all 126 of 405B \
         are 2 * 10^8 packets; so windows begin at the line rate in each. At most 2 runs, with \
         other placements."
            .into(),
    );
}

fn ofan(sweep: &Sweep<ModelAndControl>, place: ModelAndControl) -> f64 {
    sweep.increase(Ofan, place)
}

/// Returns the increase of the better baseline.
fn baseline(sweep: &Sweep<ModelAndControl>, place: ModelAndControl) -> f64 {
    sweep.increase(HostPktAr, place).min(sweep.increase(SwitchPktAr, place))
}

fn claim(says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: "fig. 14".into(), says: says.into(), measured, verdict }
}

fn times_smaller(sweep: &Sweep<ModelAndControl>, model: Model) -> Claim {
    let text = |control: OfanControl| {
        let (ofan, baseline) = (ofan(sweep, (model, control)), baseline(sweep, (model, control)));
        format!("{ofan:.2} % against {baseline:.2} % ({:.0} times)", baseline / ofan)
    };
    let place = (model, OfanControl::MSwift);
    claim(
        "OFAN reduces the CCT increase by 52 times at 405B",
        format!(
            "{} with {} packets per flow; at a fixed rate {}",
            text(OfanControl::MSwift),
            model.1,
            text(OfanControl::FixedRate)
        ),
        Verdict::of(
            baseline(sweep, place) / ofan(sweep, place) >= TIMES / 2.0,
            format!(
                "MSwift costs the better baseline {:.2} points of a phase, the rest is queueing \
                    that a fixed rate has as well",
                baseline(sweep, place) - baseline(sweep, (model, OfanControl::FixedRate))
            ),
        ),
    )
}

/// Judges figures 14 d and e.
fn utilisation_and_queues(sweep: &Sweep<ModelAndControl>, model: Model) -> [Claim; 2] {
    let utilisation = |scheme| {
        let share = |outcome: &OfanOutcome| 100.0 * outcome.bound.0 as f64 / outcome.cct.0 as f64;
        sweep.spread(scheme, (model, OfanControl::MSwift), share).mean
    };
    let queue =
        |scheme, control| sweep.spread(scheme, (model, control), |outcome| outcome.max_queue).mean;
    let queues = |scheme| {
        [OfanControl::FixedRate, OfanControl::MSwift].map(|control| queue(scheme, control))
    };
    let used = BEST.map(|scheme| format!("{} {:.1} %", scheme.name(), utilisation(scheme)));
    let queued = BEST.map(|scheme| {
        let [fixed, controlled] = queues(scheme);
        format!("{} {fixed:.0} and {controlled:.0}", scheme.name())
    });
    let others = [HostPktAr, SwitchPktAr];
    let is_throttled = |scheme: &OfanScheme| {
        let [fixed, controlled] = queues(*scheme);
        controlled < fixed
    };
    [
        claim(
            "14 d: OFAN has the highest utilisation",
            format!("{}: least time over the phase's: {}", model.0, used.join(", ")),
            Verdict::of(
                others.iter().all(|other| utilisation(Ofan) > utilisation(*other)),
                "a baseline has as high a one",
            ),
        ),
        claim(
            "14 e: congestion control has to throttle HOST PKT AR and SWITCH PKT AR to keep their \
                queues stable, and not OFAN",
            format!(
                "{}: longest queue in packets, at a fixed rate and with MSwift: {}",
                model.0,
                queued.join(", ")
            ),
            Verdict::of(
                others.iter().all(is_throttled) && !is_throttled(&Ofan),
                "MSwift's target has room for the queues of a phase, so that it cuts none of them \
                    shorter, or OFAN's as well",
            ),
        ),
    ]
}

fn as_models_grow(sweep: &Sweep<ModelAndControl>, models: &[Model]) -> Claim {
    let [first, last] =
        [models[0], models[models.len() - 1]].map(|model| (model, OfanControl::MSwift));
    let (small, large) = (ofan(sweep, first), ofan(sweep, last));
    let (before, after) = (baseline(sweep, first), baseline(sweep, last));
    claim(
        AS_MODELS_GROW,
        format!("OFAN {small:.2} to {large:.2} %, the better baseline {before:.2} to {after:.2} %"),
        Verdict::of(
            large < 0.5 * small && after > 0.5 * before,
            "the baselines' queueing grows as the square root of the message, more slowly than \
                the lower bound does",
        ),
    )
}

fn setup(effort: &Effort, packets: u64, usual: OfanSetup) -> OfanSetup {
    let bytes_per_flow = packets * u64::from(usual.payload);
    let whole = Fsdp { bytes_per_flow, layers: 1, ..Fsdp::LLAMA_7B };
    match effort.quick {
        false => OfanSetup { k: 16, traffic: Traffic::Training(whole), ..usual },
        true => OfanSetup {
            traffic: Traffic::Training(Fsdp { servers: 32, gpus_per_server: 4, ..whole }),
            ..usual
        },
    }
}
