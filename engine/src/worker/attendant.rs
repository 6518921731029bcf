//! Runs a worker whose application does something else.
//!
//! With [`crate::Progress::Application`] nothing is answered while the application computes, verifies or waits for a
//! disk, and a peer that hears nothing for long takes it for dead. So a thread looks now and then whether anybody has run the
//! worker, and runs it if not. It is no substitute: what comes in between waits for up to a tenth of a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::WorkerCell;

/// Well below the longest retransmission time-out (300 ms) and the interval of PINGs (500 ms).
const LOOK: Duration = Duration::from_millis(100);
/// Rounds at a time: several times what a socket's buffer holds.
const ROUNDS: u32 = 256;

/// Looks after `worker` until `stop` is set and this thread unparked.
pub(crate) fn attend(worker: &Arc<WorkerCell>, stop: &AtomicBool) {
    let mut seen = 0;
    while !stop.load(Ordering::Acquire) {
        thread::park_timeout(LOOK);
        for _ in 0..ROUNDS {
            match worker.progress_unless_run(seen) {
                Attended::Worked(rounds) => seen = rounds,
                Attended::Idle(rounds) => {
                    seen = rounds;
                    break;
                }
            }
        }
    }
}

/// What a look has come to, and how many rounds the worker has been run.
pub(super) enum Attended {
    /// There was work: perhaps there is more.
    Worked(u64),
    /// There was none, or others run the worker.
    Idle(u64),
}
