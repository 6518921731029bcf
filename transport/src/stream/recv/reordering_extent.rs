//! The reordering extent of packets (RFC 4737): a histogram.

/// Degrees below this have a bucket each; above, each octave has half as many.
const EXACT: u64 = 16;
/// Number of buckets per octave.
const PER_OCTAVE: u64 = EXACT / 2;
/// Degrees are below the widest window, 4096: eight octaves above the exact ones.
const BUCKETS: usize = (EXACT + 8 * PER_OCTAVE) as usize;

/// Histogram of the out-of-order degrees of packets that arrived ahead of the ePSN. The degree of a
/// packet is the number of packets by which it is ahead of the last one in order (PRO, section
/// VI-D): 1 and more. Degrees from 16 on are counted with a resolution of an eighth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OooDegrees {
    buckets: [u32; BUCKETS],
}

impl Default for OooDegrees {
    fn default() -> Self {
        OooDegrees { buckets: [0; BUCKETS] }
    }
}

impl OooDegrees {
    pub(crate) fn record(&mut self, degree: u64) {
        let bucket = &mut self.buckets[index(degree).min(BUCKETS - 1)];
        *bucket = bucket.saturating_add(1);
    }

    /// Returns the degree that `share` of all packets (0 to 1) do not exceed. `in_order`: number of
    /// packets with degree 0.
    pub fn quantile(&self, share: f64, in_order: u64) -> u64 {
        let total = in_order + self.count();
        let rank = (share.clamp(0.0, 1.0) * total as f64).ceil() as u64;
        let mut seen = in_order;
        if rank <= seen {
            return 0;
        }
        for (index, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if rank <= seen {
                return highest(index);
            }
        }
        highest(BUCKETS - 1)
    }

    /// Number of packets counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|count| u64::from(*count)).sum()
    }

    /// Adds the packets of another histogram.
    pub fn merge(&mut self, other: &OooDegrees) {
        for (bucket, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket = bucket.saturating_add(*count);
        }
    }
}

fn index(degree: u64) -> usize {
    if degree < EXACT {
        return degree as usize;
    }
    let octave = u64::from(degree.ilog2()) - u64::from(EXACT.ilog2());
    let within = (degree >> (octave + 1)) - PER_OCTAVE;
    (EXACT + octave * PER_OCTAVE + within) as usize
}

/// Returns the highest degree of a bucket.
fn highest(index: usize) -> u64 {
    let index = index as u64;
    if index < EXACT {
        return index;
    }
    let (octave, within) = ((index - EXACT) / PER_OCTAVE, (index - EXACT) % PER_OCTAVE);
    ((within + PER_OCTAVE + 1) << (octave + 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_degrees_without_gaps() {
        for degree in 0..4096 {
            let index = index(degree);
            assert!(index < BUCKETS && highest(index) >= degree, "{degree} in {index}");
            assert!(index == 0 || highest(index - 1) < degree, "{degree} in {index}");
        }
        assert_eq!(highest(BUCKETS - 1), 4095);
    }

    #[test]
    fn quantiles_count_packets_in_order_too() {
        let mut degrees = OooDegrees::default();
        for degree in [3, 5, 2000] {
            degrees.record(degree);
        }
        assert_eq!(degrees.quantile(0.5, 97), 0);
        assert_eq!([0.98, 0.99].map(|share| degrees.quantile(share, 97)), [3, 5]);
        assert!((2000..2000 * 9 / 8).contains(&degrees.quantile(1.0, 97)));
    }
}
