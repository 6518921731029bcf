//! Connection set-up: HELLO, COOKIE, CONNECT, then ACCEPT or REJECT, all on the data port.
//!
//! The responder keeps no state before a CONNECT proves its cookie. Until then its replies are no
//! longer than the requests. HELLO and COOKIE are padded to the datagram size that the path must
//! carry.

use std::fmt;

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::check::{CHECK_LEN, header_crc, strip_check};
use crate::routing::MAX_ROUTING_LEN;
use crate::{Crc, DecodeError, Opcode, QpId, Routing, Token, VERSION};

/// Length of the largest datagram (UDP payload) that every path must carry in both directions.
///
/// The value is BASE_PLPMTU of RFC 8899 and the minimum of QUIC (RFC 9000, section 14). The longest
/// set-up packet and the longest acknowledgement fit.
pub const BASE_DATAGRAM: usize = 1200;
/// Length of the shortest HELLO with its padding, in bytes. No reply to a HELLO is longer.
pub const HELLO_LEN: usize = 64;
/// Maximum length of the private data that each side sends with its offer, in bytes.
pub const MAX_PRIVATE_DATA: usize = 512;
/// Length of the longest set-up packet in bytes.
pub const MAX_SETUP_LEN: usize = BASE_DATAGRAM;

const LONGEST_OFFER: usize =
    size_of::<RawConnect>() + MAX_PRIVATE_DATA + MAX_ROUTING_LEN + CHECK_LEN;
const _: () = assert!(LONGEST_OFFER <= BASE_DATAGRAM);

/// A step of connection set-up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setup {
    /// Requests a cookie.
    Hello(Hello),
    /// Returns the nonce with the cookie.
    Cookie {
        /// The nonce of the HELLO.
        nonce: u64,
        /// The cookie that the CONNECT must carry.
        cookie: u64,
        /// Identifies the static key of the responder, or 0 if it has none. See `docs/keys.md`.
        key_id: u64,
        /// Length of the datagram with its padding: the length of the HELLO.
        len: u16,
    },
    /// Offers a queue pair.
    Connect(Connect),
    /// Accepts the offer with an offer of the responder. The `cookie` is 0.
    Accept(Connect),
    /// Rejects the offer.
    Reject(Reject),
    /// An encrypted [`Setup::Connect`], whose offer only the owner of the key can read.
    SealedConnect(SealedOffer),
    /// An encrypted [`Setup::Accept`]. The `cookie` is 0.
    SealedAccept(SealedOffer),
}

/// The first packet of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// A random number of the initiator, which every reply repeats.
    pub nonce: u64,
    /// Length of the datagram with its padding: [`HELLO_LEN`] to [`BASE_DATAGRAM`] bytes.
    pub len: u16,
}

/// An offer with a cookie, which proves that the sender receives at its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connect {
    /// The nonce of the HELLO.
    pub nonce: u64,
    /// The cookie of the COOKIE reply.
    pub cookie: u64,
    /// The offered queue pair.
    pub offer: Offer,
    /// Up to [`MAX_PRIVATE_DATA`] bytes for the peer's application.
    pub private_data: Vec<u8>,
    /// Addresses at which the sender receives data besides the packet's source, in up to
    /// [`MAX_ROUTING_LEN`] bytes.
    pub routing: Routing,
}

/// An offer encrypted with a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealedOffer {
    /// The nonce of the HELLO.
    pub nonce: u64,
    /// The cookie of the COOKIE reply.
    pub cookie: u64,
    /// A handshake message with the offer as its payload. The packet has at most [`MAX_SETUP_LEN`]
    /// bytes.
    pub message: Vec<u8>,
}

/// The parameters of one side's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The queue pair number.
    pub qp: QpId,
    /// The token that packets to this queue pair must carry.
    pub token: Token,
    /// The first PSN (24 bits) that the queue pair sends.
    pub psn: u32,
    /// Identifies the engine's process, so that a peer detects a restart.
    pub instance: u64,
    /// Largest accepted payload of a segment, in bytes.
    pub mtu: u16,
    /// Size of the socket's receive buffer in bytes of wire data. All queue pairs of that socket
    /// share it.
    pub receive_buffer: u32,
    /// Number of packets beyond the expected PSN that the receiver tracks.
    pub window: u16,
    /// Number of concurrent READs and atomics that the responder serves.
    pub max_rd_atomic: u8,
    /// Whether this side requests payload CRCs. They are on if either side requests them.
    pub crc: Crc,
    /// Whether this side grants credit for what it receives, see [`crate::Credit`]. Earlier builds
    /// do not.
    pub grants_credit: bool,
}

