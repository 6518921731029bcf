//! Clean-up on signals that end this program.

use crate::failure::Failure;
use crate::{scratch, stdio};

/// Installs a handler for SIGINT, SIGTERM and SIGHUP that removes our networks with their
/// processes, and exits.
pub(crate) fn take_networks_down() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        braid_lab::remove_own();
        scratch::remove();
        stdio::say("interrupted");
        std::process::exit(130);
    })
    .map_err(|why| Failure::Trial(format!("cannot install a signal handler: {why}")))
}
