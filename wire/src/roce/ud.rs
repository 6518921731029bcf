//! Packets of the unreliable datagram (UD) service: BTH, datagram extended transport header (DETH;
//! IBTA vol. 1, 9.3.3) and payload. A message is one packet.

use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::RcHeader;
use super::icrc::ICRC_LEN;
use crate::bth::Bth;
use crate::{DecodeError, QpId};

/// The opcode of a SEND (IBTA vol. 1, table 38).
const SEND_ONLY: u8 = 0x64;
/// The opcode of a SEND with immediate data.
const SEND_ONLY_IMM: u8 = 0x65;

/// The headers of a packet of the UD service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdHeader {
    /// Whether the message causes a solicited event at the receiver.
    pub solicited: bool,
    /// The receiving queue pair.
    pub qp: QpId,
    /// Packet sequence number (24 bits). Receivers do not check it.
    pub psn: u32,
    /// The key that the receiving queue pair has to have.
    pub q_key: u32,
    /// The sending queue pair.
    pub source: QpId,
    /// Immediate data.
    pub imm: Option<u32>,
}

/// A packet of the UD service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdPacket<'a> {
    /// The headers.
    pub header: UdHeader,
    /// The payload without its padding.
    pub payload: &'a [u8],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDeth {
    q_key: U32,
    /// Reserved byte and source queue pair.
    source: U32,
}

impl UdHeader {
    /// The queue pair of general services (GSI), to which management datagrams go.
    pub const GSI: QpId = QpId::new(1);
    /// The Q_Key of the GSI (IBTA vol. 1, 3.5.3).
    pub const GSI_Q_KEY: u32 = 0x8001_0000;

    /// A packet from one GSI to another.
    pub const fn management(psn: u32) -> Self {
        UdHeader {
            solicited: false,
            qp: Self::GSI,
            psn: psn & 0xFF_FFFF,
            q_key: Self::GSI_Q_KEY,
            source: Self::GSI,
            imm: None,
        }
    }

    /// Whether a datagram that begins with this byte may be a packet of the UD service.
    pub const fn has_opcode(byte: u8) -> bool {
        matches!(byte, SEND_ONLY | SEND_ONLY_IMM)
    }

    /// Returns the length of all headers in bytes.
    pub const fn encoded_len(&self) -> usize {
        let imm_len = if self.imm.is_some() { 4 } else { 0 };
        size_of::<Bth>() + size_of::<RawDeth>() + imm_len
    }

    /// Appends a packet without its ICRC.
    pub fn encode(&self, payload: &[u8], out: &mut Vec<u8>) {
        let opcode = if self.imm.is_some() { SEND_ONLY_IMM } else { SEND_ONLY };
        let padding = RcHeader::padding(payload.len());
        let bth =
            Bth::rc(opcode, self.qp, self.psn).solicited(self.solicited).padded(padding as u8);
        out.extend_from_slice(bth.as_bytes());
        let deth = RawDeth { q_key: self.q_key.into(), source: self.source.get().into() };
        out.extend_from_slice(deth.as_bytes());
        out.extend(self.imm.into_iter().flat_map(u32::to_be_bytes));
        out.extend_from_slice(payload);
        out.extend_from_slice(&[0; 3][..padding]);
    }
}

impl<'a> UdPacket<'a> {
    /// Decodes a datagram. The ICRC is left to the caller, who knows the addresses that it covers.
    ///
    /// # Errors
    /// The packet belongs to another service, or its length contradicts its opcode.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let short = |need| DecodeError::Short { have: bytes.len(), need };
        let least = size_of::<Bth>() + size_of::<RawDeth>() + ICRC_LEN;
        let body = bytes.len().checked_sub(ICRC_LEN).and_then(|len| bytes.get(..len));
        let body = body.ok_or(short(least))?;
        let (bth, rest) = Bth::ref_from_prefix(body).map_err(|_| short(least))?;
        if !UdHeader::has_opcode(bth.opcode) {
            return Err(DecodeError::Opcode(bth.opcode));
        }
        if bth.rc_version() != 0 {
            return Err(DecodeError::Field("transport version"));
        }
        let (deth, mut rest) = RawDeth::ref_from_prefix(rest).map_err(|_| short(least))?;
        let mut imm = None;
        if bth.opcode == SEND_ONLY_IMM {
            let (value, behind) = rest.split_first_chunk().ok_or(short(least + 4))?;
            (imm, rest) = (Some(u32::from_be_bytes(*value)), behind);
        }
        let payload = rest.len().checked_sub(bth.pad_count()).and_then(|len| rest.get(..len));
        let payload = payload.filter(|_| rest.len().is_multiple_of(4));
        let header = UdHeader {
            solicited: bth.is_solicited(),
            qp: bth.qp_id(),
            psn: bth.wire_psn(),
            q_key: deth.q_key.get(),
            source: QpId::new(deth.source.get()),
            imm,
        };
        Ok(UdPacket { header, payload: payload.ok_or(DecodeError::Length)? })
    }
}
