//! The engine's clock: nanoseconds since the engine was created.

use std::time::{Duration, Instant};

use braid_wire::Time;

/// The clock that all workers of an engine share, so that their times can be compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock { origin: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        self.time_of(Instant::now())
    }

    /// Converts an instant of the operating system.
    pub(crate) fn time_of(&self, instant: Instant) -> Time {
        let since = instant.saturating_duration_since(self.origin);
        Time::from_nanos(since.as_nanos() as u64)
    }
}

/// The longest wait. Adding it overflows no clock, and no program runs to its end.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The end of a wait that begins now. The application may give any limit; [`Duration::MAX`] means
/// none.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(FOR_EVER)
}
