//! How much is run, and all of it, with a progress bar.

use braid_sim::parallel;
use indicatif::{ProgressBar, ProgressStyle};

/// How much is to be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Fewer seeds and sizes, for tests: under 20 s per paper.
    pub quick: bool,
    /// Runs per point; a figure whose runs are long may make fewer, and says so.
    pub seeds: u32,
    /// The first run's seed; the next ones count up.
    pub first_seed: u64,
}

impl Effort {
    /// What the papers did where they say it: ten runs.
    pub const FULL: Effort = Effort { quick: false, seeds: 10, first_seed: 1 };
    /// Enough to see that it works.
    pub const QUICK: Effort = Effort { quick: true, seeds: 1, first_seed: 1 };

    /// The seeds of a point's runs, at most `most` of them.
    pub fn seeds(&self, most: u32) -> impl Iterator<Item = u64> + Clone + use<> {
        let first = self.first_seed;
        (0..self.seeds.clamp(1, most.max(1))).map(move |run| first + u64::from(run))
    }
}

/// As [`parallel::run_all`]. `what` stands before the progress bar, which is drawn on stderr if that is a terminal.
///
/// # Panics
/// If a run panics.
pub fn run_all<J: Send, T: Send>(what: &str, jobs: Vec<J>, run: impl Fn(J) -> T + Sync) -> Vec<T> {
    let bar = progress_bar(what, jobs.len());
    let done = |job| {
        let result = run(job);
        bar.inc(1);
        result
    };
    let results = parallel::run_all(jobs, done);
    bar.finish_and_clear();
    results
}

fn progress_bar(what: &str, jobs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>16} {wide_bar} {pos}/{len} {elapsed}")
        .expect("the template is well-formed");
    ProgressBar::new(jobs as u64).with_style(style).with_prefix(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_count_up_from_the_first() {
        let effort = Effort { quick: false, seeds: 10, first_seed: 7 };
        assert_eq!(effort.seeds(3).collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!(effort.seeds(99).count(), 10);
    }
}
