//! Notes about the RNICs that the two ends exchange on an established connection.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{DecodeError, PathId, QpId, Token};

/// Length of a [`Note`] in bytes.
pub const NOTE_LEN: usize = size_of::<RawNote>();

/// A message about the RNICs between the ends of a connection. The network may lose or duplicate
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// The receiving Braid queue pair.
    pub qp: QpId,
    /// The token of that queue pair.
    pub token: Token,
    /// The contents.
    pub body: NoteBody,
}

/// The contents of a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteBody {
    /// Requests the NIC's key of the memory region with this rkey.
    Ask {
        /// The rkey of the region, as applications know it.
        rkey: u32,
    },
    /// Returns the NIC's key. If `len` is 0, the peer must not write to the region directly.
    Tell {
        /// The rkey of the region, as applications know it.
        rkey: u32,
        /// The NIC's key of the region.
        nic_rkey: u32,
        /// Address of the first byte.
        addr: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The path has a new NIC queue pair. The previous ones are closed.
    NewEpoch {
        /// The path. The number after the last path stands for the safe NIC queue pair.
        path: PathId,
        /// Number of previous NIC queue pairs of the path.
        epoch: u32,
        /// The number of the new NIC queue pair.
        nic_qp: u32,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawNote {
    kind: u8,
    reserved: u8,
    path: U16,
    qp: U32,
    token: U32,
    rkey: U32,
    number: U32,
    epoch: U32,
    addr: U64,
    len: U64,
}

impl Note {
    /// Encodes the note.
    pub fn encode(&self) -> [u8; NOTE_LEN] {
        let mut raw = RawNote {
            kind: 0,
            reserved: 0,
            path: U16::ZERO,
            qp: U32::new(self.qp.get()),
            token: U32::new(self.token.0),
            rkey: U32::ZERO,
            number: U32::ZERO,
            epoch: U32::ZERO,
            addr: U64::ZERO,
            len: U64::ZERO,
        };
        match self.body {
            NoteBody::Ask { rkey } => (raw.kind, raw.rkey) = (1, U32::new(rkey)),
            NoteBody::Tell { rkey, nic_rkey, addr, len } => {
                (raw.kind, raw.rkey, raw.number) = (2, U32::new(rkey), U32::new(nic_rkey));
                (raw.addr, raw.len) = (U64::new(addr), U64::new(len));
            }
            NoteBody::NewEpoch { path, epoch, nic_qp } => {
                (raw.kind, raw.path, raw.number) = (3, U16::new(path.get()), U32::new(nic_qp));
                raw.epoch = U32::new(epoch);
            }
        }
        zerocopy::transmute!(raw)
    }

    /// Decodes a note, which must fill `bytes`.
    ///
    /// # Errors
    /// If the length is wrong or the kind is unknown.
    pub fn decode(bytes: &[u8]) -> Result<Note, DecodeError> {
        let raw = RawNote::ref_from_bytes(bytes).map_err(|_| DecodeError::Length)?;
        let rkey = raw.rkey.get();
        let body = match raw.kind {
            1 => NoteBody::Ask { rkey },
            2 => {
                let (addr, len) = (raw.addr.get(), raw.len.get());
                if addr.checked_add(len).is_none() {
                    return Err(DecodeError::Field("bounds of a region"));
                }
                NoteBody::Tell { rkey, nic_rkey: raw.number.get(), addr, len }
            }
            3 => NoteBody::NewEpoch {
                path: PathId::new(raw.path.get()),
                epoch: raw.epoch.get(),
                nic_qp: raw.number.get() & 0xFF_FFFF,
            },
            _ => return Err(DecodeError::Field("kind of note")),
        };
        Ok(Note { qp: QpId::new(raw.qp.get()), token: Token(raw.token.get()), body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_whole() {
        let path = PathId::new(4095);
        for body in [
            NoteBody::Ask { rkey: 5 },
            NoteBody::Tell { rkey: 5, nic_rkey: 6, addr: 1 << 40, len: 1 << 30 },
            NoteBody::NewEpoch { path, epoch: 3, nic_qp: 0xFF_FFFF },
        ] {
            let note = Note { qp: QpId::new(77), token: Token(9), body };
            assert_eq!(Note::decode(&note.encode()), Ok(note));
        }
        assert!(Note::decode(&[0; NOTE_LEN]).is_err(), "of no kind");
        assert!(Note::decode(&[1; NOTE_LEN + 1]).is_err());
    }

    #[test]
    fn a_region_that_wraps_is_refused() {
        let body = NoteBody::Tell { rkey: 1, nic_rkey: 2, addr: u64::MAX, len: 2 };
        let note = Note { qp: QpId::new(1), token: Token(1), body };
        assert!(Note::decode(&note.encode()).is_err());
    }
}
