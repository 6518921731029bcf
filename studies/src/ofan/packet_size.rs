//! Figure 11 and Theorem 5: the best size of a packet.

use super::scheme::BEST;
use super::scheme::Scheme::{Ofan, SwitchPktAr};
use super::setup::{Outcome, Setup};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};
use braid_sim::time::Ps;

/// Header and gap, in bytes; the paper's H.
const OVERHEAD: f64 = 82.0;
/// The queues in a packet's way, in packets; the paper's first approximation.
const ALPHA: f64 = 10.0;

pub(super) fn run(effort: &Effort, study: &mut Study) {
    for (bytes, letter) in [(256_u64 << 10, 'a'), (4 << 20, 'b')] {
        if effort.quick && letter == 'b' {
            continue;
        }
        one_size(effort, bytes, letter, study);
    }
    study.choices.push(
        "Fig. 11: the two message sizes are not stated; 256 KiB and 4 MiB were chosen. The increase is over the \
         least lower bound of all packet sizes. By how much the size matters (up to 10 % in the paper) hangs on the \
         sizes that are tried, which are not stated either. Buffers stay at 800 KB. Of 4 MiB 1 run."
            .into(),
    );
}

/// Theorem 5.
fn model(bytes: u64) -> f64 {
    (OVERHEAD / ALPHA * bytes as f64).sqrt()
}

fn one_size(effort: &Effort, bytes: u64, letter: char, study: &mut Study) {
    let payloads: &[u16] = match effort.quick {
        true => &[512, 1536, 8192],
        false => &[512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384],
    };
    let make = |scheme, payload, seed| Setup { bytes, payload, ..Setup::new(scheme, seed) };
    let what = format!("Fig. 11 {letter}");
    let sweep = Sweep::run(
        &what,
        &BEST,
        payloads,
        effort.seeds(if letter == 'a' { u32::MAX } else { 1 }),
        make,
    );
    let bounds = payloads
        .iter()
        .flat_map(|payload| sweep.values(Ofan, *payload, |outcome| outcome.bound.0 as f64));
    let least = Ps(bounds.fold(f64::INFINITY, f64::min) as u64);
    let beyond = |outcome: &Outcome| 100.0 * (outcome.cct.0 as f64 / least.0 as f64 - 1.0);
    study.figures.push(Figure {
        id: format!("fig11{letter}"),
        title: format!("Permutation of {} KiB by packet size", bytes >> 10),
        x: Axis::log("payload of a packet [bytes]"),
        y: Axis::linear("CCT beyond the least lower bound [%]"),
        kind: Kind::Lines,
        series: sweep.lines(f64::from, beyond),
    });
    let increase = |scheme, payload| sweep.spread(scheme, payload, beyond).mean;
    let best_of = |scheme| {
        let better = |a: &&u16, b: &&u16| increase(scheme, **a).total_cmp(&increase(scheme, **b));
        *payloads.iter().min_by(better).expect("some sizes are run")
    };
    let (best, other) = (best_of(Ofan), best_of(SwitchPktAr));
    let worst =
        payloads.iter().map(|payload| increase(Ofan, *payload)).fold(f64::NEG_INFINITY, f64::max);
    let says = format!(
        "{} KiB with OFAN: a sweet spot near sqrt(H D / alpha) = {:.0} bytes",
        bytes >> 10,
        model(bytes)
    );
    let near = (0.5..=2.0).contains(&(f64::from(best) / model(bytes)));
    let inside = best != payloads[0] && best != payloads[payloads.len() - 1];
    study.claims.push(Claim {
        figure: "fig. 11".into(),
        says,
        measured: format!(
            "best at {best} bytes, {:.1} %; the worst size {worst:.1} %; SWITCH PKT AR best at {other} bytes",
            increase(Ofan, best)
        ),
        verdict: Verdict::of(near && inside, "the best size is not within a factor of 2"),
    });
    if letter == 'b' {
        study.claims.push(Claim {
            figure: "fig. 11".into(),
            says: "OFAN's short queues encourage larger packets than the others' longer ones"
                .into(),
            measured: format!("OFAN best at {best} bytes, SWITCH PKT AR at {other} bytes"),
            verdict: Verdict::of(
                best > other,
                "the best sizes are the same or the other way round",
            ),
        });
    }
}