/// The rejection of an offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject {
    /// The nonce of the rejected packet.
    pub nonce: u64,
    /// The reason.
    pub reason: RejectReason,
}

/// The reason why an offer was rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum RejectReason {
    /// No listener exists at the address.
    NotListening = 1,
    /// The backlog of the listener is full.
    Busy = 2,
    /// The application rejected the connection.
    Refused = 3,
    /// The responder supports another format version, which is the version of the REJECT.
    Version = 4,
    /// The cookie is wrong or too old. The initiator starts again.
    Cookie = 5,
    /// One side uses an RNIC and the other UDP, or their RNICs are incompatible.
    Datapath = 6,
    /// The initiator has a key, and the responder has none.
    NoKey = 7,
    /// The responder accepts keyed connections only.
    KeyRequired = 8,
    /// The two sides have different keys.
    WrongKey = 9,
    /// The two sides have no cipher in common.
    Cipher = 10,
    /// The responder does not allow the initiator's static key (any longer), or the initiator does
    /// not own that key.
    NotAllowed = 11,
    /// The initiator does not allow the responder's static key (any longer).
    UnknownListener = 12,
    /// One side has a pre-shared key, the other a static key.
    KeyForm = 13,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RejectReason::NotListening => "no server listens there; start the server first",
            RejectReason::Busy => "its backlog is full; try again later or raise the backlog",
            RejectReason::Refused => "its application refused the connection",
            RejectReason::Version => {
                "it supports another version of Braid's wire format; upgrade the older side"
            }
            RejectReason::Cookie => "it did not accept the cookie; try again",
            RejectReason::Datapath => {
                "its datapath is incompatible; use the same datapath, queue pair type and MTU on both sides"
            }
            RejectReason::NoKey => "it has no key; give it the same key, or use no key on either side",
            RejectReason::KeyRequired => "it accepts keyed connections only; give this side its key",
            RejectReason::WrongKey => "it has a different key; give both sides the same key",
            RejectReason::Cipher => "it allows none of this side's ciphers; allow one cipher on both sides",
            RejectReason::NotAllowed => {
                "its list of allowed keys does not contain this side's public key; add the key there"
            }
            RejectReason::UnknownListener => {
                "this side's list of allowed keys does not contain its public key; add the key here"
            }
            RejectReason::KeyForm => {
                "one side has a pre-shared key and the other a static key; use the same kind on both sides"
            }
        })
    }
}

impl RejectReason {
    fn from_byte(byte: u8) -> Option<Self> {
        use RejectReason::*;
        [
            NotListening,
            Busy,
            Refused,
            Version,
            Cookie,
            Datapath,
            NoKey,
            KeyRequired,
            WrongKey,
            Cipher,
            NotAllowed,
            UnknownListener,
            KeyForm,
        ]
        .into_iter()
        .find(|r| *r as u8 == byte)
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawShort {
    bth: Bth,
    version: u8,
    reason: u8,
    reserved: [u8; 2],
    nonce: U64,
    cookie: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawConnect {
    short: RawShort,
    qp: U32,
    token: U32,
    psn: U32,
    instance: U64,
    rails: u8,
    abilities: u8,
    mtu: U16,
    receive_buffer: U32,
    window: U16,
    max_rd_atomic: u8,
    crc: u8,
    private_len: U16,
    nic_len: U16,
}

/// The ability to grant credit.
const GRANTS_CREDIT: u8 = 1;

fn short(opcode: Opcode, reason: u8, nonce: u64, cookie: u64) -> RawShort {
    RawShort {
        bth: Bth::new(opcode, QpId::default(), 0),
        version: VERSION,
        reason,
        reserved: [0; 2],
        nonce: U64::new(nonce),
        cookie: U64::new(cookie),
    }
}

fn padded(len: u16) -> usize {
    usize::from(len).clamp(HELLO_LEN, BASE_DATAGRAM)
}

impl Setup {
    /// Appends the packet, including its CRC.
    ///
    /// # Panics
    /// If the private data exceeds [`MAX_PRIVATE_DATA`] or the routing information
    /// [`MAX_ROUTING_LEN`]. The owners of these values check them first.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Setup::Hello(hello) => {
                out.extend_from_slice(short(Opcode::Hello, 0, hello.nonce, 0).as_bytes());
                out.resize(start + padded(hello.len) - CHECK_LEN, 0);
            }
            Setup::Cookie { nonce, cookie, key_id, len } => {
                out.extend_from_slice(short(Opcode::Cookie, 0, *nonce, *cookie).as_bytes());
                out.extend_from_slice(&key_id.to_be_bytes());
                out.resize(start + padded(*len) - CHECK_LEN, 0);
            }
            Setup::Connect(connect) => connect.encode(Opcode::Connect, out),
            Setup::Accept(connect) => connect.encode(Opcode::Accept, out),
            Setup::SealedConnect(sealed) => sealed.encode(Opcode::SealedConnect, out),
            Setup::SealedAccept(sealed) => sealed.encode(Opcode::SealedAccept, out),
            Setup::Reject(reject) => {
                let raw = short(Opcode::Reject, reject.reason as u8, reject.nonce, 0);
                out.extend_from_slice(raw.as_bytes());
            }
        }
        let crc = header_crc(&out[start..], &[]);
        out.extend_from_slice(&crc.to_be_bytes());
    }

