//! Acknowledgements: what has arrived, and what was refused.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use smallvec::SmallVec;

use crate::bth::Bth;
use crate::check::{CHECK_LEN, header_crc, strip_check};
use crate::marks::{MAX_MARKED_PATHS, Marks};
use crate::{DecodeError, Opcode, PathId, QpId, Token, VERSION};

/// 64-bit words of the longest selective bitmap: 4096 packets beyond the cumulative PSN.
pub const MAX_BITMAP_WORDS: usize = 64;
/// Bytes of the longest ack.
pub const MAX_ACK_LEN: usize = FIXED_LEN + 8 * MAX_BITMAP_WORDS + 4 * MAX_MARKED_PATHS + CHECK_LEN;

const FIXED_LEN: usize = size_of::<Raw>();

/// Why the responder refuses a packet. The codes are those of IBTA's AETH syndromes (vol. 1, 9.7.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NakCode {
    /// No receive work request was posted.
    ReceiverNotReady = 0x20,
    /// A message that the responder cannot take: longer than the receive buffer, or malformed.
    InvalidRequest = 0x61,
    /// Wrong rkey, out of bounds, missing permission, foreign protection domain, misaligned atomic.
    RemoteAccess = 0x62,
    /// The responder failed on its own account.
    RemoteOperational = 0x63,
}

impl NakCode {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        use NakCode::*;
        [ReceiverNotReady, InvalidRequest, RemoteAccess, RemoteOperational]
            .into_iter()
            .find(|code| *code as u8 == byte)
    }
}

/// A queue pair sends two independent streams, each with PSNs of its own, so that a request that
/// waits for a receive buffer never holds up the data that the other side has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stream {
    /// SEND, WRITE, READ requests, atomics.
    Requests = 0,
    /// Data of READs, results of atomics.
    Responses = 1,
}

/// One acknowledgement of one stream of one queue pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The queue pair whose packets are acknowledged (the receiver of this ack).
    pub qp: QpId,
    /// Its token.
    pub token: Token,
    /// Which of its streams.
    pub stream: Stream,
    /// Every PSN below this one (24 bits) has arrived: the ePSN.
    pub cumulative: u32,
    /// The highest PSN (24 bits) that has arrived, or `cumulative - 1`.
    pub highest: u32,
    /// What was refused, and the PSN of it.
    pub nak: Option<(NakCode, u32)>,
    /// With [`NakCode::ReceiverNotReady`]: how long to wait, in microseconds.
    pub rnr_delay_us: u32,
    /// The path of the packet that this ack echoes.
    pub path: PathId,
    /// The stamp of the packet that this ack echoes.
    pub stamp: u32,
    /// Time between that packet's arrival and this ack, in nanoseconds.
    pub delay_ns: u32,
    /// Data packets that arrived so far, duplicates included, modulo 2^32.
    pub received: u32,
    /// Duplicates among them, modulo 2^32.
    pub duplicates: u32,
    /// What has arrived beyond `cumulative`.
    pub bitmap: Bitmap,
    /// Of the paths that congestion marks have come by since the last ack. What does not fit the next one tells.
    pub marks: Marks,
}

/// Which packets have arrived beyond the cumulative PSN: bit `i` of the whole is PSN `cumulative + i`.
/// Bit 0 is never set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bitmap {
    words: SmallVec<[u64; 4]>,
}

impl Bitmap {
    /// Takes the words, least significant bit first, and drops what follows the last one bit.
    /// Words beyond [`MAX_BITMAP_WORDS`] are dropped: they will be reported later.
    pub fn new(mut words: SmallVec<[u64; 4]>) -> Self {
        words.truncate(MAX_BITMAP_WORDS);
        while words.last() == Some(&0) {
            words.pop();
        }
        Bitmap { words }
    }

