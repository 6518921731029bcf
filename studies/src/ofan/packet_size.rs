//! Figure 11 and Theorem 5: the best size of a packet.

use super::scheme::BEST;
use super::scheme::OfanScheme::{self, Ofan, SwitchPktAr};
use super::setup::{OfanOutcome, OfanSetup};
use super::sweep::Sweep;
use crate::{Axis, Claim, Effort, Figure, Kind, Study, Verdict};
use braid_sim::time::Ps;

/// Header and gap, in bytes; the paper's H.
const OVERHEAD: f64 = 82.0;
/// Queued packets on the route of a packet; the paper's first approximation.
const ALPHA: f64 = 10.0;

pub(super) fn run(effort: &Effort, study: &mut Study) {
    for (bytes, letter) in [(256_u64 << 10, 'a'), (4 << 20, 'b')] {
        if effort.quick && letter == 'b' {
            continue;
        }
        one_size(effort, bytes, letter, study);
    }
    study.choices.push(
        "Fig. 11: the two message sizes are not stated; 256 KiB and 4 MiB were chosen. The \
            increase is over the \
         least lower bound of all packet sizes. By how much the size matters (up to 10 % in the \
         paper) hangs on the \
         sizes that are tried, which are not stated either. Buffers stay at 800 KB. Of 4 MiB 1 run."
            .into(),
    );
}

/// Returns the best payload of Theorem 5.
fn model(bytes: u64) -> f64 {
    (OVERHEAD / ALPHA * bytes as f64).sqrt()
}

fn one_size(effort: &Effort, bytes: u64, letter: char, study: &mut Study) {
    let size = OneSize::run(effort, bytes, letter);
    study.figures.push(size.figure(letter));
    study.claims.push(size.sweet_spot());
    if letter == 'b' {
        study.claims.push(size.larger_packets());
    }
}

/// Messages of one size, with packets of several sizes.
struct OneSize {
    bytes: u64,
    payloads: &'static [u16],
    sweep: Sweep<u16>,
    /// The least lower bound over all packet sizes.
    least: Ps,
}

impl OneSize {
    fn run(effort: &Effort, bytes: u64, letter: char) -> OneSize {
        let payloads: &[u16] = match effort.quick {
            true => &[512, 1536, 8192],
            false => &[512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384],
        };
        let make =
            |scheme, payload, seed| OfanSetup { bytes, payload, ..OfanSetup::new(scheme, seed) };
        let seeds = effort.seeds(if letter == 'a' { u32::MAX } else { 1 });
        let sweep = Sweep::run(&format!("Fig. 11 {letter}"), &BEST, payloads, seeds, make);
        let bounds = payloads
            .iter()
            .flat_map(|payload| sweep.values(Ofan, *payload, |outcome| outcome.bound.0 as f64));
        let least = Ps(bounds.fold(f64::INFINITY, f64::min) as u64);
        OneSize { bytes, payloads, sweep, least }
    }

    /// Returns the percent over the least lower bound.
    fn beyond(&self, outcome: &OfanOutcome) -> f64 {
        100.0 * (outcome.cct.0 as f64 / self.least.0 as f64 - 1.0)
    }

    fn increase(&self, scheme: OfanScheme, payload: u16) -> f64 {
        self.sweep.spread(scheme, payload, |outcome| self.beyond(outcome)).mean
    }

    /// Returns the payload with the least increase.
    fn best(&self, scheme: OfanScheme) -> u16 {
        let better =
            |a: &&u16, b: &&u16| self.increase(scheme, **a).total_cmp(&self.increase(scheme, **b));
        *self.payloads.iter().min_by(better).expect("some sizes are run")
    }

    fn figure(&self, letter: char) -> Figure {
        Figure {
            id: format!("fig11{letter}"),
            title: format!("Permutation of {} KiB by packet size", self.bytes >> 10),
            x: Axis::log("payload of a packet [bytes]"),
            y: Axis::linear("CCT beyond the least lower bound [%]"),
            kind: Kind::Lines,
            series: self.sweep.lines(f64::from, |outcome| self.beyond(outcome)),
        }
    }

    fn sweet_spot(&self) -> Claim {
        let (best, other, model) = (self.best(Ofan), self.best(SwitchPktAr), model(self.bytes));
        let increases = self.payloads.iter().map(|payload| self.increase(Ofan, *payload));
        let worst = increases.fold(f64::NEG_INFINITY, f64::max);
        let near = (0.5..=2.0).contains(&(f64::from(best) / model));
        let inside = best != self.payloads[0] && best != self.payloads[self.payloads.len() - 1];
        Claim {
            figure: "fig. 11".into(),
            says: format!(
                "{} KiB with OFAN: a sweet spot near sqrt(H D / alpha) = {model:.0} bytes",
                self.bytes >> 10
            ),
            measured: format!(
                "best at {best} bytes, {:.1} %; the worst size {worst:.1} %; SWITCH PKT AR best \
                    at {other} bytes",
                self.increase(Ofan, best)
            ),
            verdict: Verdict::of(near && inside, "the best size is not within a factor of 2"),
        }
    }

    fn larger_packets(&self) -> Claim {
        let (best, other) = (self.best(Ofan), self.best(SwitchPktAr));
        Claim {
            figure: "fig. 11".into(),
            says: "OFAN's short queues encourage larger packets than the others' longer ones"
                .into(),
            measured: format!("OFAN best at {best} bytes, SWITCH PKT AR at {other} bytes"),
            verdict: Verdict::of(
                best > other,
                "the best sizes are the same or the other way round",
            ),
        }
    }
}
