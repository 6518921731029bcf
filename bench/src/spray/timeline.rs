//! The effect of a black hole on the goodput, computed from its samples.

use crate::samples::Sample;

/// Milliseconds over which the goodput is averaged.
const WINDOW_MS: f64 = 20.0;
/// Milliseconds for which the goodput must stay back. Packets that waited behind a black hole
/// arrive in one burst, which is not a recovery.
const STEADY_MS: f64 = 100.0;

/// The time during which the goodput was below a target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Recovery {
    /// Milliseconds from the start of the failure; 0: it never fell below.
    After(f64),
    /// No recovery before the end of the failure.
    Never,
}

/// Returns when, after `from_ms`, the goodput was back at `target_gbps` before the end of the
/// failure: from then on, its means over [`WINDOW_MS`] and over [`STEADY_MS`] reach the target.
pub(super) fn recovery(
    samples: &[Sample],
    from_ms: f64,
    until_ms: f64,
    target_gbps: f64,
) -> Recovery {
    let good = |after_ms, to_ms| mean(samples, after_ms, to_ms).is_some_and(|g| g >= target_gbps);
    let times: Vec<f64> = samples.iter().map(|sample| sample.at_ms).collect();
    let during = || times.iter().copied().filter(|at| *at > from_ms && *at <= until_ms);
    let Some(fell) = during().find(|at| !good(at - WINDOW_MS, *at)) else {
        return Recovery::After(0.0);
    };
    let is_back = |at: &f64| {
        at + STEADY_MS <= until_ms && good(*at, at + WINDOW_MS) && good(*at, at + STEADY_MS)
    };
    let back = during().filter(|at| *at > fell - WINDOW_MS).find(is_back);
    back.map_or(Recovery::Never, |at| Recovery::After(at - from_ms))
}

/// Returns the mean goodput of the samples that end in a span.
pub(super) fn mean(samples: &[Sample], after_ms: f64, to_ms: f64) -> Option<f64> {
    let inside = samples.iter().filter(|s| s.at_ms > after_ms && s.at_ms <= to_ms);
    let (sum, count) = inside.fold((0.0, 0), |(sum, count), s| (sum + s.goodput_gbps, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a sample every 5 ms up to one second.
    fn samples(goodput: impl Fn(f64) -> f64) -> Vec<Sample> {
        let at = (1..=200).map(|i| f64::from(i) * 5.0);
        at.map(|at_ms| Sample { at_ms, goodput_gbps: goodput(at_ms), rto_ms: 4.0 }).collect()
    }

    #[test]
    fn goodput_that_never_fell_has_recovered_at_once() {
        assert_eq!(recovery(&samples(|_| 0.5), 100.0, 900.0, 0.5), Recovery::After(0.0));
    }

    #[test]
    fn the_mean_over_the_window_has_to_be_back() {
        // No goodput for 30 ms. A window of 20 ms has four samples.
        let dip = samples(|t| if t > 100.0 && t <= 130.0 { 0.0 } else { 1.0 });
        assert_eq!(recovery(&dip, 100.0, 900.0, 0.9), Recovery::After(30.0));
        assert_eq!(recovery(&dip, 100.0, 900.0, 0.7), Recovery::After(25.0));
    }

    #[test]
    fn a_burst_is_no_recovery() {
        let burst = samples(|t| match t {
            t if t <= 100.0 => 1.0,
            t if t <= 130.0 => 0.0,
            t if t <= 135.0 => 6.0,
            t if t <= 400.0 => 0.1,
            _ => 1.0,
        });
        assert_eq!(recovery(&burst, 100.0, 900.0, 0.9), Recovery::After(300.0));
    }

    #[test]
    fn a_good_moment_right_before_the_end_is_no_recovery() {
        let late = samples(|t| if t > 100.0 && t <= 850.0 { 0.0 } else { 1.0 });
        assert_eq!(recovery(&late, 100.0, 900.0, 0.9), Recovery::Never);
    }

    #[test]
    fn goodput_that_stays_low_never_recovers() {
        let dead = samples(|t| if t > 100.0 { 0.0 } else { 1.0 });
        assert_eq!(recovery(&dead, 100.0, 900.0, 0.9), Recovery::Never);
    }
}
