//! Parallel runs: one thread per run, on all cores.

use std::sync::Mutex;
use std::thread;

/// Runs all jobs on all cores, and returns the results in the order of the jobs.
///
/// # Panics
/// Panics if a run panics.
pub fn run_all<J: Send, T: Send>(jobs: Vec<J>, run: impl Fn(J) -> T + Sync) -> Vec<T> {
    let mut results: Vec<Option<T>> = jobs.iter().map(|_| None).collect();
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get()).min(jobs.len());
    let waiting = Mutex::new(jobs.into_iter().zip(&mut results));
    let work = || {
        loop {
            let next = waiting.lock().expect("taking a job does not panic").next();
            let Some((job, result)) = next else { return };
            *result = Some(run(job));
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    drop(waiting);
    results.into_iter().map(|result| result.expect("every job was run")).collect()
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
        assert_eq!(run_all(jobs, slow_first), expected);
        assert!(run_all(Vec::new(), slow_first).is_empty());
    }

    #[test]
    #[should_panic(expected = "run 3 is broken")]
    fn a_broken_run_is_not_passed_over() {
        run_all(vec![1, 2, 3, 4], |job| assert!(job != 3, "run {job} is broken"));
    }
}
