//! The shortest recent round trip.

use std::time::Duration;

use braid_wire::Time;

/// The minimum of recent samples, in two halves of the time for which they count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shortest {
    since: Time,
    recent: Duration,
    older: Duration,
}

impl Default for Shortest {
    fn default() -> Self {
        Shortest { since: Time::ZERO, recent: Duration::MAX, older: Duration::MAX }
    }
}

impl Shortest {
    /// Adds a sample. Returns the shortest of the samples within `span`, or within at least half of
    /// it.
    pub(super) fn within(&mut self, span: Duration, now: Time, sample: Duration) -> Duration {
        let passed = now - self.since;
        if passed >= span / 2 {
            self.older = if passed < span { self.recent } else { Duration::MAX };
            (self.since, self.recent) = (now, Duration::MAX);
        }
        self.recent = self.recent.min(sample);
        self.recent.min(self.older)
    }

    /// The shortest sample; `None`: there was none.
    pub(super) fn get(&self) -> Option<Duration> {
        Some(self.recent.min(self.older)).filter(|shortest| *shortest < Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_forgotten_after_half_of_the_span_or_all_of_it() {
        let ms = Duration::from_millis;
        let mut shortest = Shortest::default();
        let samples = [(0, 5), (9, 7), (12, 8), (19, 9), (23, 9), (60, 10)];
        let found = samples.map(|(at, sample)| {
            shortest.within(ms(20), Time::ZERO + ms(100 + at), ms(sample)).as_millis()
        });
        assert_eq!(found, [5, 5, 5, 5, 8, 10]);
    }
}