    /// The offsets of the ones, ascending.
    pub fn ones(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let base = 64 * index as u64;
            std::iter::successors((word != 0).then_some(word), |w| {
                let next = w & (w - 1);
                (next != 0).then_some(next)
            })
            .map(move |w| base + u64::from(w.trailing_zeros()))
        })
    }

    /// Whether nothing has arrived out of order.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words, least significant bit first; the last is not zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    bth: Bth,
    version: u8,
    nak_code: u8,
    bitmap_words: u8,
    stream: u8,
    token: U32,
    highest: U32,
    nak_psn: U32,
    rnr_delay_us: U32,
    path: U16,
    marked_paths: U16,
    stamp: U32,
    delay_ns: U32,
    received: U32,
    duplicates: U32,
}

impl Ack {
    /// Appends the ack, check included.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let raw = Raw {
            bth: Bth::new(Opcode::Ack, self.qp, self.cumulative),
            version: VERSION,
            nak_code: self.nak.map_or(0, |(code, _)| code as u8),
            bitmap_words: self.bitmap.words.len() as u8,
            stream: self.stream as u8,
            token: U32::new(self.token.0),
            highest: U32::new(self.highest),
            nak_psn: U32::new(self.nak.map_or(0, |(_, psn)| psn)),
            rnr_delay_us: U32::new(self.rnr_delay_us),
            path: U16::new(self.path.to_bits()),
            marked_paths: U16::new(self.marks.len() as u16),
            stamp: U32::new(self.stamp),
            delay_ns: U32::new(self.delay_ns),
            received: U32::new(self.received),
            duplicates: U32::new(self.duplicates),
        };
        out.extend_from_slice(raw.as_bytes());
        for word in &self.bitmap.words {
            out.extend_from_slice(&word.to_be_bytes());
        }
        self.marks.encode(out);
        let crc = header_crc(&out[start..], &[]);
        out.extend_from_slice(&crc.to_be_bytes());
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let body = strip_check(bytes, size_of::<Raw>())?;
        let (raw, rest) = Raw::ref_from_prefix(body).map_err(|_| DecodeError::Length)?;
        let words = usize::from(raw.bitmap_words);
        let marked = usize::from(raw.marked_paths.get());
        if words > MAX_BITMAP_WORDS
            || marked > MAX_MARKED_PATHS
            || rest.len() != 8 * words + 4 * marked
        {
            return Err(DecodeError::Length);
        }
        let (bitmap, marks) = rest.split_at(8 * words);
        let marks = if marked == 0 { Marks::default() } else { Marks::decode(marks)? };
        let (chunks, _) = bitmap.as_chunks::<8>();
        let words: SmallVec<[u64; 4]> = chunks.iter().map(|c| u64::from_be_bytes(*c)).collect();
        if words.last() == Some(&0) || words.first().is_some_and(|w| w & 1 != 0) {
            return Err(DecodeError::Field("bitmap"));
        }
        raw.parse(Bitmap { words }, marks)
    }
}

impl Raw {
    fn parse(&self, bitmap: Bitmap, marks: Marks) -> Result<Ack, DecodeError> {
        let nak = match self.nak_code {
            0 => None,
            code => {
                let code = NakCode::from_byte(code).ok_or(DecodeError::Field("NAK code"))?;
                Some((code, self.nak_psn.get() & 0xFF_FFFF))
            }
        };
        let stream = match self.stream {
            0 => Stream::Requests,
            1 => Stream::Responses,
            _ => return Err(DecodeError::Field("stream")),
        };
        Ok(Ack {
            qp: self.bth.qp_id(),
            token: Token(self.token.get()),
            stream,
            cumulative: self.bth.wire_psn(),
            highest: self.highest.get() & 0xFF_FFFF,
            nak,
            rnr_delay_us: self.rnr_delay_us.get(),
            path: PathId::from_bits(self.path.get()),
            stamp: self.stamp.get(),
            delay_ns: self.delay_ns.get(),
            received: self.received.get(),
            duplicates: self.duplicates.get(),
            bitmap,
            marks,
        })
    }
}
