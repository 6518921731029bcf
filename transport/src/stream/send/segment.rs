//! A transmitted segment, as the sender stores it.

use std::num::NonZeroU16;

use braid_wire::{DATA_HEADER_LEN, PathId, Time};

use super::direct::NicEpoch;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    InFlight,
    Lost,
    Acked,
    /// Not sent, to find out whether the peer acknowledges it nevertheless, see
    /// [`super::skipped_segments`]. The segment counts as in flight, so that the window permits no
    /// more than if it were.
    Skipped,
    /// Skipped before, and waiting to be sent for the first time.
    Released,
    /// The peer has refused this segment or an earlier one for good: it is not sent again.
    Refused,
}

/// A transmitted segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The work request, or response, that it belongs to.
    pub(crate) source: u64,
    pub(crate) offset: u32,
    pub(crate) len: u16,
    pub(crate) path: PathId,
    pub(crate) phase: Phase,
    pub(crate) sent_at: Time,
    /// Whether it was sent more than once, so that an acknowledgement may be for an earlier
    /// transmission. Also set if it was skipped.
    pub(crate) again: bool,
    /// Sequence number of the transmission within the stream.
    pub(crate) order: u64,
    /// Path on which the first transmission was placed directly, plus 1, and its epoch there.
    pub(super) direct_path: Option<NonZeroU16>,
    pub(super) direct_epoch: u32,
}

/// There are thousands of segments, and every acknowledgement visits some of them.
const _: () = assert!(size_of::<Segment>() == 40);

impl Segment {
    /// The epoch in which its first transmission was placed directly, if it was.
    pub(crate) fn epoch(&self) -> Option<NicEpoch> {
        let path = PathId::from_bits(self.direct_path?.get() - 1);
        Some(NicEpoch { path, number: self.direct_epoch })
    }

    /// The same epoch, if the segment was sent once: a retransmission is placed otherwise.
    pub(crate) fn first_epoch(&self) -> Option<NicEpoch> {
        self.epoch().filter(|_| !self.again)
    }

    /// Whether an acknowledgement with this echo is for the last transmission and not for an
    /// earlier one.
    pub(super) fn is_certain(&self, echo: Echo) -> bool {
        !self.again || (self.path, self.sent_at.stamp()) == (echo.path, echo.stamp)
    }

    /// Whether this segment and an earlier one, `before`, are in flight for the first time, and
    /// left by the same path at the same time. Neither may be placed directly.
    #[inline]
    pub(super) fn left_with(&self, before: &Segment) -> bool {
        let is_plain = |it: &Segment| it.is_first_flight() && it.direct_path.is_none();
        (self.path, self.sent_at) == (before.path, before.sent_at)
            && is_plain(self)
            && is_plain(before)
    }

    /// Whether its first transmission is in flight.
    pub(crate) fn is_first_flight(&self) -> bool {
        self.phase == Phase::InFlight && !self.again
    }

    /// Bytes on the wire, which count in the window.
    pub(crate) fn wire_len(len: u16) -> u64 {
        u64::from(len) + DATA_HEADER_LEN as u64
    }
}

/// Length of a word that NCCL and others write, and poll for, as a whole.
const WORD: u32 = 8;

/// Payload bytes of the segment at `offset` of a message with `len` bytes. `most`: the maximum of a
/// segment. All segments of a message have the same length, except that the last may be shorter. So
/// a datapath can send the segments of one message and the next in one batch, which a short segment
/// would end. If `most` is a multiple of a word, so is that length, and an application that polls
/// memory never sees half a word.
#[inline]
pub(crate) fn cut(len: u32, offset: u32, most: u16) -> u16 {
    let left = len.saturating_sub(offset);
    let most = u32::from(most.max(1));
    if len <= most {
        return left as u16;
    }
    left.min(len.div_ceil(len.div_ceil(most)).next_multiple_of(WORD).min(most)) as u16
}

/// Returns the bytes on the wire of messages of these lengths, of which the first is sent up to
/// `offset`, in segments of `mtu` bytes. Stops counting at `most` bytes.
pub(super) fn add_up(lens: impl Iterator<Item = u32>, mut offset: u32, mtu: u16, most: u64) -> u64 {
    let mut bytes = 0;
    for len in lens {
        let left = len.saturating_sub(std::mem::take(&mut offset));
        let segments = left.div_ceil(mtu.max(1).into()).max(1);
        bytes += u64::from(left) + u64::from(segments) * Segment::wire_len(0);
        if bytes >= most {
            break;
        }
    }
    bytes
}

/// The packet that an acknowledgement echoes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo {
    pub(crate) path: PathId,
    pub(crate) stamp: u32,
}

impl Echo {
    /// Returns the departure of the packet, up to 16 ns early or late.
    pub(crate) fn sent_at(self, now: Time) -> Time {
        let age = now.since_stamp(self.stamp);
        Time::ZERO + (now - Time::ZERO).saturating_sub(age)
    }
}

/// Number of segments that were acknowledged or lost.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Acknowledged ahead of the ePSN, that is, out of order.
    pub(crate) early: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, segment: &Segment) {
        self.packets += 1;
        self.bytes += Segment::wire_len(segment.len);
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.early += other.early;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn segments_of_a_message_are_alike_and_no_more_than_needed(len in 0_u32..1 << 20, most: u16) {
            let (mut offset, mut lens) = (0, Vec::new());
            while offset < len {
                let next = cut(len, offset, most);
                prop_assert!((1..=most.max(1)).contains(&next));
                lens.push(next);
                offset += u32::from(next);
            }
            prop_assert_eq!(lens.len(), len.div_ceil(most.max(1).into()) as usize);
            if let Some((last, others)) = lens.split_last() {
                prop_assert!(others.iter().all(|len| *len == lens[0]) && *last <= lens[0], "{:?}", lens);
                let ends_words = others.iter().all(|len| len % 8 == 0);
                prop_assert!(ends_words || most % 8 > 0, "{:?} at most {}", lens, most);
            }
        }
    }
}
