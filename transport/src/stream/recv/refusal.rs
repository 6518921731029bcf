//! Why a packet is refused, and what its sender is told.

use braid_wire::NakCode;

use crate::stream::coverage::Contradiction;
use crate::{Access, AccessError};

/// Why a packet is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// Stale, stray or spoofed.
    #[error("its token is not the queue pair's")]
    Token,
    /// The network has held it back until its PSN came round again.
    #[error("it was sent before the PSN came round")]
    Stale,
    /// The queue pair does not receive.
    #[error("the queue pair does not receive in its state")]
    State,
    /// Beyond what is tracked, which the peer keeps to.
    #[error("it lies beyond the window")]
    Window,
    /// The packet is so old that the peer knows of its arrival and does not send it any more.
    #[error("it lies a window behind what is expected")]
    Behind,
    /// Out of order, which go-back-N does not take; it will be resent.
    #[error("it is out of order, and go-back-N takes packets in order only")]
    Order,
    /// No receive is posted; it will be resent.
    #[error("no receive work request is posted for it")]
    NotReady,
    /// One READ or atomic more than the peer was granted.
    #[error("more READs and atomics are open than were granted")]
    TooMany,
    /// A packet before this one was refused for good.
    #[error("a packet before it was refused for good")]
    Barred,
    /// The packet must not touch that memory.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The memory into which the packet would go, which this end's own work request names, must not
    /// be written any more.
    #[error("the memory that a work request of this end names is not to be written any more")]
    Local,
    /// The packet must not touch memory in this way through this queue pair.
    #[error("the queue pair does not allow {0:?}")]
    Permission(Access),
    /// An atomic on an address that is not aligned.
    #[error("an atomic at {0:#x}, not a multiple of 8")]
    Alignment(u64),
    /// The packet contradicts what is posted or asked for.
    #[error("it contradicts the work requests here")]
    Malformed,
    /// A SEND longer than its receive buffer.
    #[error("it is longer than the receive buffer")]
    TooLong,
}

impl Refusal {
    /// Whether the packet is not the peer's, or not of this time: nothing follows from it.
    pub(crate) fn is_foreign(self) -> bool {
        matches!(self, Refusal::Token | Refusal::Stale | Refusal::Window | Refusal::Behind)
    }

    /// The NAK for the peer, if the refusal is final.
    pub(crate) fn nak(self) -> Option<NakCode> {
        match self {
            Refusal::Token
            | Refusal::Stale
            | Refusal::State
            | Refusal::Window
            | Refusal::Behind
            | Refusal::Order
            | Refusal::NotReady
            | Refusal::Barred => None,
            Refusal::Access(_) | Refusal::Permission(_) | Refusal::Alignment(_) => {
                Some(NakCode::RemoteAccess)
            }
            Refusal::Local => Some(NakCode::RemoteOperational),
            Refusal::Malformed | Refusal::TooLong | Refusal::TooMany => {
                Some(NakCode::InvalidRequest)
            }
        }
    }
}

impl From<Contradiction> for Refusal {
    fn from(_: Contradiction) -> Self {
        Refusal::Malformed
    }
}
