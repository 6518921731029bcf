//! The progress of rank 0 on a terminal.

use std::time::{Duration, Instant};

use braid_lab::traffic::Workload;

use super::args::AllToAllArgs;
use crate::progress::Line;

/// A line about the round that runs. It is written on demand, between two rounds, because a thread
/// that ticks would disturb the measurement.
pub(super) struct RoundProgress {
    /// `None`: nothing is shown.
    line: Option<Line>,
    rounds: u32,
}

impl RoundProgress {
    /// Begins the line of a rank. Ranks other than 0 show nothing.
    pub(super) fn begin(rank: usize, args: &AllToAllArgs) -> Self {
        let line = if rank == 0 { Line::begin() } else { None };
        RoundProgress { line, rounds: args.rounds }
    }

    /// Shows the round that begins, if it is time. Round 0 warms up.
    pub(super) fn tick(&mut self, workload: Workload, round: u32) {
        if let Some(line) = &mut self.line {
            let rounds = self.rounds;
            line.tick(Instant::now(), |passed| text(passed, workload, round, rounds));
        }
    }
}

fn text(passed: Duration, workload: Workload, round: u32, rounds: u32) -> String {
    let passed = passed.as_secs_f64();
    match round {
        0 => format!("{passed:.0} s, {workload}: warm-up"),
        _ => format!("{passed:.0} s, {workload}: round {round} of {rounds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_round_is_no_measured_one() {
        let text = |round| text(Duration::from_millis(2100), Workload::Uniform, round, 5);
        assert_eq!(text(0), "2 s, uniform: warm-up");
        assert_eq!(text(5), "2 s, uniform: round 5 of 5");
    }
}
