//! The engine's clock: nanoseconds since the engine was made.

use std::time::Instant;

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
