//! Child processes: started, read and waited for with a limit of time, ended with the value.

mod command;
mod error;
mod groups;
mod output;

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use nix::sys::signal::Signal;
use nix::sys::signal::{kill, killpg};
use nix::unistd::Pid;

pub use command::{log_to, output, run, show};
pub use error::ProcessError;
pub use groups::end_all;
pub use output::{Line, Stream};

use error::describe;
use output::Printed;

/// Time between two looks at a process.
const POLL: Duration = Duration::from_millis(5);
/// Time for which a failure waits for the rest of standard error: a grandchild may hold the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The longest time to wait, so that the caller may give `Duration::MAX`.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// A child process. It ends when this value is dropped.
///
/// The program reads the pipes that its command asks for, unless the caller takes them from
/// [`child`](Self::child) first.
#[derive(Debug)]
pub struct Program {
    /// The process itself; the caller may take its pipes.
    pub child: Child,
    name: String,
    /// Whether the process leads a process group of its own.
    is_leader: bool,
    printed: Printed,
}

impl Program {
    /// Starts a command as the leader of a process group of its own, which ends as a whole.
    ///
    /// # Errors
    /// The system cannot start the program.
    pub fn start(command: &mut Command) -> Result<Self, ProcessError> {
        let program = Self::spawn(command.process_group(0), true)?;
        groups::add(program.pid());
        Ok(program)
    }

    /// Starts a command in the caller's process group, so that Ctrl-C on the terminal reaches both.
    ///
    /// # Errors
    /// The system cannot start the program.
    pub fn start_in_our_group(command: &mut Command) -> Result<Self, ProcessError> {
        Self::spawn(command, false)
    }

    fn spawn(command: &mut Command, is_leader: bool) -> Result<Self, ProcessError> {
        let name = format!("`{}`", show(command));
        let child = command.spawn().map_err(|e| ProcessError::start(&name, &e))?;
        Ok(Self { child, name, is_leader, printed: Printed::default() })
    }

