//! The detection of a run in which nothing happens any more.

use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Time without any progress after which a run fails.
pub(super) const STALL: Duration = Duration::from_secs(20);
/// Turns of a spin between two reads of the clock, which is too expensive for every turn.
const CLOCK_EVERY: u64 = 4096;

/// The turns without a completion.
pub(super) struct StallDetector {
    idle_turns: u64,
    idle_since: Instant,
    /// Whether progress is expected. A server waits for its client without a limit.
    pub(super) expects: bool,
}

impl StallDetector {
    pub(super) fn new() -> Self {
        StallDetector { idle_turns: 0, idle_since: Instant::now(), expects: true }
    }

    /// Number of turns since the last completion.
    pub(super) fn idle_turns(&self) -> u64 {
        self.idle_turns
    }

    /// Fails if nothing has happened for too long, without reading the clock in every turn.
    pub(super) fn on_turn(&mut self, is_busy: bool) -> Result<(), Failure> {
        if is_busy {
            self.idle_turns = 0;
            return Ok(());
        }
        self.idle_turns += 1;
        if self.idle_turns == 1 {
            self.idle_since = Instant::now();
        }
        let stalled =
            self.idle_turns.is_multiple_of(CLOCK_EVERY) && self.idle_since.elapsed() > STALL;
        if stalled && self.expects { Err(Failure::Stalled(STALL)) } else { Ok(()) }
    }
}
