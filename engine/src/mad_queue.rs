//! The packets that have arrived at queue pair 1 of RoCEv2.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Packets that wait to be taken, at most. Further ones are lost, as at a receive queue that is
/// empty.
const MAX_WAITING: usize = 256;

/// The packets that have arrived.
#[derive(Default)]
pub(crate) struct MadQueue {
    waiting: Mutex<WaitingMads>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitingMads {
    packets: VecDeque<RawMad>,
    /// Whether there was a call of [`MadQueue::wake`] that no thread has seen.
    is_woken: bool,
}

/// A packet whose ICRC is not checked.
pub(crate) struct RawMad {
    pub(crate) from: SocketAddr,
    pub(crate) bytes: Box<[u8]>,
    /// The place among the packets that arrived together, see [`braid_wire::IcrcEnds::check`].
    pub(crate) place: u16,
}

impl MadQueue {
    /// Adds a packet. Returns false if there is no room.
    pub(crate) fn push(&self, from: SocketAddr, bytes: &[u8], place: usize) -> bool {
        let mut waiting = self.waiting();
        let has_room = waiting.packets.len() < MAX_WAITING;
        if has_room {
            waiting.packets.push_back(RawMad { from, bytes: bytes.into(), place: place as u16 });
            drop(waiting);
            self.changed.notify_one();
        }
        has_room
    }

    /// Ends a [`MadQueue::take`] of another thread, or the next one.
    pub(crate) fn wake(&self) {
        self.waiting().is_woken = true;
        self.changed.notify_all();
    }

    /// Waits for the next packet until `until`, without a limit if it is `None`. Returns `None`
    /// then, and after [`MadQueue::wake`].
    pub(crate) fn take(&self, until: Option<Instant>) -> Option<RawMad> {
        let mut waiting = self.waiting();
        loop {
            if std::mem::take(&mut waiting.is_woken) {
                return None;
            }
            if let Some(raw) = waiting.packets.pop_front() {
                return Some(raw);
            }
            let changed = &self.changed;
            waiting = match until {
                None => changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    let waited = changed.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingMads> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