    /// Decodes a REJECT of another format version.
    ///
    /// [`crate::Packet::decode`] must have refused `bytes` with [`DecodeError::Version`]. It has
    /// then checked the CRC, which all versions share. Other fields may have another meaning in
    /// that version.
    pub fn reject_of_other_version(bytes: &[u8]) -> Option<Reject> {
        let (raw, _) = RawShort::ref_from_prefix(bytes).ok()?;
        let is_reject = raw.bth.opcode == Opcode::Reject as u8 && raw.version != VERSION;
        is_reject.then(|| Reject { nonce: raw.nonce.get(), reason: RejectReason::Version })
    }

    pub(crate) fn decode(opcode: Opcode, bytes: &[u8]) -> Result<Self, DecodeError> {
        let body = strip_check(bytes, size_of::<RawShort>())?;
        let (raw, rest) = RawShort::ref_from_prefix(body).map_err(|_| DecodeError::Length)?;
        let nonce = raw.nonce.get();
        let padded =
            (HELLO_LEN..=BASE_DATAGRAM).contains(&bytes.len()).then_some(bytes.len() as u16);
        match (opcode, padded) {
            (Opcode::Hello, Some(len)) => Ok(Setup::Hello(Hello { nonce, len })),
            (Opcode::Cookie, Some(len)) => {
                let (key_id, _) = U64::ref_from_prefix(rest).map_err(|_| DecodeError::Length)?;
                Ok(Setup::Cookie { nonce, cookie: raw.cookie.get(), key_id: key_id.get(), len })
            }
            (Opcode::Connect, _) => Connect::decode(body).map(Setup::Connect),
            (Opcode::Accept, _) => Connect::decode(body).map(Setup::Accept),
            (Opcode::SealedConnect | Opcode::SealedAccept, _) if bytes.len() > MAX_SETUP_LEN => {
                Err(DecodeError::Length)
            }
            (Opcode::SealedConnect, _) => {
                Ok(Setup::SealedConnect(SealedOffer::new(nonce, raw.cookie.get(), rest)))
            }
            (Opcode::SealedAccept, _) => {
                Ok(Setup::SealedAccept(SealedOffer::new(nonce, raw.cookie.get(), rest)))
            }
            (Opcode::Reject, _) if rest.is_empty() => {
                let reason = RejectReason::from_byte(raw.reason);
                let reason = reason.ok_or(DecodeError::Field("reject reason"))?;
                Ok(Setup::Reject(Reject { nonce, reason }))
            }
            (Opcode::Hello | Opcode::Cookie | Opcode::Reject, _) => Err(DecodeError::Length),
            (other, _) => Err(DecodeError::Opcode(other as u8)),
        }
    }
}

impl SealedOffer {
    fn new(nonce: u64, cookie: u64, message: &[u8]) -> Self {
        SealedOffer { nonce, cookie, message: message.to_vec() }
    }

    fn encode(&self, opcode: Opcode, out: &mut Vec<u8>) {
        out.extend_from_slice(short(opcode, 0, self.nonce, self.cookie).as_bytes());
        out.extend_from_slice(&self.message);
    }
}

