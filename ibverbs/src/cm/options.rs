//! The options of identifiers.

use crate::errno::Errno;
use crate::messages::PortOptions;
use crate::settings::Settings;

/// The options of an identifier. A connection does not inherit those of its listener.
#[derive(Clone, Copy, Default)]
pub(super) struct Options {
    /// The type of service of the exchange, and the traffic class of the queue pair.
    pub(super) tos: u8,
    pub(super) is_address_reused: bool,
    pub(super) is_family_only: bool,
    /// The local ack timeout of the queue pair, if the program has set one.
    pub(super) ack_timeout: Option<u8>,
}

impl Options {
    /// The options of a port.
    ///
    /// # Errors
    /// `EINVAL`: an environment variable has an invalid value.
    pub(super) fn of_port(&self) -> Result<PortOptions, Errno> {
        Ok(PortOptions {
            is_only_v6: self.is_family_only,
            is_shared: self.is_address_reused,
            tos: self.tos,
            faults: Settings::load()?.engine.faults,
        })
    }
}
