//! The round-trip time of a typical path.

/// An estimate of the median over paths, each counting once however many packets it carries: what most
/// paths do is normal, and most packets may well be on the few that are slow.
///
/// It moves by a 32nd towards each value that it is shown, whatever the distance, so it rests where as many
/// lie above as below.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Typical {
    /// Nanoseconds; 0 before the first.
    median: u64,
}

impl Typical {
    pub(crate) fn show(&mut self, rtt_ns: u64) {
        let step = self.median / 32 + 1;
        self.median = match rtt_ns.cmp(&self.median) {
            _ if self.median == 0 => rtt_ns,
            std::cmp::Ordering::Greater => self.median.saturating_add(step),
            std::cmp::Ordering::Equal => self.median,
            std::cmp::Ordering::Less => self.median - step,
        };
    }

    pub(crate) fn nanos(self) -> u64 {
        self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settles_at_the_median_and_follows_it() {
        let mut typical = Typical::default();
        let mut after = |rtts: [u64; 5]| {
            rtts.into_iter().cycle().take(2000).for_each(|rtt| typical.show(rtt));
            typical.nanos()
        };
        assert!((900..1100).contains(&after([500, 900, 1000, 1100, 90_000])));
        assert!((18_000..22_000).contains(&after([19_000, 20_000, 21_000, 100, 1_000_000])));
    }
}
