//! Figures 8 to 10: more nodes, short buffers, larger messages.

use super::collective::Collective::{self, Permutation};
use super::scheme::BEST;
use super::scheme::OfanScheme::{HostPktAr, Ofan, SwitchPktAr};
use super::setup::{OfanOutcome, OfanSetup};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};

/// The threshold of figure 12.
const SACK: u32 = 32;

fn claim(number: u32, says: &str, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: format!("fig. {number}"), says: says.into(), measured, verdict }
}

fn figure(id: &str, title: &str, x: Axis, kind: Kind) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        x,
        y: Axis::linear("CCT beyond the lower bound [%]"),
        kind,
        series: Vec::new(),
    }
}

/// Figure 8.
pub(super) fn nodes(effort: &Effort, study: &mut Study) {
    let arities: &[u32] = if effort.quick { &[4, 8] } else { &[4, 6, 8, 12, 16] };
    let make = |scheme, k, seed| OfanSetup { k, ..OfanSetup::new(scheme, seed) };
    let sweep = Sweep::run("Fig. 8", &BEST, arities, effort.seeds(4), make);
    let hosts = |k: u32| f64::from(k * k * k / 4);
    let axis = Axis::log("nodes");
    study.figures.push(Figure {
        series: sweep.lines(hosts, OfanOutcome::increase),
        ..figure("fig08", "Permutation of 1 MiB by network size", axis, Kind::Lines)
    });
    let best_baseline = |k| sweep.increase(HostPktAr, k).min(sweep.increase(SwitchPktAr, k));
    let ratios: Vec<String> = arities
        .iter()
        .map(|k| format!("{:.1} and {:.1} %", sweep.increase(Ofan, *k), best_baseline(*k)))
        .collect();
    study.claims.push(claim(
        8,
        "the order of the schemes and the size of their differences hold as the network grows",
        format!("OFAN and the better baseline, from few to many nodes: {}", ratios.join(", ")),
        Verdict::of(
            arities.iter().all(|k| sweep.increase(Ofan, *k) < best_baseline(*k)),
            "OFAN is not the best at every size",
        ),
    ));
    let gap = |k| best_baseline(k) - sweep.increase(Ofan, k);
    let (first, last) = (arities[0], arities[arities.len() - 1]);
    study.claims.push(claim(
        8,
        "the gap between the schemes, relative to the least time, increases with larger networks \
            (section 5.1)",
        format!(
            "from OFAN to the better baseline {:.1} points with {} nodes, {:.1} with {}",
            gap(first),
            hosts(first),
            gap(last),
            hosts(last)
        ),
        Verdict::of(gap(last) > gap(first), "it does not"),
    ));
    study.choices.push(
        "Fig. 8: permutation only, at most 4 runs. Fig. 9: the all-to-all is of 256 KiB per pair, \
            1 run."
            .into(),
    );
}

/// Figure 9.
pub(super) fn short_buffers(effort: &Effort, study: &mut Study) {
    let buffer = 20 * (4096 + 62);
    for collective in Collective::BOTH {
        let what = format!("Fig. 9 {}", collective.letter());
        let most = if collective == Permutation { u32::MAX } else { 1 };
        let make =
            |scheme, of: Collective, seed| OfanSetup { buffer, ..of.setup(effort, scheme, seed) };
        let sweep = Sweep::run(&what, &BEST, &[collective], effort.seeds(most), make);
        let id = format!("fig09{}", collective.letter());
        let title = format!("Buffers of 20 packets, {}", collective.name());
        study.figures.push(Figure {
            series: sweep.bars(|collective| collective.name().into(), OfanOutcome::increase),
            ..figure(&id, &title, Axis::linear(""), Kind::Bars)
        });
        let [ar, reps, ofan] =
            [SwitchPktAr, HostPktAr, Ofan].map(|scheme| sweep.increase(scheme, collective));
        let measured =
            format!("SWITCH PKT AR {ar:.2} %, HOST PKT AR {reps:.2} %, OFAN {ofan:.2} %");
        study.claims.push(claim(
            9,
            &format!("short buffers, {}: OFAN is the best", collective.name()),
            measured.clone(),
            Verdict::of(ofan < ar.min(reps), "a baseline is as good"),
        ));
        if collective == Permutation {
            study.claims.push(claim(
                9,
                "short buffers, permutation: SWITCH PKT AR is better than HOST PKT AR",
                measured,
                Verdict::of(
                    ar < reps,
                    "a loss costs only its time on the wire here, so that HOST PKT AR does not \
                        pay for its \
                     longer queues",
                ),
            ));
        }
    }
}

