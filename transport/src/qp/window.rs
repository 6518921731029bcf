//! What one outgoing stream has in flight: a ring of segments by PSN.
//!
//! Invariants: `segments[i]` is PSN `una + i`. `in_flight` is the bytes of the segments in phase
//! [`Phase::InFlight`]. Each transmission, first or repeated, has an `order` of its own, so "sent
//! before" is known also among retransmissions (as packet numbers do in QUIC, RFC 9002, section 3).

use std::collections::VecDeque;

use braid_wire::{DATA_HEADER_LEN, PathId, Psn, Time};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    InFlight,
    Lost,
    Acked,
}

/// One transmitted segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The work request, or response, that it belongs to.
    pub(crate) source: u64,
    pub(crate) offset: u32,
    pub(crate) len: u16,
    pub(crate) path: PathId,
    pub(crate) phase: Phase,
    pub(crate) sent_at: Time,
    order: u64,
}

impl Segment {
    /// Bytes it takes on the wire, and so in the window.
    pub(crate) fn wire_len(len: u16) -> u64 {
        u64::from(len) + DATA_HEADER_LEN as u64
    }
}

/// What an acknowledgement achieved.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Acked {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Window {
    una: Psn,
    segments: VecDeque<Segment>,
    in_flight: u64,
    /// Lost segments that wait for retransmission; entries may be stale (acknowledged since).
    lost: VecDeque<Psn>,
    next_order: u64,
    /// The highest order that has been acknowledged.
    newest_acked: Option<u64>,
}

impl Window {
    pub(crate) fn new(first: Psn) -> Self {
        Window {
            una: first,
            segments: VecDeque::new(),
            in_flight: 0,
            lost: VecDeque::new(),
            next_order: 0,
            newest_acked: None,
        }
    }

    /// The oldest PSN that is not acknowledged.
    pub(crate) fn una(&self) -> Psn {
        self.una
    }

    /// The next PSN to send.
    pub(crate) fn next(&self) -> Psn {
        self.una.plus(self.segments.len() as u64)
    }

    pub(crate) fn span(&self) -> u64 {
        self.segments.len() as u64
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Records the first transmission of a segment.
    pub(crate) fn push(
        &mut self,
        now: Time,
        source: u64,
        offset: u32,
        len: u16,
        path: PathId,
    ) -> Psn {
        let psn = self.next();
        let order = self.take_order();
        let phase = Phase::InFlight;
        self.segments.push_back(Segment { source, offset, len, path, phase, sent_at: now, order });
        self.in_flight += Segment::wire_len(len);
        psn
    }

    fn take_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }

    pub(crate) fn get(&self, psn: Psn) -> Option<&Segment> {
        self.segments.get(psn.ahead_of(self.una)? as usize)
    }

    fn get_mut(&mut self, psn: Psn) -> Option<&mut Segment> {
        let index = psn.ahead_of(self.una)?;
        self.segments.get_mut(index as usize)
    }

    /// The oldest lost segment, without taking it.
    pub(crate) fn peek_lost(&mut self) -> Option<(Psn, Segment)> {
        while let Some(&psn) = self.lost.front() {
            match self.get_mut(psn) {
                Some(segment) if segment.phase == Phase::Lost => return Some((psn, *segment)),
                _ => self.lost.pop_front(),
            };
        }
        None
    }

    /// Records the retransmission of the segment that [`Window::peek_lost`] returned.
    pub(crate) fn resend(&mut self, now: Time, psn: Psn, path: PathId) {
        let order = self.take_order();
        self.lost.pop_front();
        let Some(segment) = self.get_mut(psn) else { return };
        segment.phase = Phase::InFlight;
        segment.sent_at = now;
        segment.order = order;
        segment.path = path;
        self.in_flight += Segment::wire_len(segment.len);
    }

    /// Everything below `cumulative` has arrived, and what `ones` says beyond it. `None`: the ack speaks of packets
    /// that were never sent.
    pub(crate) fn ack(
        &mut self,
        cumulative: Psn,
        ones: impl Iterator<Item = u64>,
    ) -> Option<Acked> {
        if cumulative > self.next() {
            return None;
        }
        let mut acked = Acked::default();
        while self.una < cumulative {
            self.una = self.una.plus(1);
            let segment = self.segments.pop_front()?;
            self.credit(&segment, &mut acked);
        }
        for offset in ones {
            self.ack_one(cumulative.plus(offset), &mut acked);
        }
        self.skip_acked();
        Some(acked)
    }

    /// An answer can move the front up to packets that the bitmap of an earlier ack has reported. With
    /// nothing left in flight, nothing would ever ask for the ack that says so.
    fn skip_acked(&mut self) {
        while self.segments.front().is_some_and(|front| front.phase == Phase::Acked) {
            self.segments.pop_front();
            self.una = self.una.plus(1);
        }
    }

    fn ack_one(&mut self, psn: Psn, acked: &mut Acked) {
        let Some(segment) = self.get_mut(psn) else { return };
        let before = *segment;
        segment.phase = Phase::Acked;
        self.credit(&before, acked);
    }

    fn credit(&mut self, segment: &Segment, acked: &mut Acked) {
        if segment.phase == Phase::Acked {
            return;
        }
        let bytes = Segment::wire_len(segment.len);
        if segment.phase == Phase::InFlight {
            self.in_flight -= bytes;
        }
        acked.packets += 1;
        acked.bytes += bytes;
        self.newest_acked = self.newest_acked.max(Some(segment.order));
    }

