//! The effect of a black hole on the goodput, computed from its samples.

use crate::samples::Sample;

/// Milliseconds over which the goodput is averaged.
pub(super) const WINDOW_MS: f64 = 20.0;
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

/// The goodput of an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Goodput {
    /// End of the interval.
    pub(super) at_ms: f64,
    /// Duration of the interval.
    took_ms: f64,
    pub(super) gbps: f64,
}

/// Returns the payload that was acknowledged over time, in any order.
///
/// Completions come in order: with a large window, one lost packet holds back those of tens of
/// milliseconds, failure or not.
pub(super) fn acked(samples: &[Sample]) -> Vec<Goodput> {
    let starts = std::iter::once(0.0).chain(samples.iter().map(|sample| sample.at_ms));
    let completed = |(sample, start): (&Sample, f64)| Goodput {
        at_ms: sample.at_ms,
        took_ms: sample.at_ms - start,
        gbps: sample.goodput_gbps,
    };
    let mut goodput: Vec<Goodput> = samples.iter().zip(starts).map(completed).collect();
    // All messages are alike, so the packets carry the same number of bytes on average.
    let bits: f64 = goodput.iter().map(|interval| interval.gbps * interval.took_ms).sum();
    let packets: u64 = samples.iter().map(|sample| sample.acked_packets).sum();
    for (interval, sample) in goodput.iter_mut().zip(samples) {
        let share = sample.acked_packets as f64 / packets.max(1) as f64;
        interval.gbps = bits * share / interval.took_ms;
    }
    goodput
}

/// Returns when, after `from_ms`, the goodput was back at `target_gbps`.
///
/// Its means over the next [`WINDOW_MS`], over [`STEADY_MS`] and until the end of the failure have
/// to reach the target. So later dips count only if they last.
pub(super) fn recovery(
    goodput: &[Goodput],
    from_ms: f64,
    until_ms: f64,
    target_gbps: f64,
) -> Recovery {
    let good = |after_ms, to_ms| mean(goodput, after_ms, to_ms).is_some_and(|g| g >= target_gbps);
    let times = goodput.iter().map(|sample| sample.at_ms).filter(|at| *at > from_ms);
    let is_back = |at: &f64| {
        let spans = [at + WINDOW_MS, at + STEADY_MS, until_ms];
        at + STEADY_MS <= until_ms && spans.iter().all(|to_ms| good(*at, *to_ms))
    };
    let back = std::iter::once(from_ms).chain(times).find(is_back);
    back.map_or(Recovery::Never, |at| Recovery::After(at - from_ms))
}

/// Returns the mean goodput in spans of [`WINDOW_MS`], each with the span's end relative to
/// `zero_ms`, one of the ends.
pub(super) fn means(goodput: &[Goodput], zero_ms: f64) -> Vec<(f64, f64)> {
    let end_ms = goodput.last().map_or(0.0, |sample| sample.at_ms);
    let (before, after) = (zero_ms / WINDOW_MS, (end_ms - zero_ms) / WINDOW_MS);
    let spans = (-before.floor() as i64 + 1)..=after.floor() as i64;
    let ends = spans.map(|span| span as f64 * WINDOW_MS);
    ends.filter_map(|end| {
        let gbps = mean(goodput, zero_ms + end - WINDOW_MS, zero_ms + end)?;
        Some((end, gbps))
    })
    .collect()
}

/// Returns the mean goodput of the intervals that end in a span.
pub(super) fn mean(goodput: &[Goodput], after_ms: f64, to_ms: f64) -> Option<f64> {
    let inside = goodput.iter().filter(|g| g.at_ms > after_ms && g.at_ms <= to_ms);
    let sum = |(bits, ms), g: &Goodput| (bits + g.gbps * g.took_ms, ms + g.took_ms);
    let (bits, ms) = inside.fold((0.0, 0.0), sum);
    (ms > 0.0).then(|| bits / ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a sample every 5 ms up to one second.
    fn samples(goodput: impl Fn(f64) -> f64) -> Vec<Goodput> {
        let at = (1..=200).map(|i| f64::from(i) * 5.0);
        at.map(|at_ms| Goodput { at_ms, took_ms: 5.0, gbps: goodput(at_ms) }).collect()
    }

    /// The last message of a stall completes with all that have arrived meanwhile.
    #[test]
    fn goodput_is_that_of_the_packets_that_arrive() {
        let sample = |at_ms, goodput_gbps, acked_packets| Sample {
            at_ms,
            goodput_gbps,
            acked_packets,
            rto_ms: 4.0,
        };
        let acked = acked(&[sample(5.0, 0.0, 50), sample(10.0, 1.2, 40), sample(20.0, 0.0, 30)]);
        let gbps: Vec<f64> = acked.iter().map(|goodput| goodput.gbps).collect();
        let expected = [0.5, 0.4, 0.15];
        assert!(gbps.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{gbps:?}");
        let whole = mean(&acked, 0.0, 20.0).unwrap();
        assert!((whole - 0.3).abs() < 1e-9, "longer intervals count more: {whole}");
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
    fn a_pause_long_after_the_failure_is_not_its_effect() {
        let dip = samples(|t| if t > 500.0 && t <= 530.0 { 0.0 } else { 1.0 });
        assert_eq!(recovery(&dip, 100.0, 900.0, 0.9), Recovery::After(0.0));
        let lasting = samples(|t| if t > 500.0 && t <= 600.0 { 0.0 } else { 1.0 });
        assert_eq!(recovery(&lasting, 100.0, 900.0, 0.9), Recovery::After(500.0));
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

    #[test]
    fn means_are_of_spans_on_both_sides_of_the_failure() {
        let goodput = samples(|t| if t <= 110.0 { 1.0 } else { 0.5 });
        let means = means(&goodput, 110.0);
        let ends: Vec<f64> = means.iter().map(|(end, _)| *end).collect();
        assert_eq!(ends[..6], [-80.0, -60.0, -40.0, -20.0, 0.0, 20.0]);
        assert!(means.iter().all(|(end, gbps)| *gbps == if *end <= 0.0 { 1.0 } else { 0.5 }));
        assert_eq!(means.last().map(|(end, _)| *end), Some(880.0), "no span is cut short");
    }
}
