//! The headers of a packet of the RC service (IBTA vol. 1, 9.2-9.3), and of a CNP (A17.9.3).

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::aeth::{Aeth, Syndrome};
use super::icrc::ICRC_LEN;
use super::opcode::RcOpcode;
use crate::bth::Bth;
use crate::{AtomicOperands, DecodeError, QpId};

/// Reserved bytes behind the BTH of a CNP. Zero when sent, ignored when received.
const CNP_RESERVED: usize = 16;

/// Length of the longest headers in bytes: those of an atomic.
pub const MAX_RC_HEADER_LEN: usize = size_of::<Bth>() + size_of::<RawAtomic>();

/// The headers of a packet. Fields that its opcode does not have are zero or `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RcHeader {
    /// The kind of packet.
    pub opcode: RcOpcode,
    /// Whether the message causes a solicited event at the receiver.
    pub solicited: bool,
    /// The receiving queue pair.
    pub qp: QpId,
    /// Packet sequence number (24 bits).
    pub psn: u32,
    /// Whether the sender requests an acknowledgement.
    pub ack_request: bool,
    /// RETH and AtomicETH: the address of the first byte.
    pub address: u64,
    /// RETH and AtomicETH: the key of the memory. IETH: the key to invalidate.
    pub rkey: u32,
    /// RETH: the length of the whole message in bytes.
    pub dma_len: u32,
    /// ImmDt: immediate data.
    pub imm: u32,
    /// AETH: the acknowledgement.
    pub aeth: Option<Aeth>,
    /// AtomicETH: the operands.
    pub operands: Option<AtomicOperands>,
    /// AtomicAckETH: the value before the operation.
    pub original: u64,
}

/// A packet of the RC service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RcPacket<'a> {
    /// The headers.
    pub header: RcHeader,
    /// The payload without its padding.
    pub payload: &'a [u8],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReth {
    address: U64,
    rkey: U32,
    len: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAtomic {
    address: U64,
    rkey: U32,
    swap_or_add: U64,
    compare: U64,
}

impl RcHeader {
    /// A header with these fields, in which all others are zero.
    pub const fn new(opcode: RcOpcode, qp: QpId, psn: u32) -> Self {
        RcHeader {
            opcode,
            solicited: false,
            qp,
            psn: psn & 0xFF_FFFF,
            ack_request: false,
            address: 0,
            rkey: 0,
            dma_len: 0,
            imm: 0,
            aeth: None,
            operands: None,
            original: 0,
        }
    }

    /// Returns the length of all headers in bytes.
    pub const fn encoded_len(&self) -> usize {
        let opcode = self.opcode;
        let mut len = size_of::<Bth>();
        if opcode.has_reth() {
            len += size_of::<RawReth>();
        }
        if matches!(opcode, RcOpcode::CompareSwap | RcOpcode::FetchAdd) {
            len += size_of::<RawAtomic>();
        }
        if opcode.has_aeth() {
            len += 4;
        }
        if matches!(opcode, RcOpcode::AtomicAcknowledge) {
            len += 8;
        }
        if opcode.has_imm() || opcode.invalidates() {
            len += 4;
        }
        if matches!(opcode, RcOpcode::CongestionNotification) {
            len += CNP_RESERVED;
        }
        len
    }

    /// Appends the headers of a packet with a payload of `payload_len` bytes. The payload, its
    /// padding ([`RcHeader::padding`]) and the ICRC follow.
    pub fn encode(&self, payload_len: usize, out: &mut Vec<u8>) {
        let is_cnp = self.opcode == RcOpcode::CongestionNotification;
        let blank = if is_cnp { Bth::cnp } else { Bth::rc };
        let bth = blank(self.opcode as u8, self.qp, self.psn)
            .solicited(self.solicited)
            .ack_request(self.ack_request)
            .padded(Self::padding(payload_len) as u8);
        out.extend_from_slice(bth.as_bytes());
        if self.opcode.has_reth() {
            let (address, rkey, len) = (self.address.into(), self.rkey.into(), self.dma_len.into());
            out.extend_from_slice(RawReth { address, rkey, len }.as_bytes());
        }
        if matches!(self.opcode, RcOpcode::CompareSwap | RcOpcode::FetchAdd) {
            let AtomicOperands { swap_or_add, compare } = self.operands.unwrap_or_default();
            let raw = RawAtomic {
                address: self.address.into(),
                rkey: self.rkey.into(),
                swap_or_add: swap_or_add.into(),
                compare: compare.into(),
            };
            out.extend_from_slice(raw.as_bytes());
        }
        if self.opcode.has_aeth() {
            let Aeth { syndrome, msn } =
                self.aeth.unwrap_or(Aeth { syndrome: Syndrome::UNLIMITED, msn: 0 });
            let word = u32::from(syndrome.to_byte()) << 24 | msn & 0xFF_FFFF;
            out.extend_from_slice(&word.to_be_bytes());
        }
        if self.opcode == RcOpcode::AtomicAcknowledge {
            out.extend_from_slice(&self.original.to_be_bytes());
        }
        if self.opcode.has_imm() {
            out.extend_from_slice(&self.imm.to_be_bytes());
        }
        if self.opcode.invalidates() {
            out.extend_from_slice(&self.rkey.to_be_bytes());
        }
        if is_cnp {
            out.extend_from_slice(&[0; CNP_RESERVED]);
        }
    }

