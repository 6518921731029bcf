//! Path MTU probes: PROBE has the size that it tests, PROBED confirms it (RFC 8899).

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::check::{CHECK_LEN, header_crc, strip_check};
use crate::{DecodeError, Opcode, QpId, Token, VERSION};

/// Length of a PROBED and of the smallest PROBE in bytes.
pub const PROBE_LEN: usize = size_of::<RawProbe>() + CHECK_LEN;

/// The kind of a probe packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeKind {
    /// A request, padded to the size that it tests.
    Probe,
    /// A confirmation. It is not padded, so that it does not depend on the MTU of its own path.
    Probed,
}

/// A path MTU probe or its confirmation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The kind of packet.
    pub kind: ProbeKind,
    /// The receiving queue pair.
    pub qp: QpId,
    /// The queue pair of the sender.
    pub from: QpId,
    /// The token of the receiving queue pair.
    pub token: Token,
    /// Length of the PROBE's UDP payload in bytes, at least [`PROBE_LEN`]. A PROBED returns the
    /// size of its PROBE.
    pub size: u16,
    /// Serial number, opaque to the receiver. A PROBED returns the serial number of its PROBE.
    pub serial: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawProbe {
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
    /// Appends the packet with its padding and its CRC. Raises a smaller size to [`PROBE_LEN`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let raw = RawProbe {
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
        let body = strip_check(bytes, size_of::<RawProbe>())?;
        let (raw, padding) = RawProbe::ref_from_prefix(body).map_err(|_| DecodeError::Length)?;
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
