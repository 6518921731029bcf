//! The state of the library.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::behaviour::{Behaviour, Record};
use crate::code::{CONTEXT_IS_DESTROYED, Code, INVALID_CONTEXT, SUCCESS};
use crate::memory::Memory;
use crate::streams::Streams;

/// The state of the library.
#[derive(Default)]
pub(crate) struct Substitute {
    pub(crate) memory: Memory,
    pub(crate) streams: Streams,
    pub(crate) behaviour: Behaviour,
    pub(crate) record: Record,
    /// Whether copies cost nothing.
    is_free: Option<bool>,
    /// Contexts by number, from 1 on. False: it was destroyed.
    pub(crate) contexts: Vec<bool>,
    /// The primary context of the only GPU.
    pub(crate) primary: Option<u64>,
    /// The state of the random numbers for delays.
    random: u64,
    clock: Clock,
    /// Whether events happen before their copies have ended.
    pub(crate) lies: bool,
}

/// The clock by which copies end.
#[derive(Default)]
struct Clock {
    /// The beginning of the system's clock.
    origin: Option<Instant>,
    /// The time that each look at an event takes, if nothing else does.
    look: Option<Duration>,
    looked: Duration,
}

static SUBSTITUTE: Mutex<Option<Box<Substitute>>> = Mutex::new(None);

/// Runs a call with the state of the library.
pub(crate) fn with<T>(call: impl FnOnce(&mut Substitute) -> T) -> T {
    let mut substitute: MutexGuard<'_, _> =
        SUBSTITUTE.lock().unwrap_or_else(PoisonError::into_inner);
    call(substitute.get_or_insert_default())
}

impl Substitute {
    pub(crate) fn is_free(&mut self) -> bool {
        *self.is_free.get_or_insert_with(|| {
            std::env::var_os("CUDA_SUBSTITUTE").is_some_and(|value| value == "free")
        })
    }

    /// The time of the clock by which copies end.
    pub(crate) fn now(&mut self) -> Duration {
        let Clock { origin, look, looked } = &mut self.clock;
        match look {
            Some(_) => *looked,
            None => origin.get_or_insert_with(Instant::now).elapsed(),
        }
    }

    /// Makes copies end by the number of looks at events. `None`: by the system's clock.
    pub(crate) fn set_look(&mut self, look: Option<Duration>) {
        self.clock.look = look;
    }

    /// Notes a look at an event.
    pub(crate) fn look(&mut self) {
        self.clock.looked += self.clock.look.unwrap_or_default();
    }

    /// The time that the next copy takes.
    pub(crate) fn delay(&mut self) -> Duration {
        let Behaviour { shortest_us, longest_us, .. } = self.behaviour;
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let span = longest_us.saturating_sub(shortest_us) + 1;
        Duration::from_micros(shortest_us + (self.random >> 33) % span)
    }

    /// Makes a context. Returns its number.
    pub(crate) fn make_context(&mut self) -> u64 {
        self.contexts.push(true);
        self.contexts.len() as u64
    }

    /// Whether a context exists, was destroyed, or never existed.
    pub(crate) fn check_context(&self, number: u64) -> Code {
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        match index.and_then(|index| self.contexts.get(index)) {
            Some(true) => SUCCESS,
            Some(false) => CONTEXT_IS_DESTROYED,
            None => INVALID_CONTEXT,
        }
    }
}

/// Counts down to a copy that fails. Returns whether it is this one.
pub(crate) fn is_next(left: &mut u64) -> bool {
    let is_last = *left == 1;
    *left = left.saturating_sub(1);
    is_last
}