/// Figure 10.
pub(super) fn messages(effort: &Effort, study: &mut Study) {
    let sizes: &[u64] = match effort.quick {
        true => &[256 << 10, 1 << 20],
        false => &[256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20],
    };
    let (most, what) = (if effort.quick { 1 } else { 2 }, "Fig. 10");
    let make = |scheme, bytes, seed| OfanSetup { bytes, ..OfanSetup::new(scheme, seed) };
    let sweep = Sweep::run(what, &BEST, sizes, effort.seeds(most), make);
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    study.figures.push(Figure {
        series: sweep.lines(mebibytes, OfanOutcome::increase),
        ..figure("fig10", "Permutation by message size", Axis::log("message [MiB]"), Kind::Lines)
    });
    let listed = |scheme| {
        let each = sizes.iter().map(|size| format!("{:.2}", sweep.increase(scheme, *size)));
        each.collect::<Vec<_>>().join(", ")
    };
    let gap = |size| {
        let baselines = sweep.increase(HostPktAr, size).max(sweep.increase(SwitchPktAr, size));
        baselines - sweep.increase(Ofan, size)
    };
    let last = sizes[sizes.len() - 1];
    let gap_of = |size: u64| format!("{:.2} points at {} KiB", gap(size), size >> 10);
    study.claims.push(claim(
        10,
        "the gap between the schemes shrinks as messages grow, their order stays",
        format!("{}, {}", gap_of(1 << 20), gap_of(last)),
        Verdict::of(gap(last) < gap(1 << 20) && gap(last) > 0.0, "it does not shrink, or turns"),
    ));
    let turn = sizes[sizes.len() - 2];
    study.claims.push(claim(
        10,
        "HOST PKT AR gets notably worse at very large messages (the paper's guess: time-outs \
            freeze it)",
        format!("HOST PKT AR by size: {} %", listed(HostPktAr)),
        Verdict::of(
            sweep.increase(HostPktAr, last) > sweep.increase(HostPktAr, turn),
            "with ideal recovery nothing times out here, so that nothing freezes",
        ),
    ));
    study.claims.push(frozen(effort, &sizes[sizes.len() - 2..]));
    study.choices.push(
        "Fig. 10: permutation only, up to 64 MiB, at most 2 runs; time-outs play no part, but in \
            the last claim, which has one run with a SACK threshold of 32."
            .into(),
    );
}

/// Judges the paper's guess for figure 10, with loss recovery, at the two largest sizes.
fn frozen(effort: &Effort, sizes: &[u64]) -> Claim {
    let make =
        |scheme, bytes, seed| OfanSetup { bytes, sack: Some(SACK), ..OfanSetup::new(scheme, seed) };
    let sweep = Sweep::run("Fig. 10", &[HostPktAr], sizes, effort.seeds(1), make);
    let of = |size: u64| {
        let resent = sweep.spread(HostPktAr, size, |outcome| 100.0 * outcome.resent).mean;
        (sweep.increase(HostPktAr, size), resent)
    };
    let (before, last) = (of(sizes[0]), of(sizes[1]));
    claim(
        10,
        "the same with loss recovery: time-outs freeze HOST PKT AR at very large messages",
        format!(
            "{:.1} % at {} MiB ({:.1} % resent), {:.1} % at {} MiB ({:.1} %)",
            before.0,
            sizes[0] >> 20,
            before.1,
            last.0,
            sizes[1] >> 20,
            last.1
        ),
        Verdict::of(
            last.0 > before.0,
            "queues do not get so long that packets time out: the increase shrinks with the \
                message here",
        ),
    )
}