    /// Marks as lost what `is_lost` says of the segments sent before the newest acknowledged one;
    /// it is told how many transmissions came between the two.
    pub(crate) fn detect(&mut self, mut is_lost: impl FnMut(&Segment, u64) -> bool) -> Acked {
        let mut lost = Acked::default();
        let Some(newest) = self.newest_acked else { return lost };
        // Without a hole or a retransmission the oldest segment was sent after all acknowledged ones.
        if self.segments.front().is_none_or(|oldest| oldest.order > newest) {
            return lost;
        }
        for index in 0..self.segments.len() {
            let segment = self.segments[index];
            let overtaken = newest.checked_sub(segment.order).filter(|by| *by > 0);
            let Some(by) = overtaken.filter(|_| segment.phase == Phase::InFlight) else { continue };
            if is_lost(&segment, by) {
                self.lose(index, &mut lost);
            }
        }
        lost
    }

    /// Marks as lost the oldest `count` segments in flight.
    pub(crate) fn lose_oldest(&mut self, count: usize) -> Acked {
        let mut lost = Acked::default();
        let in_flight = |s: &Segment| s.phase == Phase::InFlight;
        for index in 0..self.segments.len() {
            if lost.packets as usize == count {
                break;
            }
            if in_flight(&self.segments[index]) {
                self.lose(index, &mut lost);
            }
        }
        lost
    }

    /// Marks as lost everything in flight from `psn` on.
    pub(crate) fn lose_from(&mut self, psn: Psn) -> Acked {
        let mut lost = Acked::default();
        let first = psn.ahead_of(self.una).unwrap_or(0) as usize;
        for index in first..self.segments.len() {
            if self.segments[index].phase == Phase::InFlight {
                self.lose(index, &mut lost);
            }
        }
        lost
    }

    fn lose(&mut self, index: usize, lost: &mut Acked) {
        let psn = self.una.plus(index as u64);
        let segment = &mut self.segments[index];
        segment.phase = Phase::Lost;
        let bytes = Segment::wire_len(segment.len);
        self.in_flight -= bytes;
        lost.packets += 1;
        lost.bytes += bytes;
        let at = self.lost.partition_point(|other| *other < psn);
        self.lost.insert(at, psn);
    }

    /// Gives back room that is not needed.
    pub(crate) fn trim(&mut self) {
        self.segments.shrink_to(super::KEPT);
        self.lost.shrink_to(super::KEPT);
    }

    /// Gives up everything.
    pub(crate) fn clear(&mut self) {
        *self = Window { next_order: self.next_order, ..Window::new(self.next()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(segments: usize) -> Window {
        let mut window = Window::new(Psn(10));
        for _ in 0..segments {
            window.push(Time::ZERO, 0, 0, 40, PathId::new(0));
        }
        window
    }

    fn lose_overtaken_by(window: &mut Window, threshold: u64) -> u64 {
        window.detect(|_, by| by >= threshold).packets
    }

    #[test]
    fn a_cumulative_ack_frees_the_front() {
        let mut window = window(5);
        assert_eq!(window.in_flight(), 500);
        let acked = window.ack(Psn(13), std::iter::empty()).unwrap();
        assert_eq!((acked.packets, acked.bytes), (3, 300));
        assert_eq!((window.una(), window.next(), window.in_flight()), (Psn(13), Psn(15), 200));
    }

    #[test]
    fn an_ack_of_what_was_never_sent_is_refused() {
        assert!(window(5).ack(Psn(16), std::iter::empty()).is_none());
    }

    #[test]
    fn a_repeated_ack_counts_nothing_twice() {
        let mut window = window(5);
        assert_eq!(window.ack(Psn(10), [2, 3].into_iter()).unwrap().packets, 2);
        assert_eq!(window.ack(Psn(10), [2, 3].into_iter()).unwrap().packets, 0);
        assert_eq!(window.ack(Psn(14), std::iter::empty()).unwrap().packets, 2);
    }

    #[test]
    fn the_front_moves_over_what_an_earlier_bitmap_has_reported() {
        let mut window = window(4);
        window.ack(Psn(10), [2, 3].into_iter()).unwrap();
        window.ack(Psn(12), std::iter::empty()).unwrap();
        assert_eq!((window.una(), window.in_flight()), (Psn(14), 0));
        assert!(window.is_empty());
    }

    #[test]
    fn what_later_packets_overtook_is_lost_and_is_resent_oldest_first() {
        let mut window = window(6);
        window.ack(Psn(10), [1, 4, 5].into_iter()).unwrap();
        assert_eq!(lose_overtaken_by(&mut window, 3), 2);
        let (psn, _) = window.peek_lost().unwrap();
        assert_eq!(psn, Psn(10));
        window.resend(Time::ZERO, psn, PathId::new(1));
        assert_eq!(window.peek_lost().unwrap().0, Psn(12));
    }

    #[test]
    fn a_retransmission_is_not_lost_again_by_acks_of_earlier_transmissions() {
        let mut window = window(6);
        window.ack(Psn(10), [5].into_iter()).unwrap();
        assert_eq!(lose_overtaken_by(&mut window, 5), 1);
        window.resend(Time::ZERO, Psn(10), PathId::new(0));
        window.ack(Psn(10), [1, 2, 3, 4, 5].into_iter()).unwrap();
        assert_eq!(lose_overtaken_by(&mut window, 1), 0);
    }

    #[test]
    fn a_late_ack_of_a_lost_segment_cancels_its_retransmission() {
        let mut window = window(3);
        window.lose_from(Psn(10));
        assert_eq!(window.in_flight(), 0);
        window.ack(Psn(12), std::iter::empty()).unwrap();
        assert_eq!(window.peek_lost().unwrap().0, Psn(12));
        assert_eq!(window.in_flight(), 0);
    }
}
