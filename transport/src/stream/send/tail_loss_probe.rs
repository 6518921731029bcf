//! The tail loss probe, for losses at the end of what a stream has to send or may send.
//!
//! Nothing follows the last segments that would show that they are lost. A time-out has to wait for
//! the slowest path, and may take as long as the whole transfer before. So once nothing is left to
//! send, overtaken segments that are late count as lost (RFC 9002, section 6.1.2, and the
//! reordering timer of RFC 8985, section 6.2). If there are none, the oldest segment is sent again,
//! once, to elicit an acknowledgement (tail loss probe, RFC 8985, section 7). The RFC sends the
//! newest segment. Here a retransmission has a newer order, and the oldest segment is the one that
//! is late.
//!
//! The same check is made if the window is full: segments on a path that fails fill it, and then
//! nothing else leaves that could overtake them. But no probe is sent there.
//!
//! The probe itself is not reported to controllers and paths. Its answer is: if the segment has
//! arrived only once, the first transmission was lost (RFC 8985, section 7.4).

use std::time::Duration;

use braid_lb::{Outcome, Rails};
use braid_wire::Time;

use super::next_segment::NextSegment;
use super::on_ack::Because;
use super::probes::TailProbe;
use super::segment::{Echo, Phase, Tally};
use super::send_limits::Block;
use super::send_stream::{SendStream, Timeout};

impl SendStream {
    /// Sets the timer so that [`SendStream::check_tail`] runs in time, because nothing can be sent
    /// before the next acknowledgement. It runs once after each transmission or arrival.
    #[inline]
    pub(crate) fn expect_tail(&mut self, now: Time) {
        if let Some(tail_delay) = self.subflows.tail_delay()
            && self.clock.checked_at <= self.clock.started_at
        {
            self.clock.deadline =
                self.clock.deadline.map(|deadline| deadline.min(now + tail_delay));
        }
    }

    /// Whether the stream has nothing left to send and only waits for acknowledgements.
    fn is_at_end(&self) -> bool {
        matches!(self.next_segment, NextSegment::Blocked(Block::Nothing))
    }

    /// Whether the stream sends nothing before it receives an acknowledgement, and age may show
    /// that segments are lost.
    fn may_have_lost(&self) -> bool {
        matches!(self.next_segment, NextSegment::Blocked(_))
            && (self.clock.timeouts, self.losses.probes.due) == (0, 0)
            && !(self.rnr.awaits_receiver || self.losses.probes.was_late)
            && self.losses.detector.uses_time()
    }

    /// Checks the end of the stream before the time-out at `timeout_at`. Returns `None` if the
    /// time-out has to handle it. `longest`: the longest recent round trip.
    pub(super) fn check_tail(
        &mut self,
        now: Time,
        longest: Duration,
        timeout_at: Time,
        rails: &mut Rails,
    ) -> Option<Timeout> {
        if !matches!(self.next_segment, NextSegment::Unknown) {
            self.clock.checked_at = now;
        }
        let late = self.subflows.late(longest).filter(|_| self.may_have_lost())?;
        let (psn, &oldest) = self.window.oldest_in_flight()?;
        let due = oldest.sent_at + late;
        if due >= timeout_at {
            return None;
        }
        if now < due {
            self.clock.deadline = Some(due);
            return Some(Timeout::None);
        }
        let lost = self.lose(now, rails, Because::Time, |_, window, lost| {
            window.lose_overtaken(lost, |segment, _| now - segment.sent_at >= late);
        });
        if lost.packets == 0 && (self.losses.probes.tail.is_some() || !self.is_at_end()) {
            return None;
        }
        if lost.packets == 0 {
            self.window.lose_one(psn, &mut |_| {});
            self.losses.probes.tail = Some(TailProbe { psn, before: oldest });
            self.losses.probes.due = 1;
        }
        self.losses.probes.was_late = true;
        self.report_lost(now, lost, 0);
        self.clock.waited += due.saturating_since(self.clock.started_at);
        self.clock.max_rtt = self.clock.max_rtt.max(longest);
        self.wait(now);
        Some(Timeout::Tail(lost.packets))
    }

    /// Whether an acknowledgement with this echo answers the probe.
    #[inline]
    pub(super) fn answers_probe(&self, echo: Echo) -> bool {
        let Some(TailProbe { psn, .. }) = self.losses.probes.tail else { return false };
        self.window.get(psn).is_some_and(|segment| {
            segment.phase == Phase::InFlight && segment.again && segment.is_certain(echo)
        })
    }

    /// Handles the acknowledgement of the probe. `spurious`: number of spurious retransmissions
    /// that it reports. Returns the segments lost before the probe.
    pub(super) fn on_probe_answered(
        &mut self,
        now: Time,
        spurious: u32,
        rails: &mut Rails,
    ) -> Tally {
        if spurious > 0 {
            self.forget_probe();
        }
        self.lose_probed(now, Because::Proof, rails)
    }

    /// Declares the transmission before the probe lost.
    pub(super) fn lose_probed(&mut self, now: Time, because: Because, rails: &mut Rails) -> Tally {
        let Some(TailProbe { before, .. }) = self.losses.probes.tail.take() else {
            return Tally::default();
        };
        self.lose(now, rails, because, |_, _, lost| lost(&before))
    }

    /// Drops the probe if its segment is acknowledged, because it is not known which transmission
    /// arrived.
    pub(super) fn follow_probe(&mut self) {
        let Some(TailProbe { psn, .. }) = self.losses.probes.tail else { return };
        if self.window.get(psn).is_none_or(|segment| segment.phase == Phase::Acked) {
            self.forget_probe();
        }
    }

    pub(super) fn forget_probe(&mut self) {
        if let Some(TailProbe { before, .. }) = self.losses.probes.tail.take() {
            self.losses.unreported.push((before.path, Outcome::Forgotten { packets: 1 }));
        }
    }
}
