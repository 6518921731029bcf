//! Sections 8.2 and 8.3: how late packets are, the best threshold of losses, and Swift under
//! spraying.

use super::collective::Collective::{self, AllToAll, Permutation};
use super::scheme::OfanScheme::{self, HostPktAr, SwitchPktAr};
use super::scheme::SPRAYING;
use super::setup::OfanSetup;
use super::sweep::Sweep;
use crate::{Claim, Effort, Study, Verdict};

/// Thresholds that are tried, with the paper's best for each collective among them.
const THRESHOLDS: [u32; 6] = [3, 6, 16, 32, 128, 1000];
/// Points within which increases count as equally good.
const AS_GOOD: f64 = 0.5;
/// Threshold under which no late packet counts as lost.
const TOLERANT: u32 = 400;
/// Swift's and MSwift's settings of figure 13.
const SWIFTS: [&str; 2] =
    ["swift:start=738000,base=7380ns,hops=6", "mswift:start=738000,base=7380ns,hops=6"];

pub(super) fn run(effort: &Effort, study: &mut Study) {
    study.claims.push(degrees(effort));
    for (collective, best) in [(AllToAll, 6), (Permutation, 32)] {
        study.claims.push(threshold(effort, collective, best));
    }
    study.claims.push(collapse(effort));
}

fn claim(figure: &str, says: String, measured: String, verdict: Verdict) -> Claim {
    Claim { figure: figure.into(), says, measured, verdict }
}

/// Judges the largest out-of-order degree, 5 q r / b: 1000 packets in the permutation, in which q
/// is the buffer, and 8 in the all-to-all.
fn degrees(effort: &Effort) -> Claim {
    let make = |scheme, of: Collective, seed| of.setup(effort, scheme, seed);
    let places = Collective::BOTH;
    let sweep = Sweep::run("Section 8.2", &SPRAYING, &places, effort.seeds(1), make);
    let most = |place| {
        let of = |scheme: &OfanScheme| sweep.spread(*scheme, place, |outcome| outcome.disorder).max;
        SPRAYING.iter().map(of).fold(0.0, f64::max)
    };
    let (all, one) = (most(AllToAll), most(Permutation));
    claim(
        "section 8.2",
        "a packet is overtaken by 5 q r / b others at most: 8 in all-to-all, 1000 in the \
            permutation"
            .into(),
        format!("at most {all:.0} in all-to-all and {one:.0} in the permutation, by degree"),
        Verdict::of(
            all <= 8.0 && one <= 1000.0,
            "a host serves its queue pairs in turn, but the queue of a flow's path may be as long \
                as the buffer when others' are empty",
        ),
    )
}

fn threshold(effort: &Effort, collective: Collective, papers: u32) -> Claim {
    let schemes = [HostPktAr, SwitchPktAr];
    let make = |scheme, threshold: u32, seed| OfanSetup {
        sack: Some(threshold),
        k: if effort.quick { 4 } else { 8 },
        ..collective.setup(effort, scheme, seed)
    };
    let most = if collective == Permutation { 3 } else { 1 };
    let sweep = Sweep::run("Section 8.2", &schemes, &THRESHOLDS, effort.seeds(most), make);
    let mean = |threshold| {
        schemes.iter().map(|scheme| sweep.increase(*scheme, threshold)).sum::<f64>() / 2.0
    };
    let least = THRESHOLDS.iter().map(|threshold| mean(*threshold)).fold(f64::INFINITY, f64::min);
    let listed = THRESHOLDS.map(|threshold| format!("{threshold}: {:.1} %", mean(threshold)));
    claim(
        "section 8.2",
        format!(
            "a threshold of {papers} packets is the best in the {} (SWITCH PKT AR and HOST PKT AR)",
            collective.name()
        ),
        listed.join(", "),
        Verdict::of(
            mean(papers) <= least + AS_GOOD,
            "a higher one is better: nothing is lost but by failures, which these runs do not \
                have, so that each packet sent again is sent for nothing",
        ),
    )
}

/// Judges Swift's throughput collapse under spraying.
fn collapse(effort: &Effort) -> Claim {
    let bytes: u64 = if effort.quick { 1 << 20 } else { 16 << 20 };
    let places = [0, 1];
    let make = |scheme, which: usize, seed| OfanSetup {
        bytes,
        cc: Some(SWIFTS[which]),
        sack: Some(TOLERANT),
        k: if effort.quick { 4 } else { 8 },
        ..OfanSetup::new(scheme, seed)
    };
    let schemes = [HostPktAr, SwitchPktAr];
    let sweep = Sweep::run("Section 8.3", &schemes, &places, effort.seeds(2), make);
    let of = |scheme, which| sweep.increase(scheme, which);
    let listed = schemes.map(|scheme| {
        format!("{} {:.1} % and {:.1} %", scheme.name(), of(scheme, 0), of(scheme, 1))
    });
    claim(
        "section 8.3",
        "Swift collapses under spraying, and MSwift does not".into(),
        format!("{} MiB, Swift and MSwift: {}", bytes >> 20, listed.join(", ")),
        Verdict::of(
            // A collapse at least doubles the time that is lost.
            schemes.iter().all(|scheme| of(*scheme, 0) > 2.0 * of(*scheme, 1)),
            "Swift here takes the delay of every packet, and its target has room for the queues of \
                all paths; no loss cuts it, since nothing that is late counts as lost",
        ),
    )
}
