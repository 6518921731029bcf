//! Connection set-up: HELLO, COOKIE, CONNECT, then ACCEPT or REJECT, all on the data port.
//!
//! The responder keeps no state before a CONNECT proves its cookie, and answers with no more bytes
//! than it was sent until then. HELLO and COOKIE are padded to what the path has to carry.

use std::fmt;

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::bth::Bth;
use crate::check::{CHECK_LEN, header_crc, strip_check};
use crate::routing::MAX_ROUTING_LEN;
use crate::{Crc, DecodeError, Opcode, QpId, Routing, Token, VERSION};

/// Bytes of the largest datagram (UDP payload) that every path has to carry, either way: RFC 8899's BASE_PLPMTU, and
/// what QUIC asks of a path (RFC 9000, section 14). The longest set-up packet and the longest acknowledgement fit.
pub const BASE_DATAGRAM: usize = 1200;
/// Bytes of the shortest HELLO, padding included: no answer to it is longer.
pub const HELLO_LEN: usize = 64;
/// Bytes that each side may hand the other with its offer.
pub const MAX_PRIVATE_DATA: usize = 512;
/// Bytes of the longest set-up packet.
pub const MAX_SETUP_LEN: usize = BASE_DATAGRAM;

const LONGEST_OFFER: usize =
    size_of::<RawConnect>() + MAX_PRIVATE_DATA + MAX_ROUTING_LEN + CHECK_LEN;
const _: () = assert!(LONGEST_OFFER <= BASE_DATAGRAM);

/// A step of connection set-up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setup {
    /// Asks for a cookie.
    Hello(Hello),
    /// Returns the nonce with the cookie.
    Cookie {
        /// The nonce of the HELLO.
        nonce: u64,
        /// What the CONNECT has to show.
        cookie: u64,
        /// Says which static key the responder has; 0: none. See `docs/keys.md`.
        key_id: u64,
        /// Bytes of the datagram, padding included: those of the HELLO.
        len: u16,
    },
    /// Offers a queue pair.
    Connect(Connect),
    /// Takes the offer: the responder's own. Its `cookie` is 0.
    Accept(Connect),
    /// Turns it down.
    Reject(Reject),
    /// [`Setup::Connect`], whose offer only who has the key can read.
    SealedConnect(SealedOffer),
    /// [`Setup::Accept`], likewise. Its `cookie` is 0.
    SealedAccept(SealedOffer),
}

/// The first packet of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Chosen at random by the initiator; every answer repeats it.
    pub nonce: u64,
    /// Bytes of the datagram, padding included: [`HELLO_LEN`] to [`BASE_DATAGRAM`].
    pub len: u16,
}

/// An offer with what proves that its sender can receive at its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connect {
    /// The nonce of the HELLO.
    pub nonce: u64,
    /// The cookie that answered it.
    pub cookie: u64,
    /// The queue pair on offer.
    pub offer: Offer,
    /// Up to [`MAX_PRIVATE_DATA`] bytes for the application at the other end.
    pub private_data: Vec<u8>,
    /// How this side is reached beside the address that the packet comes from, in up to [`MAX_ROUTING_LEN`] bytes.
    pub routing: Routing,
}

/// An offer that is protected by a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealedOffer {
    /// The nonce of the HELLO.
    pub nonce: u64,
    /// The cookie that answered it.
    pub cookie: u64,
    /// A message of the key exchange; the offer is its payload. As long as the packet has room, which is
    /// [`MAX_SETUP_LEN`] at most.
    pub message: Vec<u8>,
}

/// What one side tells the other of its queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Its number.
    pub qp: QpId,
    /// What packets towards it have to carry.
    pub token: Token,
    /// First PSN (24 bits) that it will send.
    pub psn: u32,
    /// Names the process and engine, so that a peer that was restarted is not taken for its predecessor.
    pub instance: u64,
    /// Largest payload of a segment, in bytes, that it can take.
    pub mtu: u16,
    /// Bytes of wire data that its socket can hold; all queue pairs towards it share them.
    pub receive_buffer: u32,
    /// How many packets beyond the ePSN it tracks.
    pub window: u16,
    /// READs and atomics that it serves at a time.
    pub max_rd_atomic: u8,
    /// Whether it wants payloads checked. On if either side wants it.
    pub crc: Crc,
}

