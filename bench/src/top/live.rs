//! The view on a terminal: read again and again, scrolled by keys.

use std::time::{Duration, Instant};

use super::exposition::MetricsPage;
use super::rates::View;
use super::screen::{Key, Screen, Waited};
use super::source::Source;
use super::table::{self, Format};
use crate::failure::Failure;
use crate::interrupt;

/// Shows readings until `q` or a signal.
///
/// # Errors
/// The program cannot be read any more, or the terminal is gone.
pub(super) fn run(source: &Source, first: MetricsPage, every: Duration) -> Result<(), Failure> {
    interrupt::end_in_order();
    let mut screen = Screen::enter()?;
    let mut view = View::between(&first, &first);
    let (mut before, mut top) = (first, 0);
    let mut next = Instant::now() + every;
    loop {
        let (columns, rows) = screen.size();
        let text = table::of(&view, Format { width: columns, most: usize::MAX });
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(rows);
        top = last.min(top);
        screen.show(lines[top..].iter().copied(), &status(top, rows, lines.len()))?;
        match screen.wait(next) {
            Waited::Resized => {}
            Waited::Interrupted => return Ok(()),
            Waited::Passed => {
                let now = source.page()?;
                view = View::between(&before, &now);
                before = now;
                next = Instant::now() + every;
            }
            Waited::Keys(keys) => {
                for key in keys {
                    top = match key {
                        Key::Quit => return Ok(()),
                        Key::Lines(count) => top.saturating_add_signed(count),
                        Key::Pages(count) => top.saturating_add_signed(count * rows as isize),
                        Key::First => 0,
                        Key::Last => last,
                    }
                    .min(last);
                }
            }
        }
    }
}

fn status(top: usize, rows: usize, all: usize) -> String {
    let end = all.min(top + rows);
    format!(" lines {} to {end} of {all}   q quits, arrows and page keys scroll ", top + 1)
}
