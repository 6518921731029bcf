//! The claims of the paper about figure 5.

use super::{
    CollectiveCase, CollectiveRun, ThemisCollective, ThemisScale, ThemisScheme, Timers,
    completion_us, reduction,
};
use crate::{Claim, Spread, Verdict};

/// Tolerance of the ends of a range, in percentage points.
const NEAR: f64 = 10.0;
/// Factor from which a time counts as longer.
const SLOWER: f64 = 1.02;

/// One half of the figure.
pub(super) struct Half<'a> {
    pub(super) measured: &'a [CollectiveRun],
    pub(super) collective: ThemisCollective,
    pub(super) scale: ThemisScale,
    pub(super) timers: &'a [Timers],
}

impl Half<'_> {
    pub(super) fn claims(&self) -> Vec<Claim> {
        vec![
            self.against_adaptive_routing(),
            self.against_ecmp(),
            self.milder_timers(),
            self.extreme_timers(),
        ]
    }

    fn time(&self, scheme: ThemisScheme, timers: Timers) -> f64 {
        let Half { measured, collective, scale, .. } = *self;
        completion_us(measured, CollectiveCase { collective, scheme, timers, bytes: scale.bytes })
    }

    /// Returns the percent by which Themis is faster, over all timers.
    fn reduction_from(&self, scheme: ThemisScheme) -> Spread {
        let all = self
            .timers
            .iter()
            .map(|at| reduction(self.time(scheme, *at), self.time(ThemisScheme::Themis, *at)));
        Spread::of(&all.collect::<Vec<f64>>())
    }

    fn claim(&self, says: &str, measured: String, verdict: Verdict) -> Claim {
        let says = format!("{}: {says}", self.collective.name());
        Claim { figure: self.collective.figure().to_owned(), says, measured, verdict }
    }

    fn against_adaptive_routing(&self) -> Claim {
        let (least, most) = self.collective.claimed();
        let Spread { min, max, .. } = self.reduction_from(ThemisScheme::Adaptive);
        let shortest = self.time(ThemisScheme::Shortest, Timers::RECOMMENDED);
        let themis = self.time(ThemisScheme::Themis, Timers::RECOMMENDED);
        let why = format!(
            "it is as large as adaptive routing reorders, which the paper does \
             not specify: by the shortest queue, exact and fresh, nothing is resent, and it takes \
             {shortest:.0} us to Themis' {themis:.0} us"
        );
        self.claim(
            &format!("Themis takes {least} to {most} % less time than adaptive routing, by timers"),
            format!(
                "{min:.1} to {max:.1} % less; with 900/4 {}",
                reductions(self.measured, self.collective)
            ),
            Verdict::of((min - least).abs() <= NEAR && (max - most).abs() <= NEAR, why),
        )
    }

    fn against_ecmp(&self) -> Claim {
        let Spread { min, max, .. } = self.reduction_from(ThemisScheme::Ecmp);
        self.claim(
            "Themis always takes less time than ECMP",
            format!("{min:.1} to {max:.1} % less"),
            Verdict::of(min > 0.0, "ECMP is faster somewhere"),
        )
    }

    /// Judges that smaller T_I and larger T_D compensate NACKs.
    fn milder_timers(&self) -> Claim {
        let (recommended, eager) = (Timers::RECOMMENDED, Timers::EAGER);
        let slow = self.time(ThemisScheme::Adaptive, recommended);
        let milder = [
            Timers { increase_us: eager.increase_us, ..recommended },
            Timers { cut_us: eager.cut_us, ..recommended },
            eager,
        ];
        let run = milder.into_iter().filter(|at| self.timers.contains(at));
        let times: Vec<(String, f64)> =
            run.map(|at| (at.name(), self.time(ThemisScheme::Adaptive, at))).collect();
        let each = times.iter().map(|(name, us)| format!("{us:.0} us with {name}"));
        self.claim(
            "adaptive routing does badly with the recommended timers 900/4; smaller TI and larger \
                TD \
             help",
            format!("{slow:.0} us; {}", each.collect::<Vec<String>>().join(", ")),
            Verdict::of(times.iter().all(|(_, us)| slow > SLOWER * us), "not all of them help"),
        )
    }

    /// Judges the limit of that effect in the paper.
    fn extreme_timers(&self) -> Claim {
        let extreme = self.time(ThemisScheme::Adaptive, Timers::EAGER);
        let all = self.timers.iter().map(|at| (at.name(), self.time(ThemisScheme::Adaptive, *at)));
        let best = all.min_by(|a, b| a.1.total_cmp(&b.1));
        let (name, us) = best.expect("there are timers");
        let sprayed = self.measured.iter().filter(|run| run.case.scheme == ThemisScheme::Adaptive);
        let (marks, packets) = sprayed
            .fold((0, 0), |(marks, packets), run| (marks + run.marks, packets + run.packets));
        let marked = 100.0 * marks as f64 / packets as f64;
        self.claim(
            "with extreme timers, TI too small or TD too large, adaptive routing is slower again",
            format!("{extreme:.0} us with 10/200, the best is {us:.0} us with {name}"),
            Verdict::of(
                extreme > SLOWER * us,
                format!(
                    "only {marked:.2} % of packets were marked in all runs of adaptive routing: \
                        there is little \
                     congestion to answer late, and who ignores NACKs most is fastest"
                ),
            ),
        )
    }
}

/// Formats the percent by which Themis is faster than adaptive routing with the recommended timers,
/// by size.
pub(super) fn reductions(measured: &[CollectiveRun], collective: ThemisCollective) -> String {
    let mut sizes: Vec<(u64, f64)> = super::reductions_by_size(measured, collective).collect();
    sizes.sort_by_key(|(bytes, _)| *bytes);
    let each = sizes
        .iter()
        .map(|(bytes, percent)| format!("{percent:.1} % at {} MB", *bytes as f64 / 1e6));
    each.collect::<Vec<String>>().join(", ")
}
