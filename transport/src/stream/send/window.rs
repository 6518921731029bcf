//! The window of a sending stream: a ring of sent segments by PSN.
//!
//! Invariants: `segments[i]` is PSN `una + i`. `flight` counts the segments in phase
//! [`Phase::InFlight`] or [`Phase::Skipped`]. `acked` holds the PSNs of those in phase
//! [`Phase::Acked`]. Each transmission, first or repeated, has an `order` of its own, so that "sent
//! before" is defined among retransmissions, too (like packet numbers in QUIC, RFC 9002, section
//! 3).

use std::collections::VecDeque;
use std::num::NonZeroU16;

use braid_wire::{PathId, Psn, RailId, Time};

use super::direct::NicEpoch;
use super::segment::{Echo, Phase, Segment, Tally};
use super::source::Next;
use crate::stream::paws::WINDOW;
use crate::stream::per_rail::RailBytes;
use crate::stream::psn_set::PsnSet;

/// Reason why an acknowledgement is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotTaken {
    /// Perhaps of another connection: sent before the PSN wrapped, or with an ePSN that is beyond
    /// the sent segments or more than a window behind.
    Foreign,
    /// Untrue: the peer acknowledges a segment that was never sent.
    Untrue,
}

/// The segments in flight: their number, and their bytes by rail.
#[derive(Clone, Default, Debug)]
struct Flight {
    bytes: RailBytes,
    segments: u32,
}

impl Flight {
    /// Adds a segment with a payload of `len` bytes.
    #[inline]
    fn add(&mut self, rail: RailId, len: u16) {
        self.bytes[rail] += Segment::wire_len(len);
        self.segments += 1;
    }

    /// Subtracts a segment, which was added with its present path.
    #[inline]
    fn remove(&mut self, segment: &Segment) {
        self.remove_run(segment.path.rail(), 1, Segment::wire_len(segment.len));
    }

    /// Subtracts segments, which were added to this rail. `bytes` includes their headers.
    #[inline]
    fn remove_run(&mut self, rail: RailId, segments: u32, bytes: u64) {
        self.bytes[rail] -= bytes;
        self.segments -= segments;
    }
}

/// Newly acknowledged segments: one, or consecutive ones whose first transmissions left by the same
/// path at the same time.
#[derive(Debug)]
pub(crate) struct Credit<'a> {
    /// PSN of the first segment.
    pub(crate) first: Psn,
    /// Number of segments.
    pub(crate) packets: u32,
    /// Bytes, including headers.
    pub(crate) bytes: u64,
    /// The final segment, before the acknowledgement.
    pub(crate) segment: &'a Segment,
    /// Whether the last transmission has certainly arrived, not an earlier one.
    pub(crate) certain: bool,
}