    /// Gives the program a name for error messages. Default: its command line.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The process id, as `kill` takes it.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("Linux process ids fit an i32")
    }

    /// Returns the next line of standard output.
    ///
    /// # Errors
    /// No line comes within the limit, or standard output is closed.
    pub fn line(&mut self, limit: Duration) -> Result<String, ProcessError> {
        match self.next_line(Stream::Out, Instant::now() + limit)? {
            Some(line) => Ok(line),
            None => Err(self.error("ended too early")),
        }
    }

    /// Returns the rest of the next line of standard output, which has to begin with `prefix`.
    ///
    /// # Errors
    /// As [`line`](Self::line), or the line begins otherwise.
    pub fn value(&mut self, prefix: &str, limit: Duration) -> Result<String, ProcessError> {
        let line = self.line(limit)?;
        match line.strip_prefix(prefix) {
            Some(rest) => Ok(rest.to_owned()),
            None => Err(self.error(&format!("printed `{line}`, not `{prefix}..`"))),
        }
    }

    /// Waits for a line of one stream that contains `text`.
    ///
    /// # Errors
    /// No such line comes within the limit, or the stream is closed.
    pub fn wait_for_line(
        &mut self,
        stream: Stream,
        text: &str,
        limit: Duration,
    ) -> Result<(), ProcessError> {
        let until = Instant::now() + limit;
        loop {
            match self.next_line(stream, until)? {
                Some(line) if line.contains(text) => return Ok(()),
                Some(_) => {}
                None => return Err(self.error(&format!("ended before it printed `{text}`"))),
            }
        }
    }

    /// Returns all further lines of standard output, which has to be closed within the limit.
    ///
    /// # Errors
    /// Standard output is open for longer.
    pub fn lines(&mut self, limit: Duration) -> Result<Vec<String>, ProcessError> {
        let until = Instant::now() + limit;
        let mut all = Vec::new();
        while let Some(line) = self.next_line(Stream::Out, until)? {
            all.push(line);
        }
        Ok(all)
    }

    /// Waits for exit status 0. After the limit the program is ended, which is an error too.
    ///
    /// # Errors
    /// The program fails or hangs.
    pub fn wait(&mut self, limit: Duration) -> Result<(), ProcessError> {
        self.wait_unless(limit, &|| false).map(drop)
    }

    /// Waits as [`wait`](Self::wait) does, but ends the program as soon as `stop` returns true.
    /// Returns whether the program ended by itself.
    ///
    /// # Errors
    /// The program fails or hangs.
    pub fn wait_unless(
        &mut self,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, ProcessError> {
        match self.end(limit, stop)? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(self.error(&format!("failed: {}", describe(status)))),
        }
    }

    /// Waits for the end, with any exit status.
    ///
    /// # Errors
    /// The program hangs and is ended.
    pub fn status(&mut self, limit: Duration) -> Result<ExitStatus, ProcessError> {
        let status = self.end(limit, &|| false)?;
        Ok(status.expect("only a caller that stops it gets none"))
    }

    /// Sends a signal to the process, not to its group.
    ///
    /// # Errors
    /// The process has been waited for.
    pub fn signal(&mut self, signal: Signal) -> Result<(), ProcessError> {
        kill(Pid::from_raw(self.pid()), signal)
            .map_err(|e| self.error(&format!("does not take {signal}: {e}")))
    }

    /// Kills the program at once, as a crash would.
    pub fn kill(&mut self) {
        // An error means that there is nothing left to kill.
        if self.is_leader {
            let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
        } else {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }

    /// Ends the program. A process group first gets a SIGTERM and some time to clean up.
    pub fn stop(&mut self) {
        if self.is_leader {
            groups::end(&[self.pid()]);
        }
        self.kill();
    }

    /// Ends the program and returns all lines that it printed to its pipes.
    pub fn printed(&mut self) -> &[Line] {
        self.listen();
        self.stop();
        self.printed.read_rest(Instant::now() + LAST_WORDS);
        &self.printed.lines
    }

    /// Ends the program and returns the text that it printed to one of its pipes.
    pub fn text(&mut self, stream: Stream) -> String {
        let lines = self.printed().iter().filter(|line| line.stream == stream);
        lines.map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// An error about this program, with its standard error so far.
    pub fn error(&mut self, what: &str) -> ProcessError {
        self.listen();
        self.printed.read_errors(Instant::now() + LAST_WORDS);
        let errors = self.printed.lines.iter().filter(|line| line.stream == Stream::Err);
        let stderr = errors.map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        ProcessError::new(format!("{} {what}", self.name), &stderr)
    }

    fn timeout(&mut self, what: &str) -> ProcessError {
        ProcessError { is_timeout: true, ..self.error(what) }
    }

    /// The next line of a stream; none: it is closed.
    fn next_line(
        &mut self,
        stream: Stream,
        until: Instant,
    ) -> Result<Option<String>, ProcessError> {
        self.listen();
        let limit = until.saturating_duration_since(Instant::now());
        match self.printed.next_line(stream, until) {
            Ok(line) => Ok(line),
            Err(output::Silent) => Err(self.timeout(&format!("printed nothing for {limit:?}"))),
        }
    }

    /// Waits for the end; none: `stop` was true.
    fn end(
        &mut self,
        limit: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<ExitStatus>, ProcessError> {
        // A full pipe would stop the program.
        self.listen();
        let until = Instant::now() + limit.min(FOREVER);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(Some(status)),
                Ok(None) if stop() => {
                    self.stop();
                    return Ok(None);
                }
                Ok(None) if Instant::now() < until => sleep(POLL),
                Ok(None) => {
                    self.stop();
                    return Err(self.timeout(&format!("hung: killed after {limit:?}")));
                }
                Err(e) => return Err(self.error(&format!("cannot be waited for: {e}"))),
            }
        }
    }

    /// Starts to read the pipes that nobody has taken.
    fn listen(&mut self) {
        if let Some(stdout) = self.child.stdout.take() {
            self.printed.read(stdout, Stream::Out);
        }
        if let Some(stderr) = self.child.stderr.take() {
            self.printed.read(stderr, Stream::Err);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop();
        groups::remove(self.pid());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[test]
    fn hanging_group_is_killed() {
        let mut program = Program::start(&mut shell("sleep 1000 & sleep 1000")).expect("sh starts");
        let mut pipe = program.child.stdout.take().expect("piped");
        let failure = program.wait(Duration::from_millis(100)).expect_err("it hangs");
        assert!(failure.is_timeout && failure.what.contains("hung"), "{failure}");
        // The pipe ends when nobody of the group is left to write to it.
        assert_eq!(pipe.read_to_end(&mut Vec::new()).expect("the pipe is readable"), 0);
    }

    #[test]
    fn failure_names_command_and_exit_code() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]).env("WHY", "test");
        let mut program = Program::start(&mut command).expect("sh starts");
        let failure = program.wait(LIMIT).expect_err("exit 3").to_string();
        assert_eq!(failure, "`WHY=test sh -c 'exit 3'` failed: exit code 3");
    }

    #[test]
    fn failure_carries_standard_error() {
        let script = "echo broken pipe dream >&2; exit 3";
        let mut program = Program::start_in_our_group(&mut shell(script)).expect("sh starts");
        let failure = program.wait(LIMIT).expect_err("exit 3").to_string();
        assert!(failure.ends_with("failed: exit code 3: broken pipe dream"), "{failure}");
    }

    #[test]
    fn lines_are_read_in_order() {
        let script = "echo listening on here; echo more; echo no >&2; echo last";
        let mut program = Program::start(&mut shell(script)).expect("sh starts");
        assert_eq!(program.value("listening on ", LIMIT).expect("a line"), "here");
        program.wait_for_line(Stream::Out, "mor", LIMIT).expect("a line");
        assert_eq!(program.lines(LIMIT).expect("it ends"), ["last"]);
        program.wait(LIMIT).expect("it ends well");
        assert_eq!(program.text(Stream::Out), "listening on here\nmore\nlast");
        assert_eq!(program.text(Stream::Err), "no");
    }

    #[test]
    fn silence_ends_at_the_limit() {
        let mut program = Program::start(&mut shell("exec sleep 60")).expect("sh starts");
        let program = &mut program;
        let failure = program.line(Duration::from_millis(20)).expect_err("it is silent");
        assert!(failure.is_timeout && failure.what.contains("printed nothing"), "{failure}");
        program.kill();
        let failure = program.line(LIMIT).expect_err("it is killed");
        assert!(!failure.is_timeout && failure.what.contains("ended too early"), "{failure}");
    }
}