/// An offer turned down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject {
    /// The nonce of the packet that is turned down.
    pub nonce: u64,
    /// Why.
    pub reason: RejectReason,
}

/// Why an offer was turned down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum RejectReason {
    /// Nobody listens there.
    NotListening = 1,
    /// The listener's queue of waiting connections is full.
    Busy = 2,
    /// The application said no.
    Refused = 3,
    /// The responder speaks another version of the format (the version of the REJECT itself is the one it speaks).
    Version = 4,
    /// The cookie is wrong or too old: begin again.
    Cookie = 5,
    /// One side sends over an RNIC and the other over UDP, or their RNICs do not fit together.
    Datapath = 6,
    /// The initiator's connection would be keyed, and the responder has no key.
    NoKey = 7,
    /// The responder takes keyed connections only.
    KeyRequired = 8,
    /// The responder's key is another than the initiator's.
    WrongKey = 9,
    /// There is no cipher that both sides take.
    Cipher = 10,
    /// The initiator's static key is not one that the responder allows, or not any more, or is not the initiator's.
    NotAllowed = 11,
    /// The responder's static key is not one that the initiator allows, or not any more.
    UnknownListener = 12,
    /// One side has a pre-shared key, the other one of its own.
    KeyForm = 13,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RejectReason::NotListening => "nobody listens there; start the server first",
            RejectReason::Busy => "its backlog is full; try again later",
            RejectReason::Refused => "its application refused",
            RejectReason::Version => {
                "it speaks another version of Braid's format; upgrade the older side"
            }
            RejectReason::Cookie => "it did not recognise its cookie; try again",
            RejectReason::Datapath => {
                "its datapath does not fit; take the same on both sides (UDP or verbs, queue pair type, MTU)"
            }
            RejectReason::NoKey => "it has no key; give it the same key, or take none on either side",
            RejectReason::KeyRequired => "it takes keyed connections only; give this side its key",
            RejectReason::WrongKey => "its key is another one; give both sides the same key",
            RejectReason::Cipher => "it takes none of the ciphers that this side does",
            RejectReason::NotAllowed => {
                "its list of allowed keys does not have this side's public key, or not any more"
            }
            RejectReason::UnknownListener => {
                "its public key is not on this side's list of allowed keys, or not any more"
            }
            RejectReason::KeyForm => {
                "one side has a pre-shared key and the other one of its own; take the same form on both sides"
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
    reserved: u8,
    mtu: U16,
    receive_buffer: U32,
    window: U16,
    max_rd_atomic: u8,
    crc: u8,
    private_len: U16,
    nic_len: U16,
}

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
    /// Appends the packet, check included.
    ///
    /// # Panics
    /// If the private data is longer than [`MAX_PRIVATE_DATA`], or routing information longer than
    /// [`MAX_ROUTING_LEN`]: their owners check that first.
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

    /// Reads a REJECT of another version, one that [`crate::Packet::decode`] has refused with
    /// [`DecodeError::Version`]: so its check, which every version keeps, is right. The rest of it may mean anything.
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
    /// The offer and all that goes with it, without the header of a packet: what a [`SealedOffer`] protects.
    ///
    /// # Panics
    /// As [`Setup::encode`].
    pub fn encode_offer(&self) -> Vec<u8> {
        let mut packet = Vec::new();
        self.encode(Opcode::Connect, &mut packet);
        packet.split_off(size_of::<RawShort>())
    }

    /// Reads what [`Connect::encode_offer`] has written.
    ///
    /// # Errors
    /// As of a packet.
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
            reserved: 0,
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
