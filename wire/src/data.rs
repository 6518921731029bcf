//! The header of the packets that consume a PSN.

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::{Bth, opcode_of};
use crate::check::{header_crc, payload_crc};
use crate::{DecodeError, Opcode, QpId, Token, VERSION};

/// Length of a data header without operands, in bytes.
pub const DATA_HEADER_LEN: usize = 60;
/// Length of the longest data header in bytes: the header of an atomic with its operands.
pub const MAX_DATA_HEADER_LEN: usize = DATA_HEADER_LEN + 16;

/// The header of one segment. Every segment carries its own placement, so the receiver can place
/// segments in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHeader {
    /// The kind of message.
    pub opcode: Opcode,
    /// The receiving queue pair.
    pub qp: QpId,
    /// The token of the receiving queue pair.
    pub token: Token,
    /// Low 24 bits of the packet sequence number.
    pub psn: u32,
    /// The sender requests an immediate acknowledgement.
    pub ack_request: bool,
    /// The message creates a solicited completion at the receiver.
    pub solicited: bool,
    /// The segment is the last of its message.
    pub last: bool,
    /// The PSN was sent before.
    pub retransmission: bool,
    /// Low 32 bits of a message count:
    ///
    /// - READ and atomic requests: the position of the request in the requester's send queue.
    /// - READ and atomic responses: the number of the request.
    /// - SEND and WRITE_WITH_IMM: the index of the receive work request that the message consumes.
    /// - WRITE: the position in the send queue.
    pub number: u32,
    /// WRITE, READ and atomics: the address of the *message* in the responder's memory. Atomic
    /// response: the value before the operation. Otherwise 0.
    pub address: u64,
    /// The remote key of a WRITE, READ or atomic.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub message_len: u32,
    /// Offset of the payload in the message, in bytes.
    pub offset: u32,
    /// Length of the payload of this packet in bytes.
    pub len: u16,
    /// Immediate data, or 0.
    pub imm: u32,
    /// The sender's timestamp, which the acknowledgement echoes. Stamps never decrease within a
    /// stream.
    pub stamp: u32,
    /// CRC-32 of the payload, or 0 if both sides agreed to omit it.
    pub payload_crc: u32,
    /// Operands of an atomic, present if [`Opcode::has_operands`] holds.
    pub operands: Option<AtomicOperands>,
}

/// The operands of an atomic.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AtomicOperands {
    /// The value to swap in or to add.
    pub swap_or_add: u64,
    /// The value to compare with, or 0 for fetch-and-add.
    pub compare: u64,
}

#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawData {
    pub(crate) bth: Bth,
    version: u8,
    pub(crate) flags: u8,
    pub(crate) len: U16,
    token: U32,
    number: U32,
    address: U64,
    rkey: U32,
    message_len: U32,
    pub(crate) offset: U32,
    imm: U32,
    pub(crate) stamp: U32,
    pub(crate) payload_crc: U32,
    pub(crate) header_crc: U32,
}

const _: () = assert!(size_of::<RawData>() == DATA_HEADER_LEN);

const LAST: u8 = 1;
const RETRANSMISSION: u8 = 2;

fn flag(on: bool, bit: u8) -> u8 {
    if on { bit } else { 0 }
}

impl DataHeader {
    /// Returns the encoded length: 60 bytes, or 76 with operands.
    pub fn encoded_len(&self) -> usize {
        if self.operands.is_some() { MAX_DATA_HEADER_LEN } else { DATA_HEADER_LEN }
    }

