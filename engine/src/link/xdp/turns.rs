//! The turns of the UDP sockets. Polling them costs a system call each time, and polling a ring
//! costs almost nothing.

use std::time::{Duration, Instant};

/// Time after an arrival in which the sockets are polled every time, because more usually follows.
const LIVELY: Duration = Duration::from_micros(50);
/// The interval of polls of the sockets otherwise. It is short beside a sleep and long beside the
/// call.
const QUIET: Duration = Duration::from_micros(5);
/// The number of consecutive calls with frames in the rings after which the sockets are polled too.
const MOST_IN_A_ROW: u32 = 16;

/// The turns of the sockets.
pub(super) struct Turns {
    /// The time of the last poll of the sockets.
    asked: Instant,
    /// The time of the last arrival by the sockets.
    had: Option<Instant>,
    in_a_row: u32,
}

impl Turns {
    pub(super) fn new(now: Instant) -> Turns {
        Turns { asked: now, had: None, in_a_row: 0 }
    }

    /// Whether to poll the sockets, given whether the rings had frames.
    pub(super) fn is_sockets(&mut self, rings_had: bool) -> bool {
        if rings_had && self.in_a_row < MOST_IN_A_ROW {
            self.in_a_row += 1;
            return false;
        }
        let now = Instant::now();
        let is_lively = self.had.is_some_and(|had| now - had < LIVELY);
        if !rings_had && !is_lively && now - self.asked < QUIET {
            return false;
        }
        (self.asked, self.in_a_row) = (now, 0);
        true
    }

    /// Records the result of a poll of the sockets.
    pub(super) fn sockets_had(&mut self, something: bool) {
        if something {
            self.had = Some(self.asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(span: Duration) -> Turns {
        let now = Instant::now();
        Turns { asked: now.checked_sub(span).expect("a time"), ..Turns::new(now) }
    }

    #[test]
    fn full_rings_do_not_keep_the_sockets_waiting() {
        let mut turns = after(Duration::ZERO);
        for _ in 0..3 {
            let asked: Vec<bool> = (0..17).map(|_| turns.is_sockets(true)).collect();
            assert_eq!(asked.iter().filter(|asked| **asked).count(), 1);
            assert!(asked[16]);
        }
    }

    #[test]
    fn the_sockets_are_asked_now_and_then_and_more_often_where_they_had_something() {
        let long = Duration::from_secs(1);
        let mut turns = after(long);
        assert!(turns.is_sockets(false));
        turns.sockets_had(true);
        assert!(turns.is_sockets(false), "more may follow");
        let mut turns = Turns { asked: Instant::now() + long, ..Turns::new(Instant::now()) };
        assert!(!turns.is_sockets(false), "they have been asked just now");
    }
}
