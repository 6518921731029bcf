//! Offers: the addresses of a receive's buffers, which the receiver sends to the sender.
//!
//! An offer is a SEND of `4 + 24 n` bytes, little-endian. It starts with the number of the receive
//! (2 bytes), the number of buffers (1) and 0 (1). Each buffer follows with its address (8), length
//! (8), key (4) and tag (4). The message that fills a buffer is one or more WRITEs with immediate
//! data, see [`Piece`].

use smallvec::SmallVec;

use super::limits::MAX_RECVS;

/// Length of the longest offer in bytes.
pub(super) const MAX_OFFER: usize = HEAD + MAX_RECVS * PLACE;
const HEAD: usize = 4;
const PLACE: usize = 24;

/// A buffer of the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) addr: u64,
    pub(super) len: u64,
    pub(super) rkey: u32,
    pub(super) tag: i32,
}

/// The buffers of one receive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Offer {
    /// The number of the receive in its communicator, modulo 2^16.
    pub(super) number: u16,
    pub(super) places: SmallVec<[Place; MAX_RECVS]>,
}

impl Offer {
    /// Encodes the offer. [`Offer::len`] bytes are valid.
    pub(super) fn to_bytes(&self) -> [u8; MAX_OFFER] {
        let mut bytes = [0; MAX_OFFER];
        bytes[..2].copy_from_slice(&self.number.to_le_bytes());
        bytes[2] = self.places.len() as u8;
        for (place, out) in self.places.iter().zip(bytes[HEAD..].chunks_exact_mut(PLACE)) {
            out[..8].copy_from_slice(&place.addr.to_le_bytes());
            out[8..16].copy_from_slice(&place.len.to_le_bytes());
            out[16..20].copy_from_slice(&place.rkey.to_le_bytes());
            out[20..].copy_from_slice(&place.tag.to_le_bytes());
        }
        bytes
    }

    /// Returns the encoded length.
    pub(super) fn len(&self) -> usize {
        HEAD + self.places.len() * PLACE
    }

    /// Decodes an offer, or returns `None` if it is invalid.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let count = usize::from(head[2]);
        if !(1..=MAX_RECVS).contains(&count) || head[3] != 0 || rest.len() != count * PLACE {
            return None;
        }
        let places = rest.chunks_exact(PLACE).map(place).collect::<Option<_>>()?;
        Some(Offer { number: u16::from_le_bytes([head[0], head[1]]), places })
    }
}

fn place(bytes: &[u8]) -> Option<Place> {
    let (addr, rest) = bytes.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (rkey, rest) = rest.split_first_chunk()?;
    let tag = rest.first_chunk()?;
    Some(Place {
        addr: u64::from_le_bytes(*addr),
        len: u64::from_le_bytes(*len),
        rkey: u32::from_le_bytes(*rkey),
        tag: i32::from_le_bytes(*tag),
    })
}

/// The immediate data of a WRITE: its buffer and the number of WRITEs of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) number: u16,
    pub(super) buffer: u8,
    pub(super) pieces: u8,
}

impl Piece {
    pub(super) fn to_imm(self) -> u32 {
        u32::from(self.number) << 16 | u32::from(self.buffer) << 8 | u32::from(self.pieces)
    }

    pub(super) fn from_imm(imm: u32) -> Self {
        Piece { number: (imm >> 16) as u16, buffer: (imm >> 8) as u8, pieces: imm as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(buffers: usize) -> Offer {
        let place = |i: usize| Place {
            addr: 0x7fff_0000_0000 + i as u64,
            len: 1 << 33,
            rkey: 0xdead_0000 + i as u32,
            tag: -(i as i32),
        };
        Offer { number: 0xfffe, places: (0..buffers).map(place).collect() }
    }

    #[test]
    fn offers_survive_the_journey_and_fit_inline() {
        for buffers in 1..=MAX_RECVS {
            let offer = offer(buffers);
            assert_eq!(Offer::from_bytes(&offer.to_bytes()[..offer.len()]), Some(offer));
        }
    }

    #[test]
    fn what_is_no_offer_is_refused() {
        let (bytes, whole) = (offer(2).to_bytes(), offer(2).len());
        for len in 0..whole {
            assert_eq!(Offer::from_bytes(&bytes[..len]), None);
        }
        assert_eq!(Offer::from_bytes(&[1, 0, 0, 0]), None, "no buffer");
        let mut nine = offer(8).to_bytes().to_vec();
        nine[2] = 9;
        nine.extend([0; PLACE]);
        assert_eq!(Offer::from_bytes(&nine), None, "more than a receive has");
    }

    #[test]
    fn immediate_data_survives_the_journey() {
        let piece = Piece { number: 0xabcd, buffer: 7, pieces: 255 };
        assert_eq!(Piece::from_imm(piece.to_imm()), piece);
    }
}
