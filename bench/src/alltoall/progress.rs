//! The progress of rank 0 on a terminal.

use braid_lab::traffic::Workload;
use indicatif::{ProgressBar, ProgressStyle};

use super::args::AllToAllArgs;

/// A bar over all rounds of all workloads. It is drawn on demand, between two rounds, because a
/// thread that ticks would disturb the measurement.
pub(super) struct RoundProgress {
    bar: ProgressBar,
    rounds: u32,
}

impl RoundProgress {
    /// Creates the bar of a rank. Ranks other than 0 show nothing.
    pub(super) fn new(rank: usize, args: &AllToAllArgs) -> Self {
        let all = args.workloads().len() as u64 * (u64::from(args.rounds) + 1);
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg}")
            .expect("the template is constant");
        let bar = match rank {
            0 => ProgressBar::new(all).with_style(style),
            _ => ProgressBar::hidden(),
        };
        RoundProgress { bar, rounds: args.rounds }
    }

    /// Shows the round that begins. Round 0 warms up.
    pub(super) fn show(&self, workload: Workload, round: u32) {
        self.bar.set_message(text(workload, round, self.rounds));
        self.bar.inc(1);
    }

    /// Removes the bar from the terminal.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn text(workload: Workload, round: u32, rounds: u32) -> String {
    match round {
        0 => format!("{workload}: warm-up"),
        _ => format!("{workload}: round {round} of {rounds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_round_is_no_measured_one() {
        assert_eq!(text(Workload::Uniform, 0, 5), "uniform: warm-up");
        assert_eq!(text(Workload::Uniform, 5, 5), "uniform: round 5 of 5");
    }
}
