//! When it is the UDP sockets' turn to be asked, which costs a system call each time; to look into
//! a ring costs next to nothing.

use std::time::{Duration, Instant};

/// How long they are asked every time after they had something: more follows, mostly.
const LIVELY: Duration = Duration::from_micros(50);
/// How often they are asked otherwise: short beside a sleep, and long beside the call.
const QUIET: Duration = Duration::from_micros(5);
/// Calls in a row in which the rings had something, after which the sockets have their turn, too.
const MOST_IN_A_ROW: u32 = 16;

/// See the module.
pub(super) struct Turns {
    /// When they were asked last.
    asked: Instant,
    /// When they had something last.
    had: Option<Instant>,
    in_a_row: u32,
}

impl Turns {
    pub(super) fn new(now: Instant) -> Turns {
        Turns { asked: now, had: None, in_a_row: 0 }
    }

    /// Whether they are to be asked now that the rings had something, or nothing.
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

    /// They were asked, and had something or nothing.
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
