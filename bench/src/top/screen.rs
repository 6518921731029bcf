//! The terminal: its size, its keys, and the lines that it shows.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios};
use nix::sys::termios::{tcgetattr, tcsetattr};
use terminal_size::{Height, Width, terminal_size};

use crate::failure::Failure;
use crate::{interrupt, stdio};

/// Shows the alternate screen and hides the cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Moves the cursor home; clears to the end of the line, and of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";
/// Reversed colours, and back.
const REVERSED: &str = "\x1b[7m";
const NORMAL: &str = "\x1b[m";

/// The size of a terminal that does not tell.
const USUAL: (usize, usize) = (80, 24);
/// Interval at which a wait looks for signals and for another size.
const SLICE: Duration = Duration::from_millis(100);

/// A key of the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Quit,
    /// Lines to scroll.
    Lines(isize),
    /// Screens to scroll.
    Pages(isize),
    First,
    Last,
}

/// The end of a wait.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Waited {
    Keys(Vec<Key>),
    /// The terminal has another size.
    Resized,
    /// The time of the next reading has come.
    Passed,
    /// A signal asks to end.
    Interrupted,
}

/// The terminal while it shows the view. Dropping it restores the terminal.
pub(super) struct Screen {
    /// The settings of before. `None`: standard input is no terminal, so that there are no keys.
    before: Option<Termios>,
    size: (usize, usize),
}

impl Screen {
    pub(super) fn enter() -> Result<Self, Failure> {
        let before = stdin().is_terminal().then(without_lines).flatten();
        stdio::print(|out| write!(out, "{ENTER}"))?;
        Ok(Screen { before, size: size() })
    }

    /// Returns the columns and the rows for lines.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.size.0, self.size.1.saturating_sub(1).max(1))
    }

    /// Shows some lines and, at the bottom, a status.
    pub(super) fn show<'a>(
        &self,
        lines: impl Iterator<Item = &'a str>,
        status: &str,
    ) -> Result<(), Failure> {
        let (columns, rows) = self.size();
        let mut text = HOME.to_owned();
        let cut = |line: &str| line.chars().take(columns).collect::<String>();
        for line in lines.take(rows) {
            text += &format!("{}{CLEAR_LINE}\r\n", cut(line));
        }
        text += CLEAR_REST;
        text += &format!("\x1b[{};1H{REVERSED}{}{NORMAL}", rows + 1, cut(status));
        stdio::print(|out| out.write_all(text.as_bytes()))
    }

    /// Waits until a time, a key, another size of the terminal, or a signal.
    pub(super) fn wait(&mut self, until: Instant) -> Waited {
        loop {
            if interrupt::is_requested() {
                return Waited::Interrupted;
            }
            if self.size != size() {
                self.size = size();
                return Waited::Resized;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Waited::Passed;
            }
            let keys = self.keys(left.min(SLICE));
            if !keys.is_empty() {
                return Waited::Keys(keys);
            }
        }
    }

    fn keys(&self, within: Duration) -> Vec<Key> {
        let input = stdin();
        let millis = PollTimeout::try_from(within).unwrap_or(PollTimeout::ZERO);
        let mut polled = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        if self.before.is_none() {
            thread::sleep(within);
            return Vec::new();
        }
        // An error is a signal, which the caller looks for.
        if !matches!(poll(&mut polled, millis), Ok(1..)) {
            return Vec::new();
        }
        let mut bytes = [0; 64];
        match input.lock().read(&mut bytes) {
            // The terminal has been closed.
            Ok(0) | Err(_) => vec![Key::Quit],
            Ok(count) => parse(&bytes[..count]),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        _ = stdout().write_all(LEAVE.as_bytes());
        _ = stdout().flush();
        if let Some(before) = &self.before {
            _ = tcsetattr(stdin(), SetArg::TCSANOW, before);
        }
    }
}

/// Makes the terminal deliver each key at once and without an echo. Signals stay. Returns the
/// settings of before.
fn without_lines() -> Option<Termios> {
    let before = tcgetattr(stdin()).ok()?;
    let mut raw = before.clone();
    raw.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
    raw.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
    raw.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
    tcsetattr(stdin(), SetArg::TCSANOW, &raw).ok()?;
    Some(before)
}

fn size() -> (usize, usize) {
    let known = terminal_size().map(|(Width(columns), Height(rows))| (columns.into(), rows.into()));
    known.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(USUAL)
}

/// The keys among some bytes: letters, and the sequences of ECMA-48 terminals. Others are skipped.
fn parse(mut bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: &[(&[u8], Key)] = &[
        (b"\x1b[A", Key::Lines(-1)),
        (b"\x1bOA", Key::Lines(-1)),
        (b"\x1b[B", Key::Lines(1)),
        (b"\x1bOB", Key::Lines(1)),
        (b"\x1b[5~", Key::Pages(-1)),
        (b"\x1b[6~", Key::Pages(1)),
        (b"\x1b[H", Key::First),
        (b"\x1bOH", Key::First),
        (b"\x1b[1~", Key::First),
        (b"\x1b[F", Key::Last),
        (b"\x1bOF", Key::Last),
        (b"\x1b[4~", Key::Last),
        (b"q", Key::Quit),
        (b"Q", Key::Quit),
        (b"k", Key::Lines(-1)),
        (b"j", Key::Lines(1)),
        (b"\r", Key::Lines(1)),
        (b"\n", Key::Lines(1)),
        (b" ", Key::Pages(1)),
        (b"b", Key::Pages(-1)),
        (b"g", Key::First),
        (b"G", Key::Last),
    ];
    let mut keys = Vec::new();
    while !bytes.is_empty() {
        match SEQUENCES.iter().find(|(sequence, _)| bytes.starts_with(sequence)) {
            Some((sequence, key)) => {
                keys.push(*key);
                bytes = &bytes[sequence.len()..];
            }
            None => bytes = &bytes[1..],
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_sequences_are_understood_and_others_skipped() {
        let keys = [Key::Lines(1), Key::Lines(-1), Key::Pages(1), Key::First, Key::Quit];
        assert_eq!(parse(b"j\x1b[A\x1b[6~x\x1b[Hq"), keys);
        assert_eq!(parse(b"\x1b\xff"), []);
    }
}
