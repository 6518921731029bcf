//! Figure 13: PRO's out-of-order window compared with other loss detection, while links lose
//! everything.

use braid_cc::{CcConfig, DcqcnConfig};
use braid_transport::LossRecovery;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::outcome::{ProOutcome, measure};
use super::setup::{Pattern, ProScheme, ProSetup, dcqcn, paper_fabric};
use crate::{Axis, Claim, Effort, Figure, Kind, Point, Series, Study, Verdict, run_all};
use braid_sim::simulation::Change;
use braid_sim::time::Ps;
use braid_sim::topology::{Tier, Topology};

/// Number of failed links.
const FAILED: [usize; 3] = [1, 2, 4];
/// Time from the failure until routing converges.
const UNNOTICED: Ps = Ps::from_micros(20);
/// Bits of MP-RDMA's bitmap.
const BITMAP: u32 = 64;
/// Maximum bytes in flight, so that PRO's window starts at the paper's BDP/MTU: the round trip of
/// 8.3 us is 208 KB.
const WINDOW: u64 = 216_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    /// Algorithm 2.
    Pro,
    /// A packet is lost when a bitmap's length of later ones has arrived.
    Bitmap,
    /// Selective repeat of RNICs.
    NicSr,
    /// Time-outs only.
    Timeouts,
    /// A fixed window of two packets.
    Narrow,
    /// A fixed window longer than what is in flight.
    Wide,
}

impl Method {
    const ALL: [Method; 4] = [Method::Pro, Method::Bitmap, Method::NicSr, Method::Timeouts];

