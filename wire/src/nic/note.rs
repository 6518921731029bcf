//! What the two ends of a connection tell each other of their RNICs once it stands.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{DecodeError, PathId, QpId, Token};

/// Bytes of a [`Note`].
pub const NOTE_LEN: usize = size_of::<RawNote>();

/// What the ends of a connection tell each other. May be lost, and may come twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// The Braid queue pair that it is for.
    pub qp: QpId,
    /// Its token.
    pub token: Token,
    /// What it says.
    pub body: NoteBody,
}

/// What a note says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteBody {
    /// "Which key has your NIC for your memory region with this rkey?"
    Ask {
        /// The region's rkey, as applications know it.
        rkey: u32,
    },
    /// The answer. A `len` of 0: this queue pair must not write there directly.
    Tell {
        /// The region's rkey, as applications know it.
        rkey: u32,
        /// The NIC's key for it.
        nic_rkey: u32,
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// The path's NIC queue pair has this NIC queue pair now; those before are closed.
    NewEpoch {
        /// The path; one more than the last: the safe NIC queue pair.
        path: PathId,
        /// How many it had before.
        epoch: u32,
        /// Its number.
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
    /// Its bytes.
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

    /// Reads one, all of `bytes`.
    ///
    /// # Errors
    /// It is of another length, or of no known kind.
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