impl Connect {
    /// Encodes the offer, private data and routing information without a packet header: the plain
    /// text of a [`SealedOffer`].
    ///
    /// # Panics
    /// See [`Setup::encode`].
    pub fn encode_offer(&self) -> Vec<u8> {
        let mut packet = Vec::new();
        self.encode(Opcode::Connect, &mut packet);
        packet.split_off(size_of::<RawShort>())
    }

    /// Decodes the result of [`Connect::encode_offer`].
    ///
    /// # Errors
    /// If the bytes are not a valid offer.
    pub fn decode_offer(nonce: u64, cookie: u64, offer: &[u8]) -> Result<Self, DecodeError> {
        let mut packet = short(Opcode::Connect, 0, nonce, cookie).as_bytes().to_vec();
        packet.extend_from_slice(offer);
        Connect::decode(&packet)
    }

    fn encode(&self, opcode: Opcode, out: &mut Vec<u8>) {
        assert!(self.private_data.len() <= MAX_PRIVATE_DATA, "private data is too long");
        let offer = &self.offer;
        let raw = RawConnect {
            short: short(opcode, 0, self.nonce, self.cookie),
            qp: U32::new(offer.qp.get()),
            token: U32::new(offer.token.0),
            psn: U32::new(offer.psn),
            instance: U64::new(offer.instance),
            rails: self.routing.rails.len() as u8,
            abilities: if offer.grants_credit { GRANTS_CREDIT } else { 0 },
            mtu: U16::new(offer.mtu),
            receive_buffer: U32::new(offer.receive_buffer),
            window: U16::new(offer.window),
            max_rd_atomic: offer.max_rd_atomic,
            crc: u8::from(offer.crc == Crc::On),
            private_len: U16::new(self.private_data.len() as u16),
            nic_len: U16::new(self.routing.nic.len() as u16),
        };
        out.extend_from_slice(raw.as_bytes());
        out.extend_from_slice(&self.private_data);
        self.routing.encode(out);
    }

    fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let (raw, rest) = RawConnect::ref_from_prefix(body)
            .map_err(|_| DecodeError::Short { have: body.len(), need: size_of::<RawConnect>() })?;
        let private_len = usize::from(raw.private_len.get());
        let nic_len = usize::from(raw.nic_len.get());
        if private_len > MAX_PRIVATE_DATA {
            return Err(DecodeError::Length);
        }
        let (private, routing) = rest.split_at_checked(private_len).ok_or(DecodeError::Length)?;
        Ok(Connect {
            nonce: raw.short.nonce.get(),
            cookie: raw.short.cookie.get(),
            offer: raw.offer()?,
            private_data: private.to_vec(),
            routing: Routing::decode(routing, nic_len, raw.rails.into())?,
        })
    }
}

impl RawConnect {
    fn offer(&self) -> Result<Offer, DecodeError> {
        let crc = match self.crc {
            0 => Crc::Off,
            1 => Crc::On,
            _ => return Err(DecodeError::Field("crc")),
        };
        let (mtu, window) = (self.mtu.get(), self.window.get());
        if mtu == 0 || window == 0 || self.max_rd_atomic == 0 {
            return Err(DecodeError::Field("mtu, window or max_rd_atomic"));
        }
        Ok(Offer {
            qp: QpId::new(self.qp.get()),
            token: Token(self.token.get()),
            psn: self.psn.get() & 0xFF_FFFF,
            instance: self.instance.get(),
            mtu,
            receive_buffer: self.receive_buffer.get(),
            window,
            max_rd_atomic: self.max_rd_atomic,
            crc,
            grants_credit: self.abilities & GRANTS_CREDIT != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reject_of_another_version_is_understood_by_its_nonce() {
        let mut bytes = Vec::new();
        let reject = Reject { nonce: 77, reason: RejectReason::Version };
        Setup::Reject(reject).encode(&mut bytes);
        assert_eq!(Setup::reject_of_other_version(&bytes), None, "it is of this version");
        bytes[12] = VERSION + 1;
        bytes.truncate(24);
        assert_eq!(Setup::reject_of_other_version(&bytes), None, "no room for a header");
        bytes.extend_from_slice(&[9; 12]);
        assert_eq!(Setup::reject_of_other_version(&bytes), Some(reject));
        bytes[0] = Opcode::Hello as u8;
        assert_eq!(Setup::reject_of_other_version(&bytes), None);
    }
}
