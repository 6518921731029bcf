//! The peak as perftest defines it: the highest message rate over all spans from the post of a
//! message to the completion of a later one.

use std::time::Instant;

/// Maximum number of messages with a peak, as in perftest, because the times of every message are
/// kept.
pub(crate) const MOST_MESSAGES: u64 = 20_000;

/// The times at which messages were posted and completed, in nanoseconds of the run.
pub(super) struct Peak {
    began: Instant,
    posted: Vec<u64>,
    completed: Vec<u64>,
}

impl Peak {
    pub(super) fn new(began: Instant, messages: usize) -> Self {
        Peak {
            began,
            posted: Vec::with_capacity(messages),
            completed: Vec::with_capacity(messages),
        }
    }

    pub(super) fn on_post(&mut self) {
        self.posted.push(self.began.elapsed().as_nanos() as u64);
    }

    pub(super) fn on_completion(&mut self) {
        self.completed.push(self.began.elapsed().as_nanos() as u64);
    }

    /// Returns the peak in messages per second. `None`: no messages.
    pub(super) fn messages_per_second(&self) -> Option<f64> {
        highest_rate(&self.posted, &self.completed).map(|per_ns| per_ns * 1e9)
    }
}

/// Returns the maximum of (j - i + 1) / (completed\[j\] - posted\[i\]) over all i <= j by
/// Dinkelbach's iteration (On nonlinear fractional programming, 1967). The span that exceeds a rate
/// by most gives the next rate.
fn highest_rate(posted: &[u64], completed: &[u64]) -> Option<f64> {
    let mut rate = 0.0;
    loop {
        let next = best_span(posted, completed, rate)?;
        if next <= rate {
            return Some(rate);
        }
        rate = next;
    }
}

/// Returns the rate of the span with the most messages beyond those that `rate` would complete in
/// it.
fn best_span(posted: &[u64], completed: &[u64], rate: f64) -> Option<f64> {
    let mut best: Option<(f64, f64)> = None;
    let mut start: Option<(f64, usize)> = None;
    for (j, (posted_j, completed_j)) in posted.iter().zip(completed).enumerate() {
        let cost = j as f64 - rate * *posted_j as f64;
        if start.is_none_or(|(least, _)| cost < least) {
            start = Some((cost, j));
        }
        let (cost, i) = start?;
        let surplus = (j + 1) as f64 - rate * *completed_j as f64 - cost;
        if best.is_none_or(|(most, _)| surplus > most) {
            let took = completed_j.saturating_sub(posted[i]).max(1);
            best = Some((surplus, (j - i + 1) as f64 / took as f64));
        }
    }
    best.map(|(_, rate)| rate)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Computes the peak in quadratic time, as perftest does.
    fn by_all_pairs(posted: &[u64], completed: &[u64]) -> f64 {
        let spans = (0..posted.len()).flat_map(|i| (i..completed.len()).map(move |j| (i, j)));
        let rates = spans.map(|(i, j)| {
            (j - i + 1) as f64 / completed[j].saturating_sub(posted[i]).max(1) as f64
        });
        rates.fold(0.0, f64::max)
    }

    #[test]
    fn the_peak_is_the_maximum_over_all_spans() {
        for seed in 0..200 {
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let (mut posted, mut completed) = (Vec::new(), Vec::new());
            let (mut clock, mut last) = (0, 0);
            for _ in 0..rng.random_range(1..60) {
                clock += rng.random_range(0..1000);
                last = last.max(clock + rng.random_range(1..1000));
                posted.push(clock);
                completed.push(last);
            }
            let found = highest_rate(&posted, &completed).unwrap();
            let wanted = by_all_pairs(&posted, &completed);
            assert!((found / wanted - 1.0).abs() < 1e-9, "seed {seed}: {found}, not {wanted}");
        }
    }

    #[test]
    fn a_run_without_messages_has_none() {
        assert_eq!(highest_rate(&[], &[]), None);
    }
}
