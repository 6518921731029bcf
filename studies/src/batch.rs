//! Many runs at once: each is one thread, and all cores are used.

use std::sync::Mutex;
use std::thread;

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

/// Runs all jobs, on all cores, and returns the results in the order of the jobs. `what` stands before the
/// progress bar, which is drawn on stderr if that is a terminal.
///
/// # Panics
/// If a run panics.
pub fn run_all<J: Send, T: Send>(what: &str, jobs: Vec<J>, run: impl Fn(J) -> T + Sync) -> Vec<T> {
    let bar = progress_bar(what, jobs.len());
    let mut results: Vec<Option<T>> = jobs.iter().map(|_| None).collect();
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get()).min(jobs.len());
    let waiting = Mutex::new(jobs.into_iter().zip(&mut results));
    let work = || {
        loop {
            let next = waiting.lock().expect("taking a job does not panic").next();
            let Some((job, result)) = next else { return };
            *result = Some(run(job));
            bar.inc(1);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    bar.finish_and_clear();
    drop(waiting);
    results.into_iter().map(|result| result.expect("every job was run")).collect()
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
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        let slow_first = |job: u64| {
            thread::sleep(std::time::Duration::from_micros(200 - 2 * job));
            job * job
        };
        let expected: Vec<u64> = jobs.iter().map(|job| job * job).collect();
        assert_eq!(run_all("squares", jobs, slow_first), expected);
        assert!(run_all("nothing", Vec::new(), slow_first).is_empty());
    }

    #[test]
    #[should_panic(expected = "run 3 is broken")]
    fn a_broken_run_is_not_passed_over() {
        run_all("broken", vec![1, 2, 3, 4], |job| assert!(job != 3, "run {job} is broken"));
    }

    #[test]
    fn seeds_count_up_from_the_first() {
        let effort = Effort { quick: false, seeds: 10, first_seed: 7 };
        assert_eq!(effort.seeds(3).collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!(effort.seeds(99).count(), 10);
    }
}
