//! A program on a host: started, listened to with a limit on every wait, killed when
//! dropped.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::pair::LISTEN_LIMIT;

pub(crate) struct Program {
    name: String,
    child: Child,
    lines: Receiver<String>,
    /// All of its standard error, once that is closed.
    words: Receiver<String>,
}

/// How long the last words of a killed program are waited for: one of its children may hold them up.
const LAST_WORDS: Duration = Duration::from_millis(500);

impl Program {
    /// Starts it; `name` is for messages.
    pub(crate) fn start(name: &str, mut command: Command) -> Result<Self, Failure> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|why| Failure::Io { what: format!("cannot start {name}"), why })?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = mpsc::channel();
        // The thread also keeps the pipe open, and ends with the process.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let (sender, words) = mpsc::channel();
        thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            let _ = sender.send(String::from_utf8_lossy(&said).into_owned());
        });
        Ok(Program { name: name.to_owned(), child, lines, words })
    }

    /// Of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// All of its lines that are still to come: it has to end, or to close its standard output, in time.
    pub(crate) fn lines(&mut self, limit: Duration) -> Result<Vec<String>, Failure> {
        let deadline = Instant::now() + limit;
        let mut all = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => all.push(line),
                Err(RecvTimeoutError::Disconnected) => return Ok(all),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.failed(&format!("did not end in {limit:?}")));
                }
            }
        }
    }

    /// Its next line.
    pub(crate) fn line(&mut self, limit: Duration) -> Result<String, Failure> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                Err(self.failed(&format!("said nothing in {limit:?}")))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.failed("ended too early")),
        }
    }

    /// What follows `prefix` on its next line.
    pub(crate) fn word(&mut self, prefix: &str, limit: Duration) -> Result<String, Failure> {
        let line = self.line(limit)?;
        match line.strip_prefix(prefix) {
            Some(rest) => Ok(rest.to_owned()),
            None => Err(self.failed(&format!("said `{line}`, not `{prefix}..`"))),
        }
    }

    /// Where it listens, as its next line says.
    pub(crate) fn address(&mut self) -> Result<SocketAddr, Failure> {
        let text = self.word("listening on ", LISTEN_LIMIT)?;
        text.parse().map_err(|_| self.failed(&format!("listens on `{text}`, which is no address")))
    }

    /// The figures by name that its next line, `report {..}`, has.
    pub(crate) fn report(&mut self, limit: Duration) -> Result<BTreeMap<String, f64>, Failure> {
        let json = self.word("report ", limit)?;
        serde_json::from_str(&json).map_err(|why| self.failed(&format!("said `{json}`: {why}")))
    }

    /// Waits until it has ended, well.
    pub(crate) fn finish(mut self, limit: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + limit;
        loop {
            let ended = self.child.try_wait();
            match ended.map_err(|why| Failure::Io {
                what: format!("cannot wait for {}", self.name),
                why,
            })? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.failed(&format!("ended with {status}"))),
                None if Instant::now() > deadline => {
                    return Err(self.failed(&format!("did not end in {limit:?}")));
                }
                None => thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// A failure with what the program itself has to say of it.
    fn failed(&mut self, what: &str) -> Failure {
        let _ = self.child.kill();
        let said = self.words.recv_timeout(LAST_WORDS).unwrap_or_default();
        let said = said.trim();
        let colon = if said.is_empty() { "" } else { ": " };
        Failure::Trial(format!("the {} {what}{colon}{said}", self.name))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only when it has already ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::start("shell", command).unwrap()
    }

    #[test]
    fn lines_are_read_and_a_good_end_is_noticed() {
        let mut program = shell("echo listening on here; echo more");
        assert_eq!(program.word("listening on ", LIMIT).unwrap(), "here");
        assert_eq!(program.line(LIMIT).unwrap(), "more");
        program.finish(LIMIT).unwrap();
    }

    #[test]
    fn a_failure_carries_the_programs_own_words() {
        let failure = shell("echo broken pipe dream >&2; exit 3").finish(LIMIT).unwrap_err();
        let text = failure.to_string();
        assert!(text.contains("exit status: 3") && text.contains("broken pipe dream"), "{text}");
    }

    #[test]
    fn silence_ends_at_the_limit() {
        let failure = shell("exec sleep 60").line(Duration::from_millis(20)).unwrap_err();
        assert!(failure.to_string().contains("said nothing in 20ms"), "{failure}");
    }
}
