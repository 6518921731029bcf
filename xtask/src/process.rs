//! Child processes that never outlive us, never hang us, and explain themselves when they fail.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::Failure;

/// The process groups that are running now, for the signal handler.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

const POLL: Duration = Duration::from_millis(20);
/// How long a group may take to clean up after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// Runs a command on our own terminal to its end.
pub fn run(command: &mut Command) -> Result<(), Failure> {
    let line = show(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("`{line}` failed: {}", say(status)))),
        Err(e) => Err(Failure::new(format!("cannot start `{line}`: {e}"))),
    }
}

/// What a command says on its standard output, when it has succeeded.
pub fn output(command: &mut Command) -> Result<String, Failure> {
    let line = show(command);
    let output =
        command.output().map_err(|e| Failure::new(format!("cannot start `{line}`: {e}")))?;
    let [said, complaint] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if output.status.success() {
        return Ok(said);
    }
    let why = if complaint.is_empty() { said } else { complaint };
    Err(Failure::new(format!("`{line}` failed: {}\n{}", say(output.status), why.trim())))
}

/// A child and everything it starts, as one process group that dies with this value.
pub struct Group {
    /// The child itself; its pipes are the caller's to take.
    pub child: Child,
    line: String,
}

/// Why a group is no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Its leader ended with exit status 0.
    ByItself,
    /// The caller stopped it.
    Stopped,
}

impl Group {
    /// Starts a command as the leader of a process group of its own.
    pub fn start(command: &mut Command) -> Result<Self, Failure> {
        let line = show(command);
        let child = command
            .process_group(0)
            .spawn()
            .map_err(|e| Failure::new(format!("cannot start `{line}`: {e}")))?;
        groups(|all| all.insert(pid_of(&child)));
        Ok(Self { child, line })
    }

    /// Waits for the child; past the limit the group is killed and that is a failure.
    pub fn wait(&mut self, limit: Duration) -> Result<(), Failure> {
        self.wait_unless(limit, &|| false).map(drop)
    }

    /// Waits for the child as `wait` does, and kills the group as soon as `stop` says so.
    pub fn wait_unless(
        &mut self,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Ended, Failure> {
        let until = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(Ended::ByItself),
                Ok(Some(status)) => {
                    return Err(Failure::new(format!("`{}` failed: {}", self.line, say(status))));
                }
                Ok(None) if stop() => {
                    self.stop();
                    return Ok(Ended::Stopped);
                }
                Ok(None) if Instant::now() < until => sleep(POLL),
                Ok(None) => {
                    self.stop();
                    let limit = limit.as_secs();
                    return Err(Failure::new(format!(
                        "`{}` hung: killed after {limit} s",
                        self.line
                    )));
                }
                Err(e) => {
                    return Err(Failure::new(format!("cannot wait for `{}`: {e}", self.line)));
                }
            }
        }
    }

    /// Kills the whole group at once, as a crash would.
    pub fn kill(&mut self) {
        // It may be gone already.
        let _ = killpg(Pid::from_raw(pid_of(&self.child)), Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// Kills the whole group now, after a grace period for those that clean up.
    pub fn stop(&mut self) {
        end(&[pid_of(&self.child)]);
        let _ = self.child.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.stop();
        groups(|all| all.remove(&pid_of(&self.child)));
    }
}

/// On SIGINT, SIGTERM and SIGHUP: end what we started, clean up, leave.
pub fn clean_up_when_interrupted(clean_up: fn()) -> Result<(), Failure> {
    ctrlc::set_handler(move || {
        end(&groups(|all| all.iter().copied().collect::<Vec<_>>()));
        clean_up();
        eprintln!("interrupted");
        std::process::exit(130);
    })
    .map_err(|e| Failure::new(format!("cannot install a signal handler: {e}")))
}

/// Kills a process that is not our child.
pub fn kill(pid: i32) {
    // It may be gone already, which is just as well.
    let _ = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
}

/// A command as one would type it, with the variables set for it.
pub fn show(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quote(&value?.to_string_lossy())))
    });
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let program = match Path::new(command.get_program()) {
        path if path.ends_with("cargo") => program.to_string_lossy(),
        _ => command.get_program().to_string_lossy(),
    };
    let arguments = command.get_args().map(|a| quote(&a.to_string_lossy()));
    let words: Vec<_> = variables.chain([program.into_owned()]).chain(arguments).collect();
    words.join(" ")
}

fn quote(word: &str) -> String {
    match word.contains([' ', '"', '*', '$', '\u{1f}']) {
        true => format!("'{word}'"),
        false => word.to_owned(),
    }
}

fn say(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// SIGTERM to some groups and, when their leaders have had time to clean up, SIGKILL to what is left.
fn end(leaders: &[i32]) {
    let until = Instant::now() + GRACE;
    let tell = |signal| {
        for leader in leaders {
            let _ = killpg(Pid::from_raw(*leader), signal);
        }
    };
    tell(Signal::SIGTERM);
    while leaders.iter().any(|leader| running(*leader)) && Instant::now() < until {
        sleep(POLL);
    }
    tell(Signal::SIGKILL);
}

/// Whether a process exists and is more than a zombie.
fn running(pid: i32) -> bool {
    // `PID (NAME) STATE ..`, where the name may hold anything.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn groups<T>(change: impl FnOnce(&mut BTreeSet<i32>) -> T) -> T {
    change(&mut GROUPS.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).expect("Linux process ids fit an i32")
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_hanging_child_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & sleep 1000"]).stdout(Stdio::piped());
        let mut group = Group::start(&mut command).expect("sh starts");
        let mut pipe = group.child.stdout.take().expect("piped");
        let failure = group.wait(Duration::from_millis(100)).expect_err("it hangs");
        assert!(failure.to_string().contains("hung"), "{failure}");
        // The pipe ends when nobody of the group is left to write to it.
        assert_eq!(pipe.read_to_end(&mut Vec::new()).expect("the pipe is readable"), 0);
    }

    #[test]
    fn an_exit_code_is_a_failure_that_names_the_command() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]).env("WHY", "test");
        let mut group = Group::start(&mut command).expect("sh starts");
        let failure = group.wait(Duration::from_secs(10)).expect_err("exit 3").to_string();
        assert_eq!(failure, "`WHY=test sh -c 'exit 3'` failed: exit code 3");
    }
}