    /// Returns the bytes that pad a payload of this length to a multiple of 4.
    pub const fn padding(payload_len: usize) -> usize {
        payload_len.wrapping_neg() % 4
    }
}

impl<'a> RcPacket<'a> {
    /// Decodes a datagram. The ICRC is left to the caller, who knows the addresses that it covers.
    ///
    /// # Errors
    /// The packet belongs to another service, or its length contradicts its opcode.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let need = size_of::<Bth>() + ICRC_LEN;
        let short = |need| DecodeError::Short { have: bytes.len(), need };
        let (bth, rest) = Bth::ref_from_prefix(bytes).map_err(|_| short(need))?;
        let opcode = RcOpcode::from_byte(bth.opcode).ok_or(DecodeError::Opcode(bth.opcode))?;
        let mut header = RcHeader {
            solicited: bth.is_solicited(),
            ack_request: bth.wants_ack(),
            ..RcHeader::new(opcode, bth.qp_id(), bth.wire_psn())
        };
        if bth.rc_version() != 0 {
            return Err(DecodeError::Field("transport version"));
        }
        let need = header.encoded_len() + ICRC_LEN;
        let body = rest.len().checked_sub(ICRC_LEN).and_then(|len| rest.get(..len));
        let body = body.filter(|_| bytes.len() >= need).ok_or(short(need))?;
        let rest = header.take_extensions(body).ok_or(short(need))?;
        let payload = rest.len().checked_sub(bth.pad_count()).and_then(|len| rest.get(..len));
        let payload = payload.ok_or(DecodeError::Length)?;
        if !rest.len().is_multiple_of(4) || !(payload.is_empty() || opcode.has_payload()) {
            return Err(DecodeError::Length);
        }
        Ok(RcPacket { header, payload })
    }
}

impl RcHeader {
    /// Reads the extended headers. Returns the bytes behind them. `None`: the packet is too short.
    fn take_extensions<'a>(&mut self, mut rest: &'a [u8]) -> Option<&'a [u8]> {
        if self.opcode.has_reth() {
            let raw;
            (raw, rest) = RawReth::ref_from_prefix(rest).ok()?;
            (self.address, self.rkey) = (raw.address.get(), raw.rkey.get());
            self.dma_len = raw.len.get();
        }
        if matches!(self.opcode, RcOpcode::CompareSwap | RcOpcode::FetchAdd) {
            let raw;
            (raw, rest) = RawAtomic::ref_from_prefix(rest).ok()?;
            (self.address, self.rkey) = (raw.address.get(), raw.rkey.get());
            let (swap_or_add, compare) = (raw.swap_or_add.get(), raw.compare.get());
            self.operands = Some(AtomicOperands { swap_or_add, compare });
        }
        if self.opcode.has_aeth() {
            let (&[syndrome, a, b, c], behind) = rest.split_first_chunk()?;
            let msn = u32::from_be_bytes([0, a, b, c]);
            self.aeth = Some(Aeth { syndrome: Syndrome::from_byte(syndrome), msn });
            rest = behind;
        }
        if self.opcode == RcOpcode::AtomicAcknowledge {
            let (value, behind) = rest.split_first_chunk()?;
            (self.original, rest) = (u64::from_be_bytes(*value), behind);
        }
        if self.opcode.has_imm() || self.opcode.invalidates() {
            let (value, behind) = rest.split_first_chunk()?;
            let value = u32::from_be_bytes(*value);
            *(if self.opcode.has_imm() { &mut self.imm } else { &mut self.rkey }) = value;
            rest = behind;
        }
        if self.opcode == RcOpcode::CongestionNotification {
            rest = rest.get(CNP_RESERVED..)?;
        }
        Some(rest)
    }
}
