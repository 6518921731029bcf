//! One end of a keyed connection: puts its packets into envelopes and opens those of the peer.
//!
//! Every transmission has a number of its own, counted through over all rails, paths and retransmissions. It makes the
//! nonce, with the rail that the packet takes, it says which epoch's key was used (`number >> key_packets_log2`), and it lets the receiver refuse what comes
//! again. Both ends change keys at the same numbers, so nothing is asked or waited for.
//!
//! A burst of loss may be longer than several keys last. The receiver therefore keeps the keys of
//! all numbers that its replay window still takes, and derives keys ahead on demand, up to those of
//! [`MOST_LOST`] packets.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use braid_wire::{QpId, RailId, SEAL_LEN, SEALED_HEADER_LEN, SealedHeader, Token};

use crate::cipher::{CipherKey, TAG_LEN};
use crate::replay::{ReplayWindow, WIDTH};
use crate::schedule::Schedule;
use crate::{Agreed, Protection, Secrets};

/// Packets that may be lost in a row. In an outage both streams of a queue pair send their windows,
/// 4096 segments each, and acknowledge as much of the peer's; then only probes leave, some 20 in a
/// second.
const MOST_LOST: u64 = 1 << 15;

/// Why a packet was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// Its number has come before, or is older than what is kept account of.
    #[error("it has come before, or is too old to tell")]
    Repeated,
    /// Whoever made it does not have the keys, or it was changed on the way, or brought to another rail.
    #[error("it is not authentic")]
    Forged,
}

/// Keys and numbers of both directions. `Debug` shows no key; dropped keys are wiped.
///
/// Invariant: no two packets are sealed with the same number.
pub struct Session {
    agreed: Agreed,
    /// The peer's queue pair, and its token.
    to: (QpId, Token),
    /// What our list of allowed keys calls the peer.
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

/// Invariant: `keys` are those of the epochs from `oldest` on, without gaps, and `epoch` and the
/// one after it are among them.
struct Receiving {
    schedule: Schedule,
    /// The newest epoch of which a packet was authentic.
    epoch: u64,
    oldest: u64,
    keys: VecDeque<CipherKey>,
    window: ReplayWindow,
    forgeries: u64,
}

impl Session {
    /// Bytes that an envelope adds to a packet.
    pub const OVERHEAD: usize = SEAL_LEN;

    /// With the secrets of a handshake, towards this queue pair.
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

    /// With a peer that proved itself by a static key, which our list of allowed keys calls so.
    pub fn with(self, peer: Option<Arc<str>>) -> Self {
        Session { peer, ..self }
    }

    /// What our list of allowed keys calls the peer; `None`: keys are not static.
    pub fn peer(&self) -> Option<&Arc<str>> {
        self.peer.as_ref()
    }

    /// What was settled.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// How many packets it has sealed.
    pub fn sealed(&self) -> u64 {
        self.sends.next
    }

    /// How often it has changed the key that it seals with.
    pub fn key_updates(&self) -> u64 {
        self.sends.epoch
    }

    /// Appends an envelope, for this rail, around what `write` appends. It takes [`Session::OVERHEAD`] bytes more than that, and allocates
    /// nothing if `out` has room.
    #[inline]
    pub fn seal(&mut self, rail: RailId, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        let (qp, token) = self.to;
        SealedHeader { qp, token, number: self.sends.next }.encode(out);
        write(out);
        let tag = self.tag(rail, &mut out[start..]);
        out.extend_from_slice(&tag);
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

    /// Opens a packet that has come by this rail with this number in its header, where it stands, and returns what is inside.
    ///
    /// # Errors
    /// See [`Refused`]: nothing has changed then, but the bytes of the packet.
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
    /// The number of the next packet; its key is there.
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
    /// The key of an epoch. `None`: it is too old, or more packets would have been lost than there
    /// can be.
    #[inline]
    fn key_of(&mut self, epoch: u64, key_packets_log2: u8) -> Option<&CipherKey> {
        let index = usize::try_from(epoch.checked_sub(self.oldest)?).ok()?;
        if index >= self.keys.len() {
            self.derive_to(epoch, key_packets_log2);
        }
        self.keys.get(index)
    }

    /// Derives the keys up to that of `epoch`, if so many packets may have been lost. A forged
    /// number has each of them derived once, as they are kept.
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

    /// A packet of this epoch was authentic, and of none after it.
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
