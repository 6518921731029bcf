//! What a signal that ends this program must not leave behind.

use crate::failure::Failure;
use crate::{scratch, stdio};

/// On SIGINT, SIGTERM and SIGHUP: take our networks down, with all that runs on them, and leave.
pub(crate) fn take_networks_down() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        braid_lab::remove_own();
        scratch::remove();
        stdio::say("interrupted");
        std::process::exit(130);
    })
    .map_err(|why| Failure::Trial(format!("cannot install a signal handler: {why}")))
}
