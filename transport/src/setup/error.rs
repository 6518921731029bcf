//! Reasons why a connection was not made.

use braid_wire::{BASE_DATAGRAM, RejectReason};

/// Why a connection did not come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody answered.
    #[error("no answer in time; is a Braid listener there, and does UDP reach its port?")]
    TimedOut,
    /// Short datagrams are answered and longer ones are not.
    #[error(
        "the path carries no datagrams of {BASE_DATAGRAM} bytes; raise the MTU on the way to 1280 at least"
    )]
    PathMtu,
    /// The other side said no.
    #[error("the peer turned the connection down: {0}")]
    Rejected(RejectReason),
}
