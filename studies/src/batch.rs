//! The effort of a study, and its execution with a progress bar.

use braid_sim::parallel;
use indicatif::{ProgressBar, ProgressStyle};

/// The effort of a study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Fewer seeds and sizes, for tests: under 20 s per paper.
    pub quick: bool,
    /// Runs per point. A figure with long runs may make fewer, and says so.
    pub seeds: u32,
    /// The seed of the first run. Later runs count up from it.
    pub first_seed: u64,
}

impl Effort {
    /// The number of runs that the papers report: ten.
    pub const FULL: Effort = Effort { quick: false, seeds: 10, first_seed: 1 };
    /// A short run for tests.
    pub const QUICK: Effort = Effort { quick: true, seeds: 1, first_seed: 1 };

    /// Returns the seeds of a point's runs, at most `most` of them.
    pub fn seeds(&self, most: u32) -> impl Iterator<Item = u64> + Clone + use<> {
        let first = self.first_seed;
        (0..self.seeds.clamp(1, most.max(1))).map(move |run| first + u64::from(run))
    }
}

/// Runs all jobs like [`parallel::run_all`]. `what` labels the progress bar, which is drawn on
/// stderr if that is a terminal.
///
/// # Panics
/// Panics if a run panics.
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
