//! Figure 7: the balance of each layer of links, with packets of several sizes.

use super::scheme::OfanScheme::{self, *};
use super::setup::{LAYERS, OfanSetup, Traffic};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};
use braid_sim::workload::Pairs;

const SCHEMES: [OfanScheme; 8] =
    [SimpleRr, Jsq, Rsq, HostPkt, HostPktAr, SwitchPktAr, HostDr, Ofan];
const USUAL: u16 = 4096;
const LARGE: u64 = 1 << 20;
const SMALL: u64 = 32 << 10;

pub(super) fn run(effort: &Effort, study: &mut Study) {
    let [large, small] = [LARGE, SMALL].map(|bytes| sweep(effort, bytes));
    for (sweep, part, name) in [(&large, "large", "1 MiB"), (&small, "small", "32 KiB")] {
        for ((layer, _), index) in LAYERS.iter().zip(0..) {
            study.figures.push(Figure {
                id: format!("fig07-{part}-{}", index + 1),
                title: format!("Worst overload {layer}, inter-pod permutation of {name}"),
                x: Axis::linear("payload of a packet [bytes]"),
                y: Axis::linear("fullest link beyond perfect balance [%]"),
                kind: Kind::Lines,
                series: sweep.lines(f64::from, |outcome| 100.0 * outcome.overload[index]),
            });
        }
    }
    study.claims.extend(claims(&large, &small));
    study.choices.push(
        "Fig. 7: load is bytes of data and acknowledgements; queues have no limit, so that \
            nothing is sent twice. \
         At most 5 runs."
            .into(),
    );
}

fn sweep(effort: &Effort, bytes: u64) -> Sweep<u16> {
    let payloads: &[u16] = if effort.quick { &[USUAL] } else { &[1024, 2048, USUAL, 8192] };
    let traffic = Traffic::Permutation(Pairs::InterPod);
    Sweep::run("Fig. 7", &SCHEMES, payloads, effort.seeds(5), |scheme, payload, seed| OfanSetup {
        traffic: traffic.clone(),
        bytes,
        payload,
        unlimited: true,
        ..OfanSetup::new(scheme, seed)
    })
}

fn claims(large: &Sweep<u16>, small: &Sweep<u16>) -> [Claim; 4] {
    // Percent, of the worse of two layers.
    let up = |sweep: &Sweep<u16>, scheme| worst(sweep, scheme, &[0, 1]);
    let down = |sweep: &Sweep<u16>, scheme| worst(sweep, scheme, &[2, 3]);
    let claim = |says: &str, measured: String, verdict| Claim {
        figure: "fig. 7".into(),
        says: says.into(),
        measured,
        verdict,
    };
    let listed = |value: &dyn Fn(OfanScheme) -> f64, schemes: &[OfanScheme]| {
        let each =
            schemes.iter().map(|scheme| format!("{} {:.1} %", scheme.name(), value(*scheme)));
        each.collect::<Vec<_>>().join(", ")
    };
    let local = [SimpleRr, Jsq];
    let chance = [Rsq, HostPkt, HostPktAr, SwitchPktAr];
    let (up_large, down_large) = (|scheme| up(large, scheme), |scheme| down(large, scheme));
    let all_small = |scheme| up(small, scheme).max(down(small, scheme));
    let all_large = |scheme| up_large(scheme).max(down_large(scheme));
    [
        claim(
            "1 MiB: SIMPLE RR and JSQ balance uplinks perfectly and suffer at downlinks",
            format!("up: {}; down: {}", listed(&up_large, &local), listed(&down_large, &local)),
            Verdict::of(
                local.iter().all(|scheme| up_large(*scheme) < 3.0 && down_large(*scheme) > 10.0),
                "expected below 3 % up and above 10 % down",
            ),
        ),
        claim(
            "1 MiB: the other schemes without rotation suffer at both",
            format!("up: {}; down: {}", listed(&up_large, &chance), listed(&down_large, &chance)),
            Verdict::of(
                chance.iter().all(|scheme| up_large(*scheme) > 3.0 && down_large(*scheme) > 3.0),
                "expected above 3 % both ways",
            ),
        ),
        claim(
            "1 MiB: HOST DR and OFAN are perfectly balanced",
            format!("worst layer: {}", listed(&all_large, &[HostDr, Ofan])),
            Verdict::of(
                [HostDr, Ofan].iter().all(|scheme| all_large(*scheme) < 3.0),
                "expected below 3 %",
            ),
        ),
        claim(
            "32 KiB: HOST DR suffers, OFAN less",
            format!("worst layer: {}", listed(&all_small, &[HostDr, Ofan])),
            Verdict::of(
                all_small(HostDr) > all_large(HostDr) && all_small(Ofan) < all_small(HostDr),
                "expected HOST DR worse than with 1 MiB, and OFAN better than it",
            ),
        ),
    ]
}

fn worst(sweep: &Sweep<u16>, scheme: OfanScheme, layers: &[usize]) -> f64 {
    let of = |layer: &usize| {
        100.0 * sweep.spread(scheme, USUAL, |outcome| outcome.overload[*layer]).mean
    };
    layers.iter().map(of).fold(0.0, f64::max)
}
