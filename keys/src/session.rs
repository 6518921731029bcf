//! One end of a keyed connection: seals its packets and opens those of the peer.
//!
//! Every transmission has its own number, counted over all rails, paths and retransmissions. The
//! number and the rail form the nonce. The number also identifies the epoch of the key (`number >>
//! key_packets_log2`) and lets the receiver refuse replays. Both ends change keys at the same
//! numbers, so a key update needs no messages.
//!
//! A burst of losses may outlast several keys. The receiver therefore keeps the keys of all numbers
//! that its replay window accepts. It derives keys in advance on demand, up to those of
//! [`MOST_LOST`] packets.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use braid_wire::{QpId, RailId, SEAL_LEN, SEALED_HEADER_LEN, SealedHeader, Token};

use crate::cipher::{CipherKey, TAG_LEN};
use crate::replay::{ReplayWindow, WIDTH};
use crate::schedule::Schedule;
use crate::{Agreed, Protection, Secrets};

/// Maximum number of consecutive losses. In an outage, both streams of a queue pair send their
/// windows of 4096 segments each, and as many acknowledgements. After that, only probes are sent,
/// about 20 per second.
const MOST_LOST: u64 = 1 << 15;

/// The reason why a packet was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The number was received before, or is too old to tell.
    #[error("the packet was received before or is too old to tell")]
    Repeated,
    /// The sender does not have the keys, or the packet was changed or moved to another rail.
    #[error("the packet is not authentic")]
    Forged,
}

/// The keys and packet numbers of both directions. Dropped keys are wiped. `Debug` shows no key.
///
/// Invariant: no two packets are sealed with the same number.
pub struct Session {
    agreed: Agreed,
    /// The peer's queue pair and its token.
    to: (QpId, Token),
    /// The name of the peer in our list of allowed keys.
    peer: Option<Arc<str>>,
    sends: Sending,
    receives: Receiving,
}

struct Sending {
    schedule: Schedule,
    key: CipherKey,
    epoch: u64,
    next: u64,
}

/// Invariant: `keys` are those of consecutive epochs from `oldest` on, and include `epoch` and its
/// successor.
struct Receiving {
    schedule: Schedule,
    /// The newest epoch with an authentic packet.
    epoch: u64,
    oldest: u64,
    keys: VecDeque<CipherKey>,
    window: ReplayWindow,
    forgeries: u64,
}

impl Session {
    /// Bytes that an envelope adds to a packet.
    pub const OVERHEAD: usize = SEAL_LEN;

    /// Creates a session towards queue pair `to` from the secrets of a handshake.
    pub fn new(secrets: Secrets, agreed: Agreed, to: (QpId, Token)) -> Self {
        let Secrets { sends, receives } = secrets;
        let schedule = |secret| Schedule::new(agreed.cipher, secret);
        let (mut ours, mut theirs) = (schedule(sends), schedule(receives));
        let keys = VecDeque::from([theirs.advance(), theirs.advance()]);
        Session {
            agreed,
            to,
            peer: None,
            sends: Sending { key: ours.advance(), schedule: ours, epoch: 0, next: 0 },
            receives: Receiving {
                schedule: theirs,
                epoch: 0,
                oldest: 0,
                keys,
                window: ReplayWindow::new(),
                forgeries: 0,
            },
        }
    }

    /// Sets the name of a peer with a static key in our list of allowed keys.
    pub fn with(self, peer: Option<Arc<str>>) -> Self {
        Session { peer, ..self }
    }

    /// Returns the name of the peer in our list of allowed keys, or `None` with a pre-shared key.
    pub fn peer(&self) -> Option<&Arc<str>> {
        self.peer.as_ref()
    }

    /// Returns the negotiated terms.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// Returns the number of sealed packets.
    pub fn sealed(&self) -> u64 {
        self.sends.next
    }

    /// Returns the number of times that the sending key was updated.
    pub fn key_updates(&self) -> u64 {
        self.sends.epoch
    }

    /// Appends an envelope for this rail around the bytes that `write` appends. The envelope adds
    /// [`Session::OVERHEAD`] bytes. The method does not allocate if `out` has the capacity.
    #[inline]
    pub fn seal(&mut self, rail: RailId, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        self.begin(out);
        write(out);
        let tag = self.tag(rail, &mut out[start..]);
        out.extend_from_slice(&tag);
    }

    /// Appends the header of the next packet's envelope, for [`Session::seal_from`].
    #[inline]
    pub fn begin(&self, out: &mut Vec<u8>) {
        let (qp, token) = self.to;
        SealedHeader { qp, token, number: self.sends.next }.encode(out);
    }

    /// Whether packets are encrypted, and not only authenticated.
    pub fn encrypts(&self) -> bool {
        self.agreed.protection == Protection::Encrypt
    }

