//! Figure 14: the rings of FSDP training on 1,024 GPUs.

use super::scheme::BEST;
use super::scheme::Scheme::{HostPktAr, Ofan, SwitchPktAr};
use super::setup::{Outcome, Setup, Traffic};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};
use braid_sim::workload::Fsdp;

/// A model's name and its packets per flow.
type Model = (&'static str, u64);

const MODELS: [Model; 3] = [("7B", 104), ("70B", 418), ("405B", 1570)];

pub(super) fn run(effort: &Effort, study: &mut Study) {
    let models: &[Model] = if effort.quick { &MODELS[..1] } else { &MODELS };
    let make = |scheme, (_, packets): Model, seed| setup(effort, packets, Setup::new(scheme, seed));
    let sweep = Sweep::run("Fig. 14", &BEST, models, effort.seeds(2), make);
    study.figures.push(Figure {
        id: "fig14".into(),
        title: "A phase of FSDP training with Llama, without congestion control".into(),
        x: Axis::linear("model"),
        y: Axis::linear("CCT beyond the lower bound [%]"),
        kind: Kind::Bars,
        series: sweep.bars(|(name, _)| name.into(), Outcome::increase),
    });
    let (first, last) = (models[0], models[models.len() - 1]);
    let ofan = |model| sweep.increase(Ofan, model);
    let baseline = |model| sweep.increase(HostPktAr, model).min(sweep.increase(SwitchPktAr, model));
    let claim = |says: &str, measured: String, verdict| Claim {
        figure: "fig. 14".into(),
        says: says.into(),
        measured,
        verdict,
    };
    study.claims.push(claim(
        "OFAN reduces the CCT increase by 52 times at 405B",
        format!(
            "{:.2} % against {:.2} % ({:.0} times) with {} packets per flow",
            ofan(last),
            baseline(last),
            baseline(last) / ofan(last),
            last.1
        ),
        Verdict::of(
            baseline(last) / ofan(last) >= 26.0,
            "there is no congestion control yet, which is what slows the baselines down in the paper (Fig. 14 \
             d and e); what is left is their queueing",
        ),
    ));
    if first != last {
        study.claims.push(claim(
            "the increase drops as the model grows with OFAN, and stays with the baselines",
            format!(
                "OFAN {:.2} to {:.2} %, the better baseline {:.2} to {:.2} %",
                ofan(first),
                ofan(last),
                baseline(first),
                baseline(last)
            ),
            Verdict::of(
                ofan(last) < 0.5 * ofan(first) && baseline(last) > 0.5 * baseline(first),
                "without congestion control the baselines' queueing grows as the square root of the message, \
                 more slowly than the lower bound does",
            ),
        ));
    }
    study.choices.push(
        "Fig. 14: without congestion control and with ideal recovery, where the paper has MSwift and SACK. One \
         phase (a layer) per run, since all layers are alike: all 126 of 405B are 2 * 10^8 packets. At most 2 \
         runs, with other placements."
            .into(),
    );
}

fn setup(effort: &Effort, packets: u64, usual: Setup) -> Setup {
    let bytes_per_flow = packets * u64::from(usual.payload);
    let whole = Fsdp { bytes_per_flow, layers: 1, ..Fsdp::LLAMA_7B };
    match effort.quick {
        false => Setup { k: 16, traffic: Traffic::Training(whole), ..usual },
        true => Setup {
            traffic: Traffic::Training(Fsdp { servers: 32, gpus_per_server: 4, ..whole }),
            ..usual
        },
    }
}
