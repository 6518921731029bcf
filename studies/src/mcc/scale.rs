//! The size of the messages, and the claims that it can judge.

use crate::{Claim, Effort, Verdict};

/// Number of servers that send in one direction.
const SENDERS: u64 = 4;
/// Sums over one direction in figure 2. Figure 6 has the second.
const TOTALS: [u64; 3] = [500_000_000, 1_000_000_000, 2_000_000_000];
/// Factor by which `--quick` sends less.
const QUICK_SHARE: u64 = 50;

/// The size of the messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct MccScale {
    quick: bool,
}

impl MccScale {
    pub(super) fn of(effort: &Effort) -> MccScale {
        MccScale { quick: effort.quick }
    }

    /// Returns the bytes per server for the sizes of figure 2.
    pub(super) fn server_bytes(&self) -> [u64; 3] {
        let share = if self.quick { QUICK_SHARE } else { 1 };
        TOTALS.map(|total| total / SENDERS / share)
    }

    /// Returns the bytes per server in figures 3 and 6: 250 MB.
    pub(super) fn usual(&self) -> u64 {
        self.server_bytes()[1]
    }

    /// Formats the sum over all servers of a leaf.
    pub(super) fn label(server_bytes: u64) -> String {
        let total = SENDERS * server_bytes;
        match total >= 500_000_000 {
            true => format!("{} GB", total as f64 / 1e9),
            false => format!("{} MB", total as f64 / 1e6),
        }
    }

    /// Returns a claim with its verdict, or without one if the messages are too small for it.
    pub(super) fn claim(
        &self,
        figure: &str,
        says: &str,
        measured: String,
        verdict: Verdict,
    ) -> Claim {
        let verdict = match self.quick {
            false => verdict,
            true => Verdict::NotJudged(
                "these sizes take about 1 ms, as long as one recovery of DCQCN".to_owned(),
            ),
        };
        Claim { figure: figure.to_owned(), says: says.to_owned(), measured, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_are_the_papers_and_small_ones_judge_nothing() {
        let (full, quick) = (MccScale::of(&Effort::FULL), MccScale::of(&Effort::QUICK));
        assert_eq!(full.server_bytes().map(MccScale::label), ["0.5 GB", "1 GB", "2 GB"]);
        assert_eq!(
            (full.usual(), MccScale::label(quick.usual())),
            (250_000_000, "20 MB".to_owned())
        );
        let verdict =
            |scale: MccScale| scale.claim("", "", String::new(), Verdict::Reproduced).verdict;
        assert_eq!(verdict(full), Verdict::Reproduced);
        assert!(matches!(verdict(quick), Verdict::NotJudged(_)));
    }
}