    /// Seals a packet whose last bytes, `payload`, are encrypted from where they are, without a
    /// copy. `packet` consists of what [`Session::begin`] has appended, the inner packet's first
    /// bytes, and room for `payload` and the tag.
    ///
    /// # Panics
    /// If the room is too small, or the connection does not encrypt.
    #[inline]
    pub fn seal_from(&mut self, rail: RailId, packet: &mut [u8], payload: &[u8]) {
        assert!(self.encrypts(), "only encryption writes a payload elsewhere");
        let (packet, room) = packet.split_at_mut(packet.len() - payload.len() - TAG_LEN);
        let (header, inner) = packet.split_at_mut(SEALED_HEADER_LEN);
        let place = (rail, self.sends.take(self.agreed.key_packets_log2));
        self.sends.key.seal_scattered(place, header, (inner, payload), room);
    }

    fn tag(&mut self, rail: RailId, packet: &mut [u8]) -> [u8; TAG_LEN] {
        let place = (rail, self.sends.take(self.agreed.key_packets_log2));
        let key = &self.sends.key;
        match self.agreed.protection {
            Protection::Authenticate => key.seal(place, packet, &mut []),
            Protection::Encrypt => {
                let (header, inner) = packet.split_at_mut(SEALED_HEADER_LEN);
                key.seal(place, header, inner)
            }
        }
    }

    /// Opens a packet in place and returns its contents. `rail` is the rail on which it arrived,
    /// and its number comes from its header.
    ///
    /// # Errors
    /// See [`Refused`]. Only the bytes of the packet have changed then.
    #[inline]
    pub fn open<'a>(
        &mut self,
        rail: RailId,
        number: u64,
        packet: &'a mut [u8],
    ) -> Result<&'a [u8], Refused> {
        let Session { agreed, receives, .. } = self;
        if packet.len() < SEAL_LEN || receives.forgeries >= agreed.cipher.most_forgeries() {
            return Err(Refused::Forged);
        }
        if !receives.window.admits(number) {
            return Err(Refused::Repeated);
        }
        let epoch = number >> agreed.key_packets_log2;
        let key = receives.key_of(epoch, agreed.key_packets_log2).ok_or(Refused::Repeated)?;
        let Some(inner) = open_with(key, agreed.protection, (rail, number), packet) else {
            receives.forgeries += 1;
            return Err(Refused::Forged);
        };
        receives.window.insert(number);
        if epoch > receives.epoch {
            receives.advance_to(epoch, agreed.key_packets_log2);
        }
        Ok(inner)
    }
}

fn open_with<'a>(
    key: &CipherKey,
    protection: Protection,
    place: (RailId, u64),
    packet: &'a mut [u8],
) -> Option<&'a [u8]> {
    match protection {
        Protection::Authenticate => {
            let (text, tag) = packet.split_at_mut(packet.len() - TAG_LEN);
            key.open(place, text, tag)?;
            Some(&text[SEALED_HEADER_LEN..])
        }
        Protection::Encrypt => {
            let (header, inner) = packet.split_at_mut(SEALED_HEADER_LEN);
            key.open(place, header, inner).map(|inner| &*inner)
        }
    }
}

impl Sending {
    /// Returns the number of the next packet and prepares its key.
    fn take(&mut self, key_packets_log2: u8) -> u64 {
        let number = self.next;
        self.next += 1;
        if number >> key_packets_log2 != self.epoch {
            self.key = self.schedule.advance();
            self.epoch += 1;
        }
        number
    }
}

impl Receiving {
    /// Returns the key of an epoch, or `None` if the epoch is too old or too far ahead.
    #[inline]
    fn key_of(&mut self, epoch: u64, key_packets_log2: u8) -> Option<&CipherKey> {
        let index = usize::try_from(epoch.checked_sub(self.oldest)?).ok()?;
        if index >= self.keys.len() {
            self.derive_to(epoch, key_packets_log2);
        }
        self.keys.get(index)
    }

    /// Derives the keys up to that of `epoch`, if so many packets may have been lost. A forged
    /// number makes each of them be derived only once, because they are kept.
    #[cold]
    fn derive_to(&mut self, epoch: u64, key_packets_log2: u8) {
        let ahead = (MOST_LOST >> key_packets_log2).max(1);
        if epoch > self.epoch.saturating_add(ahead) {
            return;
        }
        while self.oldest + (self.keys.len() as u64) <= epoch {
            self.keys.push_back(self.schedule.advance());
        }
    }

    /// Records the first authentic packet of a newer epoch.
    #[cold]
    fn advance_to(&mut self, epoch: u64, key_packets_log2: u8) {
        self.epoch = epoch;
        self.derive_to(epoch + 1, key_packets_log2);
        let behind = WIDTH.div_ceil(1 << key_packets_log2);
        while self.oldest + behind < epoch {
            self.keys.pop_front();
            self.oldest += 1;
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("agreed", &self.agreed).field("to", &self.to).field("peer", &self.peer);
        shown.field("sealed", &self.sends.next).finish_non_exhaustive()
    }
}
