//! Credit: a sender tells its receiver how much it wants to send, and the receiver grants it.
//!
//! All numbers are totals since the connection began, headers of data packets included. So each
//! packet makes earlier ones obsolete, and a lost, late or repeated one does no harm.

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::check::{CHECK_LEN, header_crc, strip_check};
use crate::{DecodeError, MAX_RAILS, Opcode, QpId, RailId, Stream, Token, VERSION};

/// Length of the longest credit packet, a request, in bytes.
pub const CREDIT_LEN: usize = size_of::<RawCredit>() + size_of::<RawNeed>() + CHECK_LEN;

/// A request for credit, or a grant, of one stream on one rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// The receiving queue pair.
    pub qp: QpId,
    /// The token of the receiving queue pair.
    pub token: Token,
    /// The stream whose data packets the credit is for.
    pub stream: Stream,
    /// The rail of these packets.
    pub rail: RailId,
    /// Bytes that the receiver has granted so far. A request states those that the sender knows of.
    pub granted: u64,
    /// The need of the sender, if this is a request.
    pub need: Option<CreditNeed>,
}

/// The need of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CreditNeed {
    /// Rate of the receiver's link in bits per second, as the sender knows it.
    pub bits_per_second: u64,
    /// Bytes that the sender wants to have sent: those sent so far and its backlog, or a part of
    /// it.
    pub target: u64,
    /// Bytes that it sends without credit.
    pub unsolicited: u64,
    /// Bytes that it has sent and takes for lost.
    pub lost: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawCredit {
    bth: Bth,
    version: u8,
    stream: u8,
    rail: u8,
    reserved: u8,
    token: U32,
    granted: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawNeed {
    bits_per_second: U64,
    target: U64,
    unsolicited: U64,
    lost: U64,
}

impl Credit {
    /// Appends the packet, including its CRC.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let is_request = self.need.is_some();
        let opcode = if is_request { Opcode::CreditRequest } else { Opcode::CreditGrant };
        let raw = RawCredit {
            bth: Bth::new(opcode, self.qp, 0),
            version: VERSION,
            stream: self.stream as u8,
            rail: self.rail.get() as u8,
            reserved: 0,
            token: U32::new(self.token.0),
            granted: U64::new(self.granted),
        };
        out.extend_from_slice(raw.as_bytes());
        if let Some(need) = &self.need {
            let raw = RawNeed {
                bits_per_second: U64::new(need.bits_per_second),
                target: U64::new(need.target),
                unsolicited: U64::new(need.unsolicited),
                lost: U64::new(need.lost),
            };
            out.extend_from_slice(raw.as_bytes());
        }
        let crc = header_crc(&out[start..], &[]);
        out.extend_from_slice(&crc.to_be_bytes());
    }

    pub(crate) fn decode(opcode: Opcode, bytes: &[u8]) -> Result<Self, DecodeError> {
        let body = strip_check(bytes, size_of::<RawCredit>())?;
        let (raw, rest) = RawCredit::ref_from_prefix(body).map_err(|_| DecodeError::Length)?;
        let need = match opcode {
            Opcode::CreditRequest => Some(RawNeed::parse(rest)?),
            _ if rest.is_empty() => None,
            _ => return Err(DecodeError::Length),
        };
        let stream = match raw.stream {
            0 => Stream::Requests,
            1 => Stream::Responses,
            _ => return Err(DecodeError::Field("stream")),
        };
        if usize::from(raw.rail) >= MAX_RAILS {
            return Err(DecodeError::Field("rail"));
        }
        Ok(Credit {
            qp: raw.bth.qp_id(),
            token: Token(raw.token.get()),
            stream,
            rail: RailId::new(raw.rail.into()),
            granted: raw.granted.get(),
            need,
        })
    }
}

impl RawNeed {
    fn parse(bytes: &[u8]) -> Result<CreditNeed, DecodeError> {
        let raw = RawNeed::ref_from_bytes(bytes).map_err(|_| DecodeError::Length)?;
        Ok(CreditNeed {
            bits_per_second: raw.bits_per_second.get(),
            target: raw.target.get(),
            unsolicited: raw.unsolicited.get(),
            lost: raw.lost.get(),
        })
    }
}
