//! Acknowledgements and NAKs.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use smallvec::SmallVec;

use crate::bth::Bth;
use crate::check::{CHECK_LEN, header_crc, strip_check};
use crate::marks::{MAX_MARKED_PATHS, Marks};
use crate::{DecodeError, Opcode, PathId, QpId, Token, VERSION};

/// Length of the longest selective bitmap in 64-bit words: 4096 packets beyond the cumulative PSN.
pub const MAX_BITMAP_WORDS: usize = 64;
/// Length of the longest acknowledgement in bytes.
pub const MAX_ACK_LEN: usize = FIXED_LEN + 8 * MAX_BITMAP_WORDS + 4 * MAX_MARKED_PATHS + CHECK_LEN;

const FIXED_LEN: usize = size_of::<RawAck>();

/// The reason why the responder refuses a packet. The codes are IBTA's AETH syndromes (vol. 1,
/// 9.7.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NakCode {
    /// No receive work request was posted.
    ReceiverNotReady = 0x20,
    /// The message is malformed or longer than the receive buffer.
    InvalidRequest = 0x61,
    /// The rkey, bounds, permission, protection domain or alignment is invalid.
    RemoteAccess = 0x62,
    /// The responder failed for a reason of its own.
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

/// One of the two independent streams of a queue pair. Each has its own PSNs, so that a request
/// that waits for a receive buffer never blocks responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stream {
    /// SEND, WRITE, READ requests and atomic requests.
    Requests = 0,
    /// READ and atomic responses.
    Responses = 1,
}

/// One acknowledgement of one stream of one queue pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The queue pair whose packets are acknowledged: the receiver of this acknowledgement.
    pub qp: QpId,
    /// The token of that queue pair.
    pub token: Token,
    /// The acknowledged stream.
    pub stream: Stream,
    /// The expected PSN (24 bits): every PSN below it has arrived.
    pub cumulative: u32,
    /// The highest PSN (24 bits) that has arrived, or `cumulative - 1`.
    pub highest: u32,
    /// The NAK code and PSN (24 bits) of the refused packet.
    pub nak: Option<(NakCode, u32)>,
    /// RNR delay in microseconds, for [`NakCode::ReceiverNotReady`].
    pub rnr_delay_us: u32,
    /// The path of the packet that this ack echoes.
    pub path: PathId,
    /// The stamp of the packet that this ack echoes.
    pub stamp: u32,
    /// Time between the arrival of that packet and this acknowledgement, in nanoseconds.
    pub delay_ns: u32,
    /// Number of data packets that have arrived, including duplicates, modulo 2^32.
    pub received: u32,
    /// Number of duplicates among them, modulo 2^32.
    pub duplicates: u32,
    /// The packets that have arrived beyond `cumulative`.
    pub bitmap: Bitmap,
    /// The paths on which congestion marks arrived since the last acknowledgement. The next
    /// acknowledgement reports those that do not fit.
    pub marks: Marks,
}

/// The packets that have arrived beyond the cumulative PSN. Bit `i` stands for PSN `cumulative +
/// i`, and bit 0 is never set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bitmap {
    words: SmallVec<[u64; 4]>,
}

impl Bitmap {
    /// Creates a bitmap from words with the least significant bit first. Drops trailing zero words.
    ///
    /// Also drops words beyond [`MAX_BITMAP_WORDS`]. A later acknowledgement reports them.
    pub fn new(mut words: SmallVec<[u64; 4]>) -> Self {
        words.truncate(MAX_BITMAP_WORDS);
        while words.last() == Some(&0) {
            words.pop();
        }
        Bitmap { words }
    }

    /// Returns the positions of the set bits in ascending order.
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

    /// Returns whether no packet has arrived out of order.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the words with the least significant bit first. The last word is not zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAck {
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
    /// Appends the acknowledgement, including its CRC.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let raw = RawAck {
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
        let body = strip_check(bytes, size_of::<RawAck>())?;
        let (raw, rest) = RawAck::ref_from_prefix(body).map_err(|_| DecodeError::Length)?;
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

impl RawAck {
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
