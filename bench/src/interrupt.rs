//! The end of a run by a signal: SIGINT, SIGTERM or SIGHUP.
//!
//! The first signal asks the run to end. A run that has measured something prints and writes it,
//! and takes leave of the other side. A run that has not ends at once, as every run does at the
//! second signal.

use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::failure::{Failure, INTERRUPTED};
use crate::{json_file, scratch, stdio};

/// Time for the connections of an interrupted run to end in order.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// Time for a run on our networks to write its results, after the networks have gone.
const TIME_TO_WRITE: Duration = Duration::from_secs(5);

static IS_REQUESTED: AtomicBool = AtomicBool::new(false);
static STAGE: AtomicU8 = AtomicU8::new(AT_ONCE);

/// There is nothing to write.
const AT_ONCE: u8 = 0;
/// The run looks for [`is_requested`] and ends by itself.
const IN_ORDER: u8 = 1;
/// The run fails as soon as its networks have gone.
const WITH_NETWORKS: u8 = 2;

/// Installs the handler of the signals.
///
/// # Errors
/// The system refuses it.
pub(crate) fn install() -> Result<(), Failure> {
    ctrlc::set_handler(on_signal)
        .map_err(|why| Failure::Trial(format!("cannot install a signal handler: {why}")))
}

fn on_signal() {
    let is_second = IS_REQUESTED.swap(true, Relaxed);
    match STAGE.load(Relaxed) {
        IN_ORDER if !is_second => return,
        WITH_NETWORKS if !is_second => {
            braid_lab::remove_own();
            thread::spawn(|| {
                thread::sleep(TIME_TO_WRITE);
                leave();
            });
            return;
        }
        _ => {}
    }
    leave();
}

fn leave() {
    braid_lab::process::end_all();
    if STAGE.load(Relaxed) == WITH_NETWORKS {
        braid_lab::remove_own();
        scratch::remove();
    }
    json_file::remove_new();
    stdio::say("interrupted");
    exit(INTERRUPTED.into());
}

/// Makes the first signal ask the run to end in order. The run looks for [`is_requested`].
pub(crate) fn end_in_order() {
    STAGE.store(IN_ORDER, Relaxed);
}

/// Makes the first signal take our networks down, with their processes, so that the run fails.
pub(crate) fn take_networks_down() {
    STAGE.store(WITH_NETWORKS, Relaxed);
}

/// Returns whether a signal has asked the run to end.
pub(crate) fn is_requested() -> bool {
    IS_REQUESTED.load(Relaxed)
}

/// Returns whether a series of runs was interrupted, whose results so far are written then.
///
/// # Errors
/// The series failed for another reason.
pub(crate) fn interrupted(done: Result<(), Failure>) -> Result<bool, Failure> {
    match done {
        _ if is_requested() => Ok(true),
        Ok(()) => Ok(false),
        Err(failure) => Err(failure),
    }
}
