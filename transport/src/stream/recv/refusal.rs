//! Reasons for refusing a packet, and the NAKs for its sender.

use braid_wire::NakCode;

use crate::stream::coverage::Contradiction;
use crate::{Access, AccessError};

/// Reason for refusing a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The packet is stale, stray or spoofed.
    #[error("its token is not the queue pair's")]
    Token,
    /// The network has delayed the packet until its PSN wrapped.
    #[error("it was sent before the PSN wrapped")]
    Stale,
    /// The queue pair does not receive in its state.
    #[error("the queue pair does not receive in its state")]
    State,
    /// The packet is beyond the receive window, which the peer respects.
    #[error("it is beyond the receive window")]
    Window,
    /// The packet is so old that the peer knows of its arrival and does not retransmit it any more.
    #[error("it is more than a window behind the expected PSN")]
    Behind,
    /// The packet is out of order, which go-back-N does not accept. It will be retransmitted.
    #[error("it is out of order, and go-back-N accepts packets in order only")]
    Order,
    /// No receive is posted. The packet will be retransmitted.
    #[error("no receive work request is posted for it")]
    NotReady,
    /// The peer has more READs and atomics outstanding than it was granted.
    #[error("more READs and atomics are outstanding than were granted")]
    TooMany,
    /// An earlier packet was refused for good.
    #[error("an earlier packet was refused for good")]
    Barred,
    /// The packet may not access that memory.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The memory that this end's own work request names may not be written any more.
    #[error("the local memory of a work request may not be written any more")]
    Local,
    /// The queue pair does not permit this kind of access.
    #[error("the queue pair does not allow {0:?}")]
    Permission(Access),
    /// An atomic on an address that is not aligned.
    #[error("an atomic at {0:#x}, not a multiple of 8")]
    Alignment(u64),
    /// The packet contradicts the work requests, or other packets of its message.
    #[error("it contradicts the local work requests or other packets of its message")]
    Malformed,
    /// A SEND is longer than its receive buffer.
    #[error("it is longer than the receive buffer")]
    TooLong,
}

impl Refusal {
    /// Whether the packet is not the peer's, or was sent before the PSN wrapped. It has no effect
    /// then.
    pub(crate) fn is_foreign(self) -> bool {
        matches!(self, Refusal::Token | Refusal::Stale | Refusal::Window | Refusal::Behind)
    }

    /// Returns the NAK for the peer, if the refusal is final.
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
