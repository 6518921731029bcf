//! The part of an offer that depends on the path to the peer.

use braid_wire::{Crc, Offer};

/// Terms of an offer that are the same for all queue pairs which a carrier leads to one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfferTerms {
    /// Identifies the process and engine, see [`Offer::instance`].
    pub instance: u64,
    /// Payload bytes of the largest segment that the path to the peer may carry.
    pub mtu: u16,
    /// Size of the socket's receive buffer in bytes, see [`Offer::receive_buffer`].
    pub receive_buffer: u32,
    /// Whether this end requests payload CRCs.
    pub crc: Crc,
}

impl From<&Offer> for OfferTerms {
    fn from(offer: &Offer) -> Self {
        let Offer { instance, mtu, receive_buffer, crc, .. } = *offer;
        OfferTerms { instance, mtu, receive_buffer, crc }
    }
}