    /// Appends the header, including its CRC.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (raw, operands) = self.raw();
        out.extend_from_slice(raw.as_bytes());
        out.extend_from_slice(operands.as_ref().map_or(&[], |operands| &operands[..]));
    }

    /// The byte of the flags that are Braid's own.
    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        flag(self.last, LAST) | flag(self.retransmission, RETRANSMISSION)
    }

    #[inline]
    pub(crate) fn raw(&self) -> (RawData, Option<[u8; 16]>) {
        let mut raw = RawData {
            bth: Bth::new(self.opcode, self.qp, self.psn)
                .solicited(self.solicited)
                .ack_request(self.ack_request),
            version: VERSION,
            flags: self.flags(),
            len: U16::new(self.len),
            token: U32::new(self.token.0),
            number: U32::new(self.number),
            address: U64::new(self.address),
            rkey: U32::new(self.rkey),
            message_len: U32::new(self.message_len),
            offset: U32::new(self.offset),
            imm: U32::new(self.imm),
            stamp: U32::new(self.stamp),
            payload_crc: U32::new(self.payload_crc),
            header_crc: U32::ZERO,
        };
        let operands = self.operands.map(AtomicOperands::encode);
        let rest = operands.as_ref().map_or(&[][..], |o| &o[..]);
        raw.header_crc = U32::new(raw.check(rest));
        (raw, operands)
    }

    /// Decodes a data packet into its header and its payload. Bytes after the payload are padding.
    ///
    /// Checks the CRC of the header and the consistency of the lengths.
    /// [`DataHeader::check_payload`] checks the payload.
    pub(crate) fn decode(opcode: Opcode, bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let short = |need| DecodeError::Short { have: bytes.len(), need };
        let (raw, rest) = RawData::ref_from_prefix(bytes).map_err(|_| short(DATA_HEADER_LEN))?;
        let ext_len = if opcode.has_operands() { MAX_DATA_HEADER_LEN - DATA_HEADER_LEN } else { 0 };
        let (ext, rest) =
            rest.split_at_checked(ext_len).ok_or_else(|| short(MAX_DATA_HEADER_LEN))?;
        if !raw.is_intact(ext) {
            return Err(DecodeError::HeaderCheck);
        }
        let header = raw.parse(opcode, AtomicOperands::decode(ext));
        let payload = rest.get(..header.len.into()).ok_or(DecodeError::Length)?;
        header.validate()?;
        Ok((header, payload))
    }

    /// Decodes the header of a WRITE segment whose payload the NIC places. `bytes` holds the header
    /// only.
    ///
    /// # Errors
    /// If the header is damaged or does not belong to a WRITE.
    pub fn decode_placed(bytes: &[u8]) -> Result<Self, DecodeError> {
        let opcode = opcode_of(bytes)?;
        if !matches!(opcode, Opcode::Write | Opcode::WriteImm) {
            return Err(DecodeError::Opcode(opcode as u8));
        }
        let raw = RawData::ref_from_bytes(bytes).map_err(|_| DecodeError::Length)?;
        if !raw.is_intact(&[]) {
            return Err(DecodeError::HeaderCheck);
        }
        let header = raw.parse(opcode, None);
        header.validate()?;
        Ok(header)
    }

    /// Decodes the header of a segment whose payload is still to come. `bytes` holds the header
    /// only.
    ///
    /// # Errors
    /// If the header is damaged, or does not belong to a segment with a payload.
    pub fn decode_ahead(bytes: &[u8]) -> Result<Self, DecodeError> {
        let opcode = opcode_of(bytes)?;
        if !opcode.has_payload() {
            return Err(DecodeError::Opcode(opcode as u8));
        }
        let raw = RawData::ref_from_bytes(bytes).map_err(|_| DecodeError::Length)?;
        if !raw.is_intact(&[]) {
            return Err(DecodeError::HeaderCheck);
        }
        let header = raw.parse(opcode, None);
        header.validate()?;
        Ok(header)
    }

    fn validate(&self) -> Result<(), DecodeError> {
        let end = u64::from(self.offset) + u64::from(self.len);
        let fits = end <= u64::from(self.message_len);
        if self.opcode.has_payload() {
            let reaches_end = end == u64::from(self.message_len);
            if !fits || self.last != reaches_end || (self.len == 0 && self.message_len != 0) {
                return Err(DecodeError::Length);
            }
        } else if self.len != 0 || self.offset != 0 || !self.last {
            return Err(DecodeError::Length);
        }
        Ok(())
    }

    /// Checks the CRC of the payload.
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), DecodeError> {
        if payload_crc([payload]) == self.payload_crc {
            Ok(())
        } else {
            Err(DecodeError::PayloadCheck)
        }
    }
}

impl RawData {
    /// Returns the header at the start of a data packet without operands. `None`: the packet is too
    /// short.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Option<&Self> {
        RawData::ref_from_prefix(bytes).ok().map(|(raw, _)| raw)
    }

    /// Whether a packet with this header may continue a run that begins with `first`: the fields
    /// that all segments of a run share are equal.
    #[inline]
    pub(crate) fn continues(&self, first: &RawData) -> bool {
        let bth = |raw: &RawData| (raw.bth.opcode, raw.bth.flags, raw.bth.pkey, raw.bth.qp);
        let message = |raw: &RawData| (raw.number, raw.address, raw.rkey, raw.message_len, raw.imm);
        bth(self) == bth(first)
            && (self.version, self.token) == (first.version, first.token)
            && message(self) == message(first)
            && self.flags & !LAST == first.flags & !LAST
    }

    /// The CRC of the header and the encoded operands behind it.
    #[inline]
    fn check(&self, operands: &[u8]) -> u32 {
        header_crc(&self.as_bytes()[..DATA_HEADER_LEN - 4], operands)
    }

    /// Whether the header, with the encoded operands behind it, has the CRC that it states.
    #[inline]
    pub(crate) fn is_intact(&self, operands: &[u8]) -> bool {
        self.check(operands) == self.header_crc.get()
    }

    pub(crate) fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }

    fn parse(&self, opcode: Opcode, operands: Option<AtomicOperands>) -> DataHeader {
        DataHeader {
            opcode,
            qp: self.bth.qp_id(),
            token: Token(self.token.get()),
            psn: self.bth.wire_psn(),
            ack_request: self.bth.wants_ack(),
            solicited: self.bth.is_solicited(),
            last: self.is_last(),
            retransmission: self.flags & RETRANSMISSION != 0,
            number: self.number.get(),
            address: self.address.get(),
            rkey: self.rkey.get(),
            message_len: self.message_len.get(),
            offset: self.offset.get(),
            len: self.len.get(),
            imm: self.imm.get(),
            stamp: self.stamp.get(),
            payload_crc: self.payload_crc.get(),
            operands,
        }
    }
}

impl AtomicOperands {
    fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.swap_or_add.to_be_bytes());
        bytes[8..].copy_from_slice(&self.compare.to_be_bytes());
        bytes
    }

    fn decode(ext: &[u8]) -> Option<Self> {
        let (swap_or_add, compare) = ext.split_first_chunk::<8>()?;
        let compare: [u8; 8] = compare.try_into().ok()?;
        Some(AtomicOperands {
            swap_or_add: u64::from_be_bytes(*swap_or_add),
            compare: u64::from_be_bytes(compare),
        })
    }
}
