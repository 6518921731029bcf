//! The owners of completions, by the engine's numbers of the queue pairs that complete.

use std::sync::atomic::{AtomicU64, Ordering};

use braid::QpId;

/// The programs' queue pairs behind those of the engine, by index.
pub(crate) struct Routes(Box<[AtomicU64]>);

/// The owner of a completion. Numbers are those that programs know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// The queue pair itself.
    Own { number: u32 },
    /// A flow of the queue pair's datagrams.
    Outgoing { number: u32 },
    /// The far end of a flow that `source` has begun.
    Incoming { number: u32, source: u32 },
}

impl Route {
    /// The number of the program's queue pair.
    pub(crate) fn number(self) -> u32 {
        match self {
            Route::Own { number } | Route::Outgoing { number } | Route::Incoming { number, .. } => {
                number
            }
        }
    }

    /// Packs 24 bits of the number, 24 bits of the source, and the kind.
    fn pack(self) -> u64 {
        let number = u64::from(self.number());
        match self {
            Route::Own { .. } => number,
            Route::Outgoing { .. } => number | 1 << 48,
            Route::Incoming { source, .. } => number | u64::from(source) << 24 | 2 << 48,
        }
    }

    fn unpack(packed: u64) -> Self {
        let number = packed as u32 & 0xFF_FFFF;
        match packed >> 48 {
            0 => Route::Own { number },
            1 => Route::Outgoing { number },
            _ => Route::Incoming { number, source: (packed >> 24) as u32 & 0xFF_FFFF },
        }
    }
}

impl Routes {
    pub(crate) fn new() -> Self {
        Routes((0..=usize::from(u16::MAX)).map(|_| AtomicU64::new(0)).collect())
    }

    fn at(&self, id: QpId) -> &AtomicU64 {
        &self.0[id.get() as usize & 0xFFFF]
    }

    pub(crate) fn set(&self, id: QpId, route: Route) {
        self.at(id).store(route.pack(), Ordering::Release);
    }

    pub(crate) fn get(&self, id: QpId) -> Route {
        Route::unpack(self.at(id).load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_come_back() {
        let (number, source) = (0xAB_CDEF, 0xFF_FFFF);
        for route in [
            Route::Own { number },
            Route::Outgoing { number },
            Route::Incoming { number, source },
            Route::Incoming { number: 1, source: 0 },
        ] {
            assert_eq!(Route::unpack(route.pack()), route);
        }
    }
}
