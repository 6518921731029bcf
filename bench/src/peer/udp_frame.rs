//! The datagram format of the UDP peers, and the segmentation of a bulk transfer.
//!
//! A header is as long as Braid's (60 bytes), so that both have the same overhead. Only its first
//! bytes are used.

use super::error::PeerError;
use super::limits::WORKING_SET_BYTES;

/// Bytes of the header before each payload.
pub(crate) const HEADER_BYTES: usize = 60;

/// Maximum payload bytes of one UDP datagram over IPv4, and so of a batch.
const MAX_BATCH_BYTES: usize = 65_507;

/// Number of segments that every kernel with UDP segmentation offload accepts in one call.
const MAX_SEGMENTS: usize = 64;

/// Bytes of one buffer of a sender's working set.
pub(crate) const BUFFER_BYTES: usize = 1 << 20;

/// The kind of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The first message of a sender; answered.
    Hello = 1,
    /// Payload; answered once per [`super::udp_gso::ACK_BYTES`].
    Data = 2,
    /// The position of the sender. Missing payload before it is lost; answered.
    Probe = 3,
    /// A probe that also starts the receiver's CPU clock; answered.
    Mark = 4,
    /// The last message of a sender; answered by the report on stdout.
    End = 5,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Hello, Self::Data, Self::Probe, Self::Mark, Self::End]
            .into_iter()
            .find(|&kind| kind as u8 == byte)
    }
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The kind of the datagram.
    pub(crate) kind: Kind,
    /// Position in the stream of payload bytes: the start of this payload, or the progress of the
    /// sender.
    pub(crate) position: u64,
    /// In an answer: payload bytes received so far. With a payload: its [`check`], or 0 for none.
    pub(crate) note: u64,
}

impl Header {
    /// Writes the header.
    pub(crate) fn encode(&self, bytes: &mut [u8; HEADER_BYTES]) {
        bytes[0] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.note.to_le_bytes());
    }

    /// Splits a datagram into its header and its payload. `None`: not in this format.
    pub(crate) fn decode(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, payload) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        let word = |at: usize| {
            u64::from_le_bytes(header[at..at + 8].try_into().expect("a slice of eight bytes"))
        };
        let kind = Kind::from_byte(header[0])?;
        Some((Self { kind, position: word(8), note: word(16) }, payload))
    }
}

/// Returns the CRC-32 that Braid checks payloads with; never 0.
pub(crate) fn check(payload: &[u8]) -> u64 {
    1 << 32 | u64::from(crc32fast::hash(payload))
}

/// The segmentation of a bulk transfer. Both sides derive it from the payload size alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Payload bytes of a segment.
    pub(crate) payload: usize,
    /// Segments of a full batch.
    pub(crate) segments: usize,
    /// Number of whole payloads in one buffer of the working set.
    per_buffer: usize,
}

impl Cut {
    /// Creates the segmentation for this payload size.
    ///
    /// # Errors
    /// `payload` does not fit into a datagram, or is 0.
    pub(crate) fn new(payload: usize) -> Result<Self, PeerError> {
        let segments = MAX_SEGMENTS.min(MAX_BATCH_BYTES / (HEADER_BYTES + payload));
        if payload == 0 || segments == 0 {
            return Err(PeerError::Usage(format!("a UDP segment cannot carry {payload} bytes")));
        }
        Ok(Self { payload, segments, per_buffer: BUFFER_BYTES / payload })
    }

    /// Returns the bytes of a segment after the UDP header.
    pub(crate) fn segment_bytes(&self) -> usize {
        HEADER_BYTES + self.payload
    }

    /// Returns the payload bytes of a full batch.
    pub(crate) fn batch_bytes(&self) -> u64 {
        (self.segments * self.payload) as u64
    }

    /// Returns the place of the payload at `position` of the stream: the buffer, and the offset in
    /// it.
    pub(crate) fn place(&self, position: u64) -> (usize, usize) {
        let slots = self.per_buffer * (WORKING_SET_BYTES / BUFFER_BYTES);
        let slot = (position / self.payload as u64) as usize % slots;
        (slot / self.per_buffer, slot % self.per_buffer * self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_wire() {
        let header = Header { kind: Kind::Mark, position: 1 << 40, note: 7 };
        let mut bytes = [0; HEADER_BYTES];
        header.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes), Some((header, &[][..])));
        assert_eq!(Header::decode(&bytes[1..]), None);
    }

    #[test]
    fn batches_fit_into_a_datagram_and_slots_into_a_buffer() {
        for (payload, segments) in [(4096, 15), (1408, 44), (64, 64), (65_447, 1)] {
            let cut = Cut::new(payload).unwrap();
            assert_eq!(cut.segments, segments);
            for slot in 0..100_000 {
                let (buffer, offset) = cut.place(slot * payload as u64);
                assert!(buffer < 8 && offset + payload <= BUFFER_BYTES);
            }
        }
        assert!(Cut::new(65_448).is_err());
        assert!(Cut::new(0).is_err());
    }
}
