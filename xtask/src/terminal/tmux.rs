//! A terminal: tmux with one window.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Failure, process};

/// Time limit for what a terminal should show.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// A terminal that runs a command. It ends when this value is dropped.
pub(super) struct Terminal {
    /// The name of tmux's socket, different for each terminal of each process.
    socket: String,
}

impl Terminal {
    /// Starts a command line of the shell.
    pub(super) fn start(
        name: &str,
        (columns, rows): (usize, usize),
        line: &str,
    ) -> Result<Self, Failure> {
        let terminal = Terminal { socket: format!("braid-{}-{name}", std::process::id()) };
        let size = [columns.to_string(), rows.to_string()];
        let mut tmux = terminal.tmux();
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], line]);
        process::run(&mut tmux)?;
        // The window stays when its command has ended, so that the last screen can be read.
        process::run(terminal.tmux().args(["set-option", "-g", "remain-on-exit", "on"]))?;
        process::run(terminal.tmux().args(["set-option", "-g", "status", "off"]))?;
        Ok(terminal)
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.socket]).env_remove("TMUX");
        tmux
    }

    /// Types text.
    pub(super) fn type_text(&self, text: &str) -> Result<(), Failure> {
        process::run(self.tmux().args(["send-keys", "-l", text]))
    }

    /// Presses keys, by tmux's names.
    pub(super) fn press(&self, keys: &[&str]) -> Result<(), Failure> {
        process::run(self.tmux().arg("send-keys").args(keys))
    }

    /// Changes the size.
    pub(super) fn resize(&self, (columns, rows): (usize, usize)) -> Result<(), Failure> {
        let size = [columns.to_string(), rows.to_string()];
        process::run(self.tmux().args(["resize-window", "-x", &size[0], "-y", &size[1]]))
    }

    /// Returns the lines of the screen, without blanks at their ends.
    pub(super) fn screen(&self) -> Result<String, Failure> {
        process::output(self.tmux().args(["capture-pane", "-p"]))
    }

    /// Returns whether the command has ended.
    pub(super) fn has_ended(&self) -> Result<bool, Failure> {
        let format = ["display-message", "-p", "#{pane_dead}"];
        Ok(process::output(self.tmux().args(format))?.trim() == "1")
    }

    /// Waits for a screen that satisfies a condition, and returns it.
    pub(super) fn wait(&self, what: &str, is_it: impl Fn(&str) -> bool) -> Result<String, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen()?;
            if is_it(&screen) {
                return Ok(screen);
            }
            if Instant::now() > until {
                return Err(Failure::new(format!("{what} did not come; the screen:\n{screen}")));
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server may have ended.
        _ = self.tmux().arg("kill-server").output();
    }
}
