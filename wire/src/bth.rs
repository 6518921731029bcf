//! The Base Transport Header and the version byte that follows it, common to all packets.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::check::strip_check;
use crate::{DecodeError, Opcode, QpId};

/// The format version of this crate, byte 12 of every Braid packet.
pub const VERSION: u8 = 3;

/// The first 12 bytes of a RoCEv2 datagram (IBTA vol. 1, 9.2).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Bth {
    pub(crate) opcode: u8,
    /// Solicited event (bit 7), migration state (6), pad count (5-4), transport version (3-0).
    pub(crate) flags: u8,
    pub(crate) pkey: U16,
    /// FECN (bit 31), BECN (bit 30), reserved, and the destination queue pair. The ICRC leaves the
    /// first byte out.
    pub(crate) qp: U32,
    /// Acknowledge request (bit 31), reserved, PSN.
    pub(crate) psn: U32,
}

const SOLICITED: u8 = 0x80;
/// The migration state of a queue pair without a second path: migrated (IBTA vol. 1, 17.2.8).
const MIGRATED: u8 = 0x40;
/// Backward congestion notification (IBTA vol. 1, A17.9.3).
const BECN: u32 = 0x4000_0000;
const PAD_SHIFT: u32 = 4;
const ACK_REQUEST: u32 = 0x8000_0000;
const DEFAULT_PKEY: u16 = 0xFFFF;

impl Bth {
    pub(crate) fn new(opcode: Opcode, qp: QpId, psn: u32) -> Self {
        Bth {
            opcode: opcode as u8,
            flags: 0,
            pkey: U16::new(DEFAULT_PKEY),
            qp: U32::new(qp.get()),
            psn: U32::new(psn),
        }
    }

    /// The header of a packet of plain RoCEv2.
    pub(crate) fn rc(opcode: u8, qp: QpId, psn: u32) -> Self {
        Bth {
            opcode,
            flags: MIGRATED,
            pkey: U16::new(DEFAULT_PKEY),
            qp: U32::new(qp.get()),
            psn: U32::new(psn & 0xFF_FFFF),
        }
    }

    /// The header of a congestion notification packet of plain RoCEv2.
    pub(crate) fn cnp(opcode: u8, qp: QpId, psn: u32) -> Self {
        Bth { flags: 0, qp: U32::new(qp.get() | BECN), ..Bth::rc(opcode, qp, psn) }
    }

    /// Sets the pad count. It is 0 before.
    pub(crate) fn padded(self, count: u8) -> Self {
        Bth { flags: self.flags | count << PAD_SHIFT, ..self }
    }

    pub(crate) fn pad_count(&self) -> usize {
        (self.flags >> PAD_SHIFT & 0b11).into()
    }

    /// The version of the transport headers of plain RoCEv2, which is 0.
    pub(crate) fn rc_version(&self) -> u8 {
        self.flags & 0xF
    }

    pub(crate) fn solicited(self, on: bool) -> Self {
        Bth { flags: if on { self.flags | SOLICITED } else { self.flags }, ..self }
    }

    pub(crate) fn ack_request(mut self, on: bool) -> Self {
        self.set_psn(self.psn.get(), on);
        self
    }

    /// Sets the PSN and the acknowledge request.
    #[inline]
    pub(crate) fn set_psn(&mut self, psn: u32, ack_request: bool) {
        self.psn.set(psn | if ack_request { ACK_REQUEST } else { 0 });
    }

    pub(crate) fn is_solicited(&self) -> bool {
        self.flags & SOLICITED != 0
    }

    pub(crate) fn wants_ack(&self) -> bool {
        self.psn.get() & ACK_REQUEST != 0
    }

    pub(crate) fn wire_psn(&self) -> u32 {
        self.psn.get() & 0xFF_FFFF
    }

    pub(crate) fn qp_id(&self) -> QpId {
        QpId::new(self.qp.get())
    }
}

/// Returns the opcode after a check of the version. Every packet has these two bytes in the same
/// place.
///
/// In every version, a packet that starts or rejects a connection ends with a CRC over all of it.
/// If the CRC does not match, the version byte may be damaged, so the CRC error takes precedence.
pub(crate) fn opcode_of(bytes: &[u8]) -> Result<Opcode, DecodeError> {
    let &[opcode, _, _, _, _, _, _, _, _, _, _, _, version, ..] = bytes else {
        return Err(DecodeError::Short { have: bytes.len(), need: 13 });
    };
    let opcode = Opcode::from_byte(opcode).ok_or(DecodeError::Opcode(opcode))?;
    if version != VERSION {
        if matches!(opcode, Opcode::Hello | Opcode::Connect | Opcode::Reject) {
            strip_check(bytes, size_of::<Bth>())?;
        }
        return Err(DecodeError::Version(version));
    }
    Ok(opcode)
}
