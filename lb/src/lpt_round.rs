//! RailS, Algorithm 2: assigns the chunks of one all-to-all round to the rails of one domain, the
//! longest first, each to the rail that completes it first.

use std::cmp::Reverse;

use braid_wire::{MAX_RAILS, RailId};

use crate::LoadMse;

/// Bytes for one destination that use one rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// Number of the receiving domain.
    pub destination: usize,
    /// Length in bytes.
    pub bytes: u64,
}

/// The load state of one domain in one round.
///
/// With N rails of equal speed, the highest load is at most the optimum plus the largest chunk. It
/// is also at most 4/3 - 1/(3N) times the optimum (Graham 1969; RailS, section IV-F).
#[derive(Clone, Debug)]
pub struct LptRound {
    /// Number of this domain.
    source: usize,
    /// Speed of each rail in bytes per unit of time.
    speeds: Vec<u64>,
    /// Load of each rail in bytes.
    loads: Vec<u64>,
    /// Bytes by destination and rail.
    sent: Vec<Vec<u64>>,
}

impl LptRound {
    /// Creates the round of domain `source` over rails of these relative speeds: `&[1; N]` for
    /// equal ones.
    ///
    /// # Panics
    /// If there is no rail, if there are more than [`MAX_RAILS`], or if a speed is 0.
    pub fn new(source: usize, speeds: &[u64]) -> Self {
        let rails = speeds.len();
        assert!(
            (1..=MAX_RAILS).contains(&rails),
            "invalid number of rails {rails}; use 1 to {MAX_RAILS}"
        );
        assert!(!speeds.contains(&0), "a rail of speed 0 carries nothing: omit it");
        LptRound { source, speeds: speeds.to_vec(), loads: vec![0; rails], sent: Vec::new() }
    }

    /// Returns the rail of each chunk, in the order of the chunks. Costs O(F log F + F N) for F
    /// chunks on N rails.
    pub fn assign(&mut self, chunks: &[Chunk]) -> Vec<RailId> {
        self.assign_counted(chunks, |_| ())
    }

    /// Implements [`LptRound::assign`] and counts the inspected rails and chunks.
    fn assign_counted(&mut self, chunks: &[Chunk], mut count: impl FnMut(usize)) -> Vec<RailId> {
        let mut order: Vec<usize> = (0..chunks.len()).collect();
        // Equal chunks are sorted by destination, so that the chunks of a destination take
        // consecutive rails.
        let rank = |index: usize| (Reverse(chunks[index].bytes), chunks[index].destination, index);
        order.sort_unstable_by(|a, b| {
            count(1);
            rank(*a).cmp(&rank(*b))
        });
        let mut rails = vec![RailId::FIRST; chunks.len()];
        for index in order {
            count(self.loads.len());
            rails[index] = self.take(chunks[index]);
        }
        rails
    }

    /// Returns the bytes on each rail so far.
    pub fn loads(&self) -> &[u64] {
        &self.loads
    }

    /// Returns the imbalance of the loads (Algorithm 2, step 6), each divided by the speed of its
    /// rail.
    pub fn mse(&self) -> LoadMse {
        let loads = self.loads.iter().zip(&self.speeds);
        LoadMse::of(loads.map(|(load, speed)| *load as f64 / *speed as f64))
    }