impl Credit<'_> {
    pub(crate) fn psns(&self) -> impl Iterator<Item = Psn> + use<> {
        let first = self.first;
        (0..self.packets).map(move |index| first.plus(index.into()))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Window {
    una: Psn,
    segments: VecDeque<Segment>,
    acked: PsnSet,
    flight: Flight,
    /// The segment that was skipped or released, until it is sent.
    skipped: Option<Psn>,
    /// The lowest PSN that the peer has refused for good.
    refused: Option<Psn>,
    /// Lost or released segments that wait to be sent. Entries may be stale (acknowledged since).
    lost: VecDeque<Psn>,
    next_order: u64,
    /// The highest order whose arrival is certain.
    newest: Option<u64>,
}

impl Window {
    pub(crate) fn new(first: Psn) -> Self {
        Window {
            una: first,
            segments: VecDeque::new(),
            acked: PsnSet::new(first),
            flight: Flight::default(),
            skipped: None,
            refused: None,
            lost: VecDeque::new(),
            next_order: 0,
            newest: None,
        }
    }

    /// Visits the places in memory of the first and the last segment, and of the set.
    pub(crate) fn rings(&self, mut visit: impl FnMut(*const u8, usize)) {
        let (front, back) = self.segments.as_slices();
        visit(front.as_ptr().cast(), size_of::<Segment>());
        let last = if back.is_empty() { front } else { back };
        visit(last.as_ptr().wrapping_add(last.len()).cast(), size_of::<Segment>());
        self.acked.rings(visit);
    }

    /// The lowest PSN that is not acknowledged (SND.UNA in TCP).
    pub(crate) fn una(&self) -> Psn {
        self.una
    }

    /// The next PSN to send.
    pub(crate) fn next(&self) -> Psn {
        self.una.plus(self.segments.len() as u64)
    }

    /// Whether `cumulative` may be the peer's recent ePSN: it is not beyond the sent segments, and
    /// not more than a window behind.
    pub(crate) fn may_have_ended_at(&self, cumulative: Psn) -> bool {
        cumulative <= self.next() && self.una <= cumulative.plus(WINDOW)
    }

    pub(crate) fn span(&self) -> u64 {
        self.segments.len() as u64
    }

    /// Bytes in flight, by rail.
    #[inline]
    pub(crate) fn in_flight(&self) -> &RailBytes {
        &self.flight.bytes
    }

    /// Bytes of [`Window::in_flight`] on a rail without a skipped segment.
    pub(crate) fn under_way(&self, rail: RailId) -> u64 {
        let held = self.skipped_segment().filter(|(_, held)| held.path.rail() == rail);
        self.flight.bytes[rail] - held.map_or(0, |(_, held)| Segment::wire_len(held.len))
    }

    /// Number of segments in phase [`Phase::InFlight`] or [`Phase::Skipped`].
    pub(crate) fn segments_in_flight(&self) -> u32 {
        self.flight.segments
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether an acknowledgement is outstanding. Refused segments get none.
    #[inline]
    pub(crate) fn awaits_ack(&self) -> bool {
        !self.is_empty() && self.refused.is_none_or(|refused| self.una < refused)
    }

    /// Whether the peer has refused a segment, and thus all later ones, for good.
    #[inline]
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Marks the segments from `psn` on as refused: none of them is sent again. `forgotten` gets
    /// those that were in flight.
    pub(crate) fn refuse_from(&mut self, psn: Psn, forgotten: &mut dyn FnMut(&Segment)) {
        self.refused = Some(self.refused.map_or(psn, |refused| refused.min(psn)));
        let first = psn.ahead_of(self.una).unwrap_or(0) as usize;
        for segment in self.segments.iter_mut().skip(first) {
            if matches!(segment.phase, Phase::InFlight | Phase::Skipped) {
                self.flight.remove(segment);
            }
            if segment.phase == Phase::InFlight {
                forgotten(segment);
            }
            if segment.phase != Phase::Acked {
                segment.phase = Phase::Refused;
            }
        }
    }

    /// Records the first transmission of a segment. `direct`: the epoch in which it is placed
    /// directly.
    pub(crate) fn push(
        &mut self,
        now: Time,
        next: Next,
        path: PathId,
        direct: Option<NicEpoch>,
    ) -> Psn {
        let Next { source, offset, len } = next;
        let psn = self.next();
        let order = self.take_order();
        let phase = Phase::InFlight;
        let (sent_at, again) = (now, false);
        self.segments.push_back(Segment {
            source,
            offset,
            len,
            path,
            phase,
            sent_at,
            again,
            order,
            direct_path: direct.and_then(|epoch| NonZeroU16::new(epoch.path.to_bits() + 1)),
            direct_epoch: direct.map_or(0, |epoch| epoch.number),
        });
        self.flight.add(path.rail(), len);
        psn
    }

    /// Records a skipped segment. No acknowledgement of another segment may look like one of this
    /// segment.
    pub(crate) fn skip(&mut self, now: Time, next: Next) -> Psn {
        let psn = self.push(now, next, PathId::default(), None);
        if let Some(segment) = self.segments.back_mut() {
            segment.phase = Phase::Skipped;
            self.skipped = Some(psn);
        }
        psn
    }

    /// The segment that has a PSN in the window but was never sent.
    pub(crate) fn skipped(&self) -> Option<Psn> {
        self.skipped
    }

    /// Whether only a skipped segment is in flight.
    pub(crate) fn is_waiting_for_skipped(&self) -> bool {
        self.flight.segments == 1 && self.skipped_segment().is_some()
    }

    fn skipped_segment(&self) -> Option<(Psn, &Segment)> {
        let psn = self.skipped?;
        self.get(psn).filter(|segment| segment.phase == Phase::Skipped).map(|found| (psn, found))
    }

    /// Whether everything before the skipped segment is acknowledged, and the `followers` segments
    /// after it.
    pub(crate) fn shows_skipped(&self, followers: u32) -> bool {
        self.skipped == Some(self.una) && {
            let mask = (1 << followers) - 1;
            self.acked.word(self.una.plus(1)) & mask == mask
        }
    }

    /// Lets the skipped segment be sent.
    pub(crate) fn release(&mut self) {
        if let Some((psn, _)) = self.skipped_segment() {
            let index = (psn.0 - self.una.0) as usize;
            self.take_out(index, Phase::Released);
        }
    }

    /// Lets the skipped segment be sent if everything before it is acknowledged. The receiver may
    /// have refused later segments because this one is missing.
    pub(crate) fn release_oldest(&mut self) {
        if self.skipped == Some(self.una) {
            self.release();
        }
    }

    fn take_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }

    pub(crate) fn get(&self, psn: Psn) -> Option<&Segment> {
        self.segments.get(psn.ahead_of(self.una)? as usize)
    }

    /// Returns the segments from `psn` on.
    pub(crate) fn from(&self, psn: Psn) -> impl Iterator<Item = &Segment> {
        let index = psn.ahead_of(self.una).map_or(self.segments.len(), |ahead| ahead as usize);
        self.segments.range(index.min(self.segments.len())..)
    }

    fn get_mut(&mut self, psn: Psn) -> Option<&mut Segment> {
        let index = psn.ahead_of(self.una)?;
        self.segments.get_mut(index as usize)
    }

    /// Returns the oldest segment that was lost or released, without removing it.
    pub(crate) fn peek_lost(&mut self) -> Option<(Psn, Segment)> {
        while let Some(&psn) = self.lost.front() {
            match self.get_mut(psn) {
                Some(segment) if matches!(segment.phase, Phase::Lost | Phase::Released) => {
                    return Some((psn, *segment));
                }
                _ => self.lost.pop_front(),
            };
        }
        None
    }

    /// Bytes on the wire of the segments that wait to be sent again or were skipped.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let waits = |psn: &Psn| {
            let segment = self.get(*psn)?;
            matches!(segment.phase, Phase::Lost | Phase::Released).then_some(segment.len)
        };
        self.lost.iter().filter_map(waits).map(Segment::wire_len).sum()
    }

    /// Records the retransmission of the segment that [`Window::peek_lost`] returned.
    pub(crate) fn resend(&mut self, now: Time, psn: Psn, path: PathId) {
        let order = self.take_order();
        self.lost.pop_front();
        self.skipped = self.skipped.filter(|skipped| *skipped != psn);
        let Some(segment) = self.get_mut(psn) else { return };
        segment.phase = Phase::InFlight;
        segment.sent_at = now;
        segment.again = true;
        segment.order = order;
        segment.path = path;
        let len = segment.len;
        self.flight.add(path.rail(), len);
    }

    /// Records that a segment was staged instead of placed directly. Returns the epoch that was
    /// assigned to it.
    pub(crate) fn staged(&mut self, psn: Psn) -> Option<NicEpoch> {
        let segment = self.get_mut(psn).filter(|segment| !segment.again)?;
        let epoch = segment.epoch();
        segment.direct_path = None;
        epoch
    }

    /// Acknowledges everything below `cumulative`, and the segments in the bitmap `beyond` (bit 0
    /// of the first word is `cumulative`). `credited` gets the newly acknowledged segments.
    pub(crate) fn ack(
        &mut self,
        cumulative: Psn,
        beyond: &[u64],
        echo: Echo,
        mut credited: impl FnMut(&Credit<'_>),
    ) -> Result<Tally, NotTaken> {
        if cumulative > self.next() {
            return Err(NotTaken::Foreign);
        }
        if self.contradicts(cumulative, beyond) {
            return Err(NotTaken::Untrue);
        }
        let mut acked = Tally::default();
        while self.una < cumulative {
            let first = self.una;
            let mut last = self.segments.pop_front().ok_or(NotTaken::Foreign)?;
            let (mut packets, mut bytes) = (1, Segment::wire_len(last.len));
            while let Some(next) = self.segments.front().filter(|next| next.left_with(&last))
                && first.plus(packets.into()) < cumulative
            {
                (packets, bytes) = (packets + 1, bytes + Segment::wire_len(next.len));
                last = *next;
                self.segments.pop_front();
            }
            self.una = first.plus(packets.into());
            self.credit((first, packets, bytes), &last, echo, &mut acked, &mut credited);
        }
        self.acked.forget_below(self.una);
        for (index, word) in beyond.iter().enumerate() {
            let first = cumulative.plus(64 * index as u64);
            // Most bits were already set in the previous bitmap.
            let mut new = word & !self.acked.word(first);
            while new != 0 {
                let psn = first.plus(new.trailing_zeros().into());
                new &= new - 1;
                let segment = self.get_mut(psn).ok_or(NotTaken::Untrue)?;
                let before = *segment;
                segment.phase = Phase::Acked;
                self.acked.insert(psn);
                let bytes = Segment::wire_len(before.len);
                self.credit((psn, 1, bytes), &before, echo, &mut acked, &mut credited);
                acked.early += 1;
            }
        }
        self.skip_acked();
        Ok(acked)
    }

    /// Whether the acknowledgement is untrue, because it covers the skipped segment.
    pub(crate) fn contradicts(&self, cumulative: Psn, beyond: &[u64]) -> bool {
        self.skipped.is_some_and(|psn| {
            psn.ahead_of(cumulative).is_none_or(|ahead| {
                let word = beyond.get((ahead / 64) as usize);
                word.is_some_and(|word| word >> (ahead % 64) & 1 == 1)
            })
        })
    }

    /// Moves the front over acknowledged segments. A response can move it up to packets that the
    /// bitmap of an earlier acknowledgement has reported. With nothing left in flight, no further
    /// acknowledgement would be requested.
    fn skip_acked(&mut self) {
        while self.segments.front().is_some_and(|front| front.phase == Phase::Acked) {
            self.segments.pop_front();
            self.una = self.una.plus(1);
        }
        self.acked.forget_below(self.una);
    }

    /// Acknowledges segments, unless they were. `segment` is the final one.
    fn credit(
        &mut self,
        (first, packets, bytes): (Psn, u32, u64),
        segment: &Segment,
        echo: Echo,
        acked: &mut Tally,
        credited: &mut impl FnMut(&Credit<'_>),
    ) {
        if segment.phase == Phase::Acked {
            return;
        }
        if segment.phase == Phase::InFlight {
            self.flight.remove_run(segment.path.rail(), packets, bytes);
        }
        acked.packets += u64::from(packets);
        acked.bytes += bytes;
        let certain = segment.is_certain(echo);
        if certain {
            self.newest = self.newest.max(Some(segment.order));
        }
        credited(&Credit { first, packets, bytes, segment, certain });
    }

    /// Whether a segment that was sent after the oldest one has arrived. False unless there is a
    /// hole or a retransmission.
    #[inline]
    pub(crate) fn is_overtaken(&self) -> bool {
        let oldest = self.segments.front();
        oldest.is_some_and(|oldest| self.newest.is_some_and(|newest| oldest.order <= newest))
    }

    /// Declares segments lost. `is_lost` decides for each segment that the newest arrival has
    /// overtaken; its argument is the difference of their orders.
    pub(crate) fn lose_overtaken(
        &mut self,
        lost: &mut dyn FnMut(&Segment),
        mut is_lost: impl FnMut(&Segment, u64) -> bool,
    ) {
        let Some(newest) = self.newest.filter(|_| self.is_overtaken()) else { return };
        for first in (0..self.segments.len()).step_by(64) {
            let mut open = !self.acked.word(self.una.plus(first as u64));
            while open != 0 {
                let index = first + open.trailing_zeros() as usize;
                open &= open - 1;
                let Some(segment) = self.segments.get(index) else { return };
                // First transmissions are in PSN order, and a retransmission has an even higher
                // order.
                if segment.order > newest && !segment.again {
                    return;
                }
                let overtaken = newest.checked_sub(segment.order).filter(|by| *by > 0);
                if segment.phase == Phase::InFlight
                    && overtaken.is_some_and(|by| is_lost(segment, by))
                {
                    self.lose(index, lost);
                }
            }
        }
    }

    /// Declares the segment with this PSN lost, if it is in flight.
    pub(crate) fn lose_one(&mut self, psn: Psn, lost: &mut dyn FnMut(&Segment)) {
        if self.get(psn).is_some_and(|segment| segment.phase == Phase::InFlight) {
            self.lose_from(psn, 1, lost);
        }
    }

    /// Declares up to `count` segments in flight lost, from `psn` on, oldest first.
    pub(crate) fn lose_from(&mut self, psn: Psn, count: usize, lost: &mut dyn FnMut(&Segment)) {
        let first = psn.ahead_of(self.una).unwrap_or(0) as usize;
        let mut left = count;
        for index in first..self.segments.len() {
            if left == 0 {
                break;
            }
            if self.segments[index].phase == Phase::InFlight {
                self.lose(index, lost);
                left -= 1;
            }
        }
    }

    fn lose(&mut self, index: usize, lost: &mut dyn FnMut(&Segment)) {
        lost(&self.segments[index]);
        self.take_out(index, Phase::Lost);
    }

    /// Takes a segment out of flight; it waits to be sent.
    fn take_out(&mut self, index: usize, phase: Phase) {
        let psn = self.una.plus(index as u64);
        let segment = &mut self.segments[index];
        segment.phase = phase;
        self.flight.remove(segment);
        let at = self.lost.partition_point(|other| *other < psn);
        self.lost.insert(at, psn);
    }

    /// Releases unused memory.
    pub(crate) fn trim(&mut self) {
        self.segments.shrink_to(crate::idle::KEPT_ENTRIES);
        self.acked.shrink_to(crate::idle::KEPT_ENTRIES);
        self.lost.shrink_to(crate::idle::KEPT_ENTRIES);
    }

    /// The segments in flight, oldest first.
    pub(crate) fn in_flight_segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.phase == Phase::InFlight)
    }

    /// The segment in flight that was sent first.
    pub(crate) fn oldest_in_flight(&self) -> Option<(Psn, &Segment)> {
        let numbered = (0..).map(|index| self.una.plus(index)).zip(&self.segments);
        let in_flight = numbered.filter(|(_, segment)| segment.phase == Phase::InFlight);
        in_flight.min_by_key(|(_, segment)| segment.order)
    }

    /// Drops all segments.
    pub(crate) fn clear(&mut self) {
        *self = Window { next_order: self.next_order, ..Window::new(self.next()) };
    }
}

#[cfg(test)]
mod tests;
