//! The progress of a test on a terminal, for runs of more than two seconds.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use crate::plan::Extent;
use crate::stdio;

/// Duration from which on a run shows its progress.
const PATIENCE: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_millis(500);
/// Moves to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// A line on standard error that is written again and again, and removed on drop.
pub(crate) struct ProgressLine {
    /// The messages of all queue pairs, or the time limit.
    extent: Extent,
    began: Instant,
    next: Instant,
    is_shown: bool,
}

impl ProgressLine {
    /// Returns the progress of a phase that begins now. `None`: standard error is no terminal.
    pub(crate) fn begin(extent: Extent, qps: u32) -> Option<Self> {
        let extent = match extent {
            Extent::Messages(count) => Extent::Messages(count.saturating_mul(qps.into())),
            time => time,
        };
        let began = Instant::now();
        let progress = ProgressLine { extent, began, next: began + PATIENCE, is_shown: false };
        stderr().is_terminal().then_some(progress)
    }

    /// Shows the progress, if it is time. `done`: messages.
    pub(crate) fn tick(&mut self, now: Instant, done: u64) {
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        self.is_shown = true;
        stdio::note(format_args!("{CLEAR} {}", text(self.extent, now - self.began, done)));
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

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_shown {
            stdio::note(CLEAR);
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
