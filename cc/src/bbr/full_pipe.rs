//! The estimator of a full pipe: three round trips in which the delivery rate grows by less than a
//! quarter (section 5.3.1.2).

/// Growth of the delivery rate in a round trip that does not fill the pipe.
pub(super) const GROWTH: f64 = 1.25;
const ROUNDS: u32 = 3;

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct FullPipe {
    /// Baseline of the delivery rate in bytes per second.
    rate: f64,
    rounds: u32,
    is_full: bool,
    /// Whether the pipe has ever been full.
    pub(super) was_full: bool,
}

impl FullPipe {
    /// Begins an estimation with this baseline.
    pub(super) fn reset(&mut self, rate: f64) {
        *self = FullPipe { rate, was_full: self.was_full, ..FullPipe::default() };
    }

    /// Returns whether the pipe has become full since the estimation began.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether the delivery rate has not grown in the latest round trip.
    pub(super) fn is_flat(&self) -> bool {
        self.rounds > 0
    }

    /// Processes the rate at the start of a round trip that is not app-limited.
    pub(super) fn on_round(&mut self, rate: f64) {
        if self.is_full {
            return;
        }
        if rate >= self.rate * GROWTH {
            return self.reset(rate);
        }
        self.rounds += 1;
        self.is_full = self.rounds >= ROUNDS;
        self.was_full |= self.is_full;
    }
}
