//! How much is sent, and what that can judge.

use crate::{Claim, Effort, Verdict};

/// Servers that send in one direction.
const SENDERS: u64 = 4;
/// Figure 2, in one direction together; figure 6 has the second.
const TOTALS: [u64; 3] = [500_000_000, 1_000_000_000, 2_000_000_000];
/// `--quick` sends so much less.
const QUICK_SHARE: u64 = 50;

/// How much is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    quick: bool,
}

impl Scale {
    pub(super) fn of(effort: &Effort) -> Scale {
        Scale { quick: effort.quick }
    }

    /// Bytes that a server sends, for the sizes of figure 2.
    pub(super) fn server_bytes(&self) -> [u64; 3] {
        let share = if self.quick { QUICK_SHARE } else { 1 };
        TOTALS.map(|total| total / SENDERS / share)
    }

    /// Of figures 3 and 6: 250 MB.
    pub(super) fn usual(&self) -> u64 {
        self.server_bytes()[1]
    }

    /// What all servers of a leaf send together.
    pub(super) fn label(server_bytes: u64) -> String {
        let total = SENDERS * server_bytes;
        match total >= 500_000_000 {
            true => format!("{} GB", total as f64 / 1e9),
            false => format!("{} MB", total as f64 / 1e6),
        }
    }

    /// A claim with its verdict, unless what was sent is too little for one.
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
        let (full, quick) = (Scale::of(&Effort::FULL), Scale::of(&Effort::QUICK));
        assert_eq!(full.server_bytes().map(Scale::label), ["0.5 GB", "1 GB", "2 GB"]);
        assert_eq!((full.usual(), Scale::label(quick.usual())), (250_000_000, "20 MB".to_owned()));
        let verdict =
            |scale: Scale| scale.claim("", "", String::new(), Verdict::Reproduced).verdict;
        assert_eq!(verdict(full), Verdict::Reproduced);
        assert!(matches!(verdict(quick), Verdict::NotJudged(_)));
    }
}
