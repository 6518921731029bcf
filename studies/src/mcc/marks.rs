//! Figure 3: the effect of l2's marks on l1 under DCQCN.

use super::causes;
use super::outcome::{MccOutcome, Reading, mark_rate, mean_utilisation};
use super::runs::MccRuns;
use super::scale::MccScale;
use super::setup::{MccScheme, MccSetup};
use super::trace::{Line, over_time};
use crate::{Figure, Study, Verdict};

/// Number of readings in a millisecond.
const MILLISECOND: usize = 10;
/// Utilisation below which a link has dropped.
const DROPPED: f64 = 0.9;
/// Share of the time from which drops are frequent.
const OFTEN: f64 = 0.1;
/// Share of the marks from which almost all come from one link.
const MOST: f64 = 0.9;
/// The utilisation of l1 in the paper's text, "nearly 40 %", and the tolerance.
const PAPERS_LOW: f64 = 0.4;
const NEAR: f64 = 0.1;
const LINKS: [&str; 2] = ["l1", "l2"];

pub(super) fn setup(scale: &MccScale) -> MccSetup {
    MccSetup::new(MccScheme::DCQCN, scale.usual())
}

pub(super) fn setups(scale: &MccScale) -> Vec<MccSetup> {
    vec![setup(scale), causes::early_marks(scale)]
}

pub(super) fn add(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    let (usual, early) = (runs.of(&setup(scale)), runs.of(&causes::early_marks(scale)));
    study.figures.extend(links_over_time(&usual[0], "fig03", "DCQCN"));
    study.figures.extend(links_over_time(&early[0], "fig03-early", "DCQCN, marked from 5 KB"));
    claims(scale, runs, study);
}

/// Plots utilisation and mark rate of both links in one run.
fn links_over_time(run: &MccOutcome, id: &str, title: &str) -> [Figure; 2] {
    let lines = [0, 1].map(|link| Line { name: LINKS[link].to_owned(), run, link });
    [
        over_time(
            &format!("{id}-utilisation"),
            &format!("{title}: utilisation of l1 and l2"),
            "utilisation [%]",
            &lines,
            mean_utilisation,
        ),
        over_time(
            &format!("{id}-marks"),
            &format!("{title}: data packets marked at l1 and l2"),
            "mark rate [%]",
            &lines,
            mark_rate,
        ),
    ]
}

/// Returns the share of the time, while all senders send, in which the utilisation of a link is
/// below [`DROPPED`].
fn dropped(run: &MccOutcome, link: usize) -> f64 {
    let readings = run.busy_readings(link);
    let low = readings.iter().filter(|reading| reading.utilisation < DROPPED).count();
    low as f64 / readings.len().max(1) as f64
}

/// Returns the lowest utilisation over a millisecond, without the first.
fn lowest(readings: &[Reading]) -> f64 {
    let milliseconds = readings.chunks_exact(MILLISECOND).skip(1);
    milliseconds.map(mean_utilisation).fold(1.0, f64::min)
}

/// The quantities of the claims in percent, as means over the runs.
struct MarkFigures<'a> {
    runs: &'a MccRuns,
    setup: MccSetup,
}

impl MarkFigures<'_> {
    fn percent(&self, of: impl Fn(&MccOutcome) -> f64) -> f64 {
        100.0 * self.runs.mean(&self.setup, of)
    }

    fn drops(&self) -> [f64; 2] {
        [0, 1].map(|link| self.percent(|run| dropped(run, link)))
    }

    fn drops_text(&self) -> String {
        let [l1, l2] = self.drops();
        format!("below 90 % for {l1:.1} % of the time on l1, {l2:.1} % on l2")
    }

    /// Returns the lowest utilisation of l1.
    fn lowest(&self) -> f64 {
        self.percent(|run| lowest(run.busy_readings(0)))
    }

    fn lowest_text(&self) -> String {
        let rate = self.percent(|run| mark_rate(run.busy_readings(1)));
        let low = self.lowest();
        format!(
            "{rate:.2} % of the packets on l2 are marked, and l1's worst millisecond has {low:.1} %"
        )
    }
}

fn claims(scale: &MccScale, runs: &MccRuns, study: &mut Study) {
    let usual = MarkFigures { runs, setup: setup(scale) };
    let early = MarkFigures { runs, setup: causes::early_marks(scale) };
    study.claims.push(scale.claim(
        "fig03",
        "under DCQCN the utilisation of both links drops often",
        format!(
            "{}; on average {:.1} and {:.1} % utilised",
            usual.drops_text(),
            usual.percent(|run| run.utilisation(0)),
            usual.percent(|run| run.utilisation(1))
        ),
        Verdict::of(
            usual.drops().iter().all(|share| *share >= 100.0 * OFTEN),
            causes::with_early_marks(format!("both are {}", early.drops_text())),
        ),
    ));
    let marks =
        |setup: &MccSetup| [0, 1].map(|link| runs.mean(setup, |run| run.marks(link) as f64));
    let ([l1, l2], [alike_l1, alike_l2]) =
        (marks(&usual.setup), marks(&causes::marks_alike(scale)));
    study.claims.push(scale.claim(
        "fig03",
        "l1 drops because of marks on l2, not because of its own",
        format!(
            "{l1:.0} packets are marked on l1, {l2:.0} on l2, whose thresholds are half of l1's; \
                with the same thresholds \
             {alike_l1:.0} and {alike_l2:.0}"
        ),
        Verdict::of(l2 / (l1 + l2).max(1.0) >= MOST, "both queues mark"),
    ));
    study.claims.push(scale.claim(
        "fig03",
        "1 % of marks drives l1 to nearly 40 %",
        usual.lowest_text(),
        Verdict::of(
            (usual.lowest() / 100.0 - PAPERS_LOW).abs() <= NEAR,
            causes::with_early_marks(early.lowest_text()),
        ),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_is_of_a_whole_millisecond_after_the_first() {
        let mut readings = vec![Reading { utilisation: 1.0, packets: 1, marked: 0 }; 35];
        readings[0].utilisation = 0.0;
        readings[12].utilisation = 0.0;
        readings[34].utilisation = 0.0;
        assert_eq!(lowest(&readings), 0.9);
    }
}
