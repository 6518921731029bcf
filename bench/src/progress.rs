//! The progress of a run on a terminal, if it takes more than two seconds.

use std::io::{IsTerminal, stderr};
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use crate::plan::Extent;
use crate::stdio;

/// Duration from which on a run shows its progress.
const PATIENCE: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_millis(500);
/// Interval at which [`during`] looks whether its call has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Moves to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// A line on standard error that is written again and again, and removed on drop.
pub(crate) struct Line {
    began: Instant,
    next: Instant,
    is_shown: bool,
}

impl Line {
    /// Returns a line, which begins now. `None`: standard error is no terminal.
    pub(crate) fn begin() -> Option<Self> {
        let began = Instant::now();
        let line = Line { began, next: began + PATIENCE, is_shown: false };
        stderr().is_terminal().then_some(line)
    }

    /// Shows the text, if it is time.
    pub(crate) fn tick(&mut self, now: Instant, text: impl FnOnce(Duration) -> String) {
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        self.is_shown = true;
        stdio::note(format_args!("{CLEAR} {}", text(now - self.began)));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_shown {
            stdio::note(CLEAR);
        }
    }
}

/// Returns the result of a call. While it runs, a line shows the time and `what` it does.
pub(crate) fn during<T: Send>(what: &str, call: impl FnOnce() -> T + Send) -> T {
    let Some(mut line) = Line::begin() else { return call() };
    thread::scope(|scope| {
        let running = scope.spawn(call);
        while !running.is_finished() {
            thread::sleep(LOOK_EVERY);
            line.tick(Instant::now(), |passed| format!("{:.0} s, {what}", passed.as_secs_f64()));
        }
        running.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The progress of a phase of a test.
pub(crate) struct ProgressLine {
    /// The messages of all queue pairs, or the time limit.
    extent: Extent,
    line: Line,
}

impl ProgressLine {
    /// Returns the progress of a phase that begins now. `None`: standard error is no terminal.
    pub(crate) fn begin(extent: Extent, qps: u32) -> Option<Self> {
        let extent = match extent {
            Extent::Messages(count) => Extent::Messages(count.saturating_mul(qps.into())),
            time => time,
        };
        Line::begin().map(|line| ProgressLine { extent, line })
    }

    /// Shows the progress, if it is time. `done`: messages.
    pub(crate) fn tick(&mut self, now: Instant, done: u64) {
        let extent = self.extent;
        self.line.tick(now, |passed| text(extent, passed, done));
    }
}

fn text(extent: Extent, passed: Duration, done: u64) -> String {
    let passed = passed.as_secs_f64();
    match extent {
        Extent::Time(limit) => {
            format!("{passed:.0} of {} s, {done} messages", limit.as_secs_f64())
        }
        Extent::Messages(count) => {
            let percent = done as f64 * 100.0 / count.max(1) as f64;
            format!("{passed:.0} s, {done} of {count} messages ({percent:.0} %)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_part_that_is_done() {
        let time = Extent::Time(Duration::from_secs_f64(7.5));
        assert_eq!(text(time, Duration::from_millis(3200), 17), "3 of 7.5 s, 17 messages");
        let count = Extent::Messages(400);
        let passed = Duration::from_secs(2);
        assert_eq!(text(count, passed, 100), "2 s, 100 of 400 messages (25 %)");
    }
}
