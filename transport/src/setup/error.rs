//! Reasons why a connection attempt failed.

use braid_wire::{BASE_DATAGRAM, RejectReason};

/// Reason why a connection attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// No answer arrived in time.
    #[error("no answer in time; is a Braid listener there, and does UDP reach its port?")]
    TimedOut,
    /// Short datagrams are answered, but long ones are not.
    #[error(
        "the path carries no datagrams of {BASE_DATAGRAM} bytes; raise its MTU to at least 1280"
    )]
    PathMtu,
    /// The peer rejected the request.
    #[error("the peer rejected the connection: {0}")]
    Rejected(RejectReason),
}
