//! What one attempt offers.

use braid_wire::{Crc, Offer, Token};

use super::{QpState, QueuePair};
use crate::StateError;

/// What an offer says of the driver, whichever queue pair it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OfferTerms {
    /// Names the process and engine; see [`Offer::instance`].
    pub instance: u64,
    /// Payload bytes of the largest segment that the way to the peer may carry.
    pub mtu: u16,
    /// Bytes that are received before they are looked at.
    pub receive_buffer: u32,
    /// Whether payloads are to carry a check.
    pub crc: Crc,
}

impl QueuePair {
    /// The offer of an attempt to connect it, or to accept with it: INIT. Every attempt needs a `token` of its own: what
    /// the peer makes of an earlier one, however late, is not taken for a part of this. `psn` is the first that it will
    /// send (24 bits). Both have to be unpredictable.
    ///
    /// # Errors
    /// It is neither in RESET nor in INIT.
    pub fn offer(
        &mut self,
        token: Token,
        psn: u32,
        terms: &OfferTerms,
    ) -> Result<Offer, StateError> {
        if self.state != QpState::Init {
            self.modify(QpState::Init)?;
        }
        self.token = token;
        Ok(Offer {
            qp: self.id,
            token,
            psn: psn & 0xFF_FFFF,
            instance: terms.instance,
            mtu: terms.mtu,
            receive_buffer: terms.receive_buffer,
            window: self.config.window.clamp(1, 4096),
            max_rd_atomic: self.config.max_rd_atomic.max(1),
            crc: terms.crc,
        })
    }
}