    fn name(self) -> &'static str {
        match self {
            Method::Pro => "out-of-order window",
            Method::Bitmap => "bitmap of 64",
            Method::NicSr => "NIC selective repeat",
            Method::Timeouts => "time-outs only",
            Method::Narrow => "window of 2",
            Method::Wide => "window of 1000",
        }
    }

    fn recovery(self) -> (LossRecovery, u32) {
        match self {
            Method::Pro => (LossRecovery::OooWindow, 0),
            Method::Bitmap => (LossRecovery::Sack, BITMAP),
            Method::NicSr => (LossRecovery::NicSr, 0),
            Method::Timeouts => (LossRecovery::Sack, u32::MAX),
            Method::Narrow => (LossRecovery::Sack, 2),
            Method::Wide => (LossRecovery::Sack, 1000),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct RecoveryCase {
    method: Method,
    failed: usize,
    seed: u64,
}

pub(super) fn add(effort: &Effort, study: &mut Study) {
    let bytes = if effort.quick { 400_000 } else { 4_000_000 };
    let failed = if effort.quick { &FAILED[..1] } else { &FAILED[..] };
    let topology = paper_fabric();
    let mut cases = Vec::new();
    for failed in failed {
        let fixed = [Method::Narrow, Method::Wide];
        for method in Method::ALL.into_iter().chain(fixed) {
            cases.extend(effort.seeds(3).map(|seed| RecoveryCase {
                method,
                failed: *failed,
                seed,
            }));
        }
    }
    let outcomes = run_all("Fig. 13", cases.clone(), |case| case.measure(&topology, bytes));
    let values = |method: Method, failed: usize, value: fn(&ProOutcome) -> f64| -> Vec<f64> {
        let here = cases
            .iter()
            .zip(&outcomes)
            .filter(|(case, _)| (case.method, case.failed) == (method, failed));
        here.map(|(_, outcome)| value(outcome)).collect()
    };
    study.figures.push(Figure {
        id: "fig13".into(),
        title: "Completion time over the ideal while links lose everything, ring".into(),
        x: Axis::linear("links that fail"),
        y: Axis::log("slowdown"),
        kind: Kind::Bars,
        series: Method::ALL
            .map(|method| Series {
                name: method.name().into(),
                points: failed
                    .iter()
                    .enumerate()
                    .map(|(group, failed)| {
                        Point::bar(
                            group,
                            failed.to_string(),
                            &values(method, *failed, |of| of.slowdown),
                        )
                    })
                    .collect(),
            })
            .into(),
    });
    let mean = |method, failed, value: fn(&ProOutcome) -> f64| {
        let values = values(method, failed, value);
        values.iter().sum::<f64>() / values.len() as f64
    };
    study.claims.push(fixed_windows(failed[failed.len() - 1], mean));
    study.claims.push(claim(failed, mean));
    study.choices.push(format!(
        "Fig. 13: the paper says neither what fails nor how MP-RDMA was set. Here links between \
            switches turn \
         black holes a quarter into a ring of {} MB, and routing hears of it {UNNOTICED} later; \
         all methods run \
         over PRO's paths. MP-RDMA's bitmap is {BITMAP} packets long: what is not there when \
         {BITMAP} later \
         ones are counts as lost.",
        bytes as f64 / 1e6
    ));
}

impl RecoveryCase {
    fn measure(self, topology: &Topology, bytes: u64) -> ProOutcome {
        let mut cables: Vec<u32> = (0..topology.cables.len() as u32)
            .filter(|cable| topology.tier(topology.cables[*cable as usize].low) == Tier::Edge)
            .collect();
        cables.shuffle(&mut Pcg64Mcg::seed_from_u64(self.seed));
        let workload = Pattern::Ring.workload(topology, bytes, self.seed);
        let at = Ps(super::setup::ideal(topology, &workload).0 / 4);
        let cut = cables[..self.failed].iter();
        let mut changes: Vec<(Ps, Change)> =
            cut.map(|cable| (at, Change::Cable { cable: *cable, up: false })).collect();
        changes.push((at + UNNOTICED, Change::Converge));
        let (recovery, reorder_threshold) = self.method.recovery();
        let cc = CcConfig::new(DcqcnConfig { window: WINDOW, ..dcqcn() });
        let setup = ProSetup {
            changes,
            recovery,
            reorder_threshold,
            cc,
            ..ProSetup::new(ProScheme::Pro, self.seed)
        };
        measure(setup.plan(topology, workload), false)
            .unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

/// Judges section III-B's reason for a window that adapts.
fn fixed_windows(
    failed: usize,
    mean: impl Fn(Method, usize, fn(&ProOutcome) -> f64) -> f64,
) -> Claim {
    let of = |method| {
        let needless = mean(method, failed, |outcome| outcome.resent_needlessly as f64);
        (needless, mean(method, failed, |outcome| outcome.timeouts as f64))
    };
    let [pro, narrow, wide] = [Method::Pro, Method::Narrow, Method::Wide].map(of);
    let text = |(needless, timeouts): (f64, f64)| {
        format!("{needless:.0} sent again needlessly, {timeouts:.0} time-outs")
    };
    Claim {
        figure: "section III-B".into(),
        says: "too small a window resends packets that are only late, too large a one ends in \
            time-outs"
            .into(),
        measured: format!(
            "{failed} links failed: 2 packets: {}; 1000: {}; PRO's: {}",
            text(narrow),
            text(wide),
            text(pro)
        ),
        verdict: Verdict::of(
            narrow.0 > pro.0 && wide.1 > pro.1,
            "PRO's paths keep packets nearly in order, so that a window of two, which the shipped \
                SACK doubles when it was wrong, is enough; or none times out",
        ),
    }
}

fn claim(failed: &[usize], mean: impl Fn(Method, usize, fn(&ProOutcome) -> f64) -> f64) -> Claim {
    let slowdown = |method, failed| mean(method, failed, |outcome| outcome.slowdown);
    let reductions = |against: Method| -> Vec<f64> {
        let of = |failed: &usize| {
            100.0 * (1.0 - slowdown(Method::Pro, *failed) / slowdown(against, *failed))
        };
        failed.iter().map(of).collect()
    };
    let listed: Vec<String> = Method::ALL[1..]
        .iter()
        .map(|method| {
            format!("{} {} %", method.name(), super::comparison::range(&reductions(*method), 1))
        })
        .collect();
    let last = failed[failed.len() - 1];
    let losses = mean(Method::Pro, last, |outcome| outcome.lost as f64);
    let timeouts = mean(Method::Pro, last, |outcome| outcome.timeouts as f64);
    let needless = mean(Method::Pro, last, |outcome| outcome.resent_needlessly as f64);
    let best = reductions(Method::Bitmap).into_iter().fold(f64::NEG_INFINITY, f64::max);
    Claim {
        figure: "fig13".into(),
        says: "cautious retransmission takes another 86.9 to 88.8 % off the slowdown (against \
            MP-RDMA)"
            .into(),
        measured: format!(
            "less than: {}; with {last} links failed {losses:.0} packets were lost, {needless:.0} \
                sent again \
             needlessly, and {timeouts:.0} time-outs came",
            listed.join(", ")
        ),
        verdict: Verdict::of(
            best > 75.0,
            "a bitmap that counts what overtook a packet finds losses as soon as PRO's window \
                does. The paper's \
             reduction is about what time-outs alone cost here",
        ),
    }
}
