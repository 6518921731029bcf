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
    /// The properties of a connection with an end that is not Braid.
    pub(super) roce: Option<RoceTerms>,
}

/// The properties of a connection that speaks plain RoCEv2, as its two ends have named them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RoceTerms {
    /// The path MTU, a value of `enum ibv_mtu`.
    pub(super) mtu: u32,
    /// The first PSN of the peer.
    pub(super) recv_psn: u32,
    /// The first PSN of this end.
    pub(super) send_psn: u32,
    /// The local ack timeout.
    pub(super) ack_timeout: u8,
    pub(super) retry_count: u8,
    /// READs and atomics that the peer carries out at a time.
    pub(super) most_reads: u8,
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
