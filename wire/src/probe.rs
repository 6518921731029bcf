//! Which datagrams a path carries: PROBE asks with its own size, PROBED answers (RFC 8899).

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::check::{CHECK_LEN, header_crc, strip_check};
use crate::{DecodeError, Opcode, QpId, Token, VERSION};

/// Bytes of a PROBED, and of the smallest PROBE.
pub const PROBE_LEN: usize = size_of::<Raw>() + CHECK_LEN;

/// What a probe packet says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeKind {
    /// Does a datagram of this size arrive? It is padded to it.
    Probe,
    /// It has. Not padded, so that it says nothing about its own way.
    Probed,
}

/// A question about a datagram's size, or the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Which of the two.
    pub kind: ProbeKind,
    /// The receiving queue pair.
    pub qp: QpId,
    /// The queue pair of the sender.
    pub from: QpId,
    /// The token of the receiving one.
    pub token: Token,
    /// Bytes of the PROBE's UDP payload, [`PROBE_LEN`] or more; a PROBED returns its PROBE's.
    pub size: u16,
    /// Chosen by who asks, opaque; a PROBED returns its PROBE's.
    pub serial: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    bth: Bth,
    version: u8,
    reserved: u8,
    size: U16,
    token: U32,
    from: U32,
    serial: U32,
}

impl ProbeKind {
    fn opcode(self) -> Opcode {
        match self {
            ProbeKind::Probe => Opcode::Probe,
            ProbeKind::Probed => Opcode::Probed,
        }
    }

    pub(crate) fn of(opcode: Opcode) -> Option<Self> {
        use ProbeKind::*;
        [Probe, Probed].into_iter().find(|kind| kind.opcode() == opcode)
    }
}

impl Probe {
    /// Appends the packet, padding and check included. A size below [`PROBE_LEN`] counts as that.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let raw = Raw {
            bth: Bth::new(self.kind.opcode(), self.qp, 0),
            version: VERSION,
            reserved: 0,
            size: U16::new(self.size.max(PROBE_LEN as u16)),
            token: U32::new(self.token.0),
            from: U32::new(self.from.get()),
            serial: U32::new(self.serial),
        };
        out.extend_from_slice(raw.as_bytes());
        if self.kind == ProbeKind::Probe {
            out.resize(start + usize::from(raw.size.get()) - CHECK_LEN, 0);
        }
        let crc = header_crc(&out[start..], &[]);
        out.extend_from_slice(&crc.to_be_bytes());
    }

    pub(crate) fn decode(kind: ProbeKind, bytes: &[u8]) -> Result<Self, DecodeError> {
        let body = strip_check(bytes, size_of::<Raw>())?;
        let (raw, padding) = Raw::ref_from_prefix(body).map_err(|_| DecodeError::Length)?;
        let size = raw.size.get();
        let fits = match kind {
            ProbeKind::Probe => bytes.len() == usize::from(size),
            ProbeKind::Probed => padding.is_empty() && usize::from(size) >= PROBE_LEN,
        };
        if !fits {
            return Err(DecodeError::Length);
        }
        let (qp, token, serial) = (raw.bth.qp_id(), Token(raw.token.get()), raw.serial.get());
        Ok(Probe { kind, qp, from: QpId::new(raw.from.get()), token, size, serial })
    }
}
