//! Lanes of steps that run beside each other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use super::step::Step;
use crate::step::{self, Outcome, Shown};
use crate::tree;

/// Time after which a step hangs. The longest takes a quarter of it beside the other lanes, and
/// CI's machine may run at 0.4 of its speed.
const STEP_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Steps that run one after the other.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) steps: Vec<Step>,
    /// Where the steps' output goes.
    pub(crate) shown: Shown,
    /// Whether its steps leave the processors to those of other lanes.
    pub(crate) yields: bool,
}

impl Lane {
    /// Steps that have the machine for themselves.
    pub(crate) fn alone(steps: Vec<Step>) -> Self {
        Self { steps, shown: Shown::AsItComes, yields: false }
    }
}

/// A step, and what became of it: nothing, if another one failed before.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) step: Step,
    pub(crate) outcome: Option<Outcome>,
}

impl Ran {
    /// Whether the step ran to its end and found nothing wrong.
    pub(crate) fn has_passed(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.failure.is_none())
    }
}

/// The state that the lanes share.
#[derive(Default)]
struct Progress {
    passed: Vec<&'static str>,
    has_failed: bool,
}

/// The progress, and a signal whenever it changes.
#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Shared {
    /// Waits until this step of another lane has passed. Returns false if a step failed instead.
    fn wait_for(&self, step: Option<&str>) -> bool {
        let blocked = |progress: &mut Progress| {
            let is_missing = step.is_some_and(|step| !progress.passed.contains(&step));
            is_missing && !progress.has_failed
        };
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(progress, blocked);
        !waited.unwrap_or_else(PoisonError::into_inner).has_failed
    }

    fn record(&self, step: &'static str, has_passed: bool) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match has_passed {
            true => progress.passed.push(step),
            false => progress.has_failed = true,
        }
        self.changed.notify_all();
    }

    fn has_failed(&self) -> bool {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).has_failed
    }
}

/// Runs all lanes up to the first step that fails. Steps that run at that time are stopped.
pub(crate) fn run_lanes(lanes: &[Lane], target: &Path) -> Vec<Ran> {
    let (shared, own) = (Shared::default(), own_program());
    thread::scope(|scope| {
        let running: Vec<_> =
            lanes.iter().map(|lane| scope.spawn(|| run_lane(lane, own, target, &shared))).collect();
        running.into_iter().flat_map(|lane| lane.join().expect("a lane does not panic")).collect()
    })
}

/// Where this program lies. A step builds it anew, and then the system has another answer.
fn own_program() -> &'static Path {
    static OWN: OnceLock<PathBuf> = OnceLock::new();
    OWN.get_or_init(|| std::env::current_exe().unwrap_or_else(|_| "xtask".into()))
}

fn run_lane(lane: &Lane, own: &Path, target: &Path, shared: &Shared) -> Vec<Ran> {
    let run = |step: &Step| {
        if !shared.wait_for(step.after) {
            return None;
        }
        let log = step::log_path(target, step.name);
        let mut command = command(step, own, target, lane.yields);
        let stop = || shared.has_failed();
        let outcome = step::run(step.name, &mut command, STEP_LIMIT, &log, lane.shown, &stop)?;
        shared.record(step.name, outcome.failure.is_none());
        Some(outcome)
    };
    lane.steps.iter().map(|step| Ran { step: *step, outcome: run(step) }).collect()
}

/// Returns the command of a step. This program, `own`, and those of the step `build` run without
/// cargo, which would wait for the builds of another lane and would build the programs with other
/// dependencies.
fn command(step: &Step, own: &Path, target: &Path, yields: bool) -> Command {
    let (program, words) = match step.cargo {
        ["xtask", words @ ..] => (own.to_owned(), words),
        ["run", "--release", "--bin", name, "--", words @ ..] => {
            (target.join("release").join(name), words)
        }
        words => (tree::cargo().get_program().into(), words),
    };
    let mut command = match yields {
        false => Command::new(program),
        true => {
            let mut nice = Command::new("nice");
            nice.args(["-n", "10"]).arg(program);
            nice
        }
    };
    command.current_dir(tree::root()).args(words);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(steps: &[Step]) -> Lane {
        Lane { steps: steps.to_vec(), shown: Shown::InItsLog, yields: false }
    }

    /// Runs the lanes in a folder of their own. Returns the names of the steps that passed, and of
    /// those that failed.
    fn outcomes(name: &str, lanes: &[Lane]) -> [Vec<&'static str>; 2] {
        let folder =
            std::env::temp_dir().join(format!("braid-lanes-{name}-{}", std::process::id()));
        let ran = run_lanes(lanes, &folder);
        std::fs::remove_dir_all(folder).expect("there are logs");
        let names = |wanted: fn(&Ran) -> bool| {
            ran.iter().filter(|ran| wanted(ran)).map(|ran| ran.step.name).collect()
        };
        [names(Ran::has_passed), names(|ran| ran.outcome.is_some() && !ran.has_passed())]
    }

    const VERSION: Step = Step::new("version", &["--version"]);
    const BROKEN: Step = Step::new("broken", &["no-such-command"]);

    #[test]
    fn a_step_waits_for_one_of_another_lane() {
        let later = Step::new("later", &["--version"]).after("version");
        let lanes = [lane(&[later]), lane(&[VERSION])];
        assert_eq!(outcomes("waits", &lanes), [vec!["later", "version"], vec![]]);
    }

    #[test]
    fn a_failure_ends_all_lanes() {
        let never = Step::new("never", &["--version"]).after("broken");
        let lanes = [lane(&[never]), lane(&[BROKEN, VERSION])];
        assert_eq!(outcomes("fails", &lanes), [vec![], vec!["broken"]]);
    }
}