    fn take(&mut self, chunk: Chunk) -> RailId {
        let (rails, destination) = (self.loads.len(), chunk.destination);
        if self.sent.len() <= destination {
            self.sent.resize(destination + 1, vec![0; rails]);
        }
        // Among equal rails, the one with the fewest bytes to this destination wins, then the next
        // one from a start that differs for each pair of domains. With a common start, equal chunks
        // of all domains would reach a receiver on the same rail.
        let start = self.source.wrapping_add(destination) % rails;
        let in_turn = (0..rails).map(|step| (start + step) % rails);
        let better = |best: usize, next: usize| {
            let [ours, theirs] =
                [next, best].map(|rail| u128::from(self.loads[rail] + chunk.bytes));
            // Compares completion times without a division.
            let ours = ours * u128::from(self.speeds[best]);
            let theirs = theirs * u128::from(self.speeds[next]);
            let sent = &self.sent[destination];
            if (ours, sent[next]) < (theirs, sent[best]) { next } else { best }
        };
        let rail = in_turn.reduce(better).expect("there is at least one rail");
        self.loads[rail] += chunk.bytes;
        self.sent[destination][rail] += chunk.bytes;
        RailId::new(rail)
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;

    fn equal(rails: usize) -> Vec<u64> {
        vec![1; rails]
    }

    fn chunks(bytes: &[u64]) -> Vec<Chunk> {
        bytes.iter().map(|bytes| Chunk { destination: 0, bytes: *bytes }).collect()
    }

    /// Returns the lowest maximum load over all assignments.
    fn optimum(bytes: &[u64], loads: &mut Vec<u64>) -> u64 {
        let Some((first, rest)) = bytes.split_first() else {
            return loads.iter().copied().max().unwrap_or(0);
        };
        (0..loads.len())
            .map(|rail| {
                loads[rail] += first;
                let best = optimum(rest, loads);
                loads[rail] -= first;
                best
            })
            .min()
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn keeps_the_bounds_of_the_theorems(
            bytes in prop::collection::vec(0_u64..1000, 1..8),
            rails in 1_usize..=4,
        ) {
            let mut round = LptRound::new(0, &equal(rails));
            round.assign(&chunks(&bytes));
            let highest = round.loads().iter().copied().max().unwrap();
            let best = optimum(&bytes, &mut vec![0; rails]);
            let (longest, rails) = (bytes.iter().copied().max().unwrap(), rails as u64);
            prop_assert!(highest <= best + longest);
            // highest <= (4/3 - 1/(3N)) best, multiplied by 3 N.
            prop_assert!(3 * rails * highest <= (4 * rails - 1) * best, "{highest} {best}");
            // Theorem 4: the mean square error is at most the square of the longest chunk.
            let mean = bytes.iter().sum::<u64>() as f64 / rails as f64;
            let square = round.loads().iter().map(|load| (*load as f64 - mean).powi(2));
            prop_assert!(square.sum::<f64>() / rails as f64 <= (longest * longest) as f64);
        }

        #[test]
        fn domains_that_send_in_the_same_order_are_received_evenly(
            rails in 2_usize..=8,
            domains in 1_usize..4,
            each in 1_usize..12,
            in_one_call in any::<bool>(),
        ) {
            // With a multiple of the number of rails as the number of domains, each rail's share of
            // a receiver is exact.
            let domains = domains * rails;
            let mut received = vec![vec![0_u64; rails]; domains];
            for source in 0..domains {
                let all: Vec<Chunk> = (0..each * domains)
                    .map(|index| Chunk { destination: index % domains, bytes: 64 << 10 })
                    .collect();
                let mut round = LptRound::new(source, &equal(rails));
                for part in all.chunks(if in_one_call { all.len() } else { domains }) {
                    for (chunk, rail) in part.iter().zip(round.assign(part)) {
                        received[chunk.destination][rail.get()] += chunk.bytes;
                    }
                }
                prop_assert!(round.mse().of_mean < 1e-9);
            }
            for loads in received {
                let mse = LoadMse::of(loads.iter().map(|load| *load as f64));
                prop_assert!(mse.of_mean <= 0.01, "{mse:?} {loads:?}");
            }
        }

        #[test]
        fn a_rail_takes_chunks_as_it_is_fast(speeds in prop::collection::vec(1_u64..20, 1..8)) {
            let mut round = LptRound::new(3, &speeds);
            round.assign(&chunks(&[1000; 400]));
            let (bytes, fastest) = (400_000_f64, speeds.iter().sum::<u64>() as f64);
            let slowest = speeds.iter().copied().min().unwrap() as f64;
            for (load, speed) in round.loads().iter().zip(&speeds) {
                let time = *load as f64 / *speed as f64;
                prop_assert!(time <= bytes / fastest + 1000. / slowest, "{:?}", round.loads());
            }
        }
    }

    #[test]
    fn costs_f_log_f_and_f_n() {
        for (count, rails) in [(100, 2), (1000, 8), (10_000, 4), (100_000, 8)] {
            let mut steps = 0;
            let mixed = |index: usize| (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
            let bytes: Vec<u64> = (0..count).map(mixed).collect();
            let rails_of = LptRound::new(0, &equal(rails))
                .assign_counted(&chunks(&bytes), |more| steps += more);
            black_box(rails_of);
            let bound = count * (2 * count.ilog2() as usize + rails);
            assert!(steps <= bound, "{steps} steps for {count} chunks on {rails} rails");
        }
    }

    #[test]
    fn the_longest_goes_first() {
        // In the given order, the last chunk would join the 2. Sorted, 3 and 2 + 1 are even.
        let mut round = LptRound::new(0, &equal(2));
        let rails = round.assign(&chunks(&[1, 2, 3]));
        assert_eq!(round.loads(), [3, 3]);
        assert_eq!(rails[0], rails[1]);
    }
}
