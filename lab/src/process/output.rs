//! The lines that a program prints, read on threads so that waiting for one has a limit.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// An output stream of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A line that a program printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The stream that it was printed to.
    pub stream: Stream,
    /// The line, without its end.
    pub text: String,
}

/// No line came in time.
pub(super) struct Silent;

/// A line, or the end of a stream.
type Event = (Stream, Option<String>);

/// The lines so far, and those to come.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) lines: Vec<Line>,
    /// Never locked: the lock makes a program usable by shared reference from several threads.
    events: Mutex<Receiver<Event>>,
    sender: Sender<Event>,
    /// Whether standard output and standard error are still read.
    is_open: [bool; 2],
}

impl Default for Printed {
    fn default() -> Self {
        let (sender, events) = channel();
        Self { lines: Vec::new(), events: Mutex::new(events), sender, is_open: [false; 2] }
    }
}

impl Printed {
    /// Reads a pipe to its end, on a thread that ends with the pipe.
    pub(super) fn read(&mut self, pipe: impl Read + Send + 'static, stream: Stream) {
        self.is_open[stream as usize] = true;
        let sender = self.sender.clone();
        thread::spawn(move || {
            let (mut pipe, mut bytes) = (BufReader::new(pipe), Vec::new());
            while let Ok(1..) = pipe.read_until(b'\n', &mut bytes) {
                let text = String::from_utf8_lossy(&bytes);
                let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
                bytes.clear();
                // Nobody may listen any more, but the pipe must not fill up.
                let _ = sender.send((stream, Some(text)));
            }
            let _ = sender.send((stream, None));
        });
    }

    /// The next line of a stream; none: it is closed.
    pub(super) fn next_line(
        &mut self,
        stream: Stream,
        until: Instant,
    ) -> Result<Option<String>, Silent> {
        while self.is_open[stream as usize] {
            match self.next_event(until)? {
                (found, Some(line)) if found == stream => return Ok(Some(line)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Reads until standard error is closed.
    pub(super) fn read_errors(&mut self, until: Instant) {
        while self.is_open[Stream::Err as usize] && self.next_event(until).is_ok() {}
    }

    /// Reads until both streams are closed.
    pub(super) fn read_rest(&mut self, until: Instant) {
        while self.is_open.contains(&true) && self.next_event(until).is_ok() {}
    }

    fn next_event(&mut self, until: Instant) -> Result<Event, Silent> {
        let events = self.events.get_mut().unwrap_or_else(PoisonError::into_inner);
        let left = until.saturating_duration_since(Instant::now());
        let (stream, text) = events.recv_timeout(left).map_err(|why| match why {
            RecvTimeoutError::Timeout => Silent,
            RecvTimeoutError::Disconnected => unreachable!("one sender is our own"),
        })?;
        match &text {
            Some(text) => self.lines.push(Line { stream, text: text.clone() }),
            None => self.is_open[stream as usize] = false,
        }
        Ok((stream, text))
    }
}
