//! The engine's clock: nanoseconds since the engine was made.

use std::time::{Duration, Instant};

use braid_wire::Time;

/// All workers of an engine share one, so that their instants compare.
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

    /// An instant of the operating system on this clock.
    pub(crate) fn time_of(&self, instant: Instant) -> Time {
        let since = instant.saturating_duration_since(self.origin);
        Time::from_nanos(since.as_nanos() as u64)
    }
}

/// Longest wait: no clock overflows if that is added to it, and nobody sees its end.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The end of a wait that begins now. The application may give any limit, [`Duration::MAX`] for
/// none.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(FOR_EVER)
}
