//! Time-outs of an outgoing stream, and the pauses of a receiver that is not ready.

use std::time::Duration;

use braid_lb::{Outcome, Rails};
use braid_wire::{Psn, Time};

use super::next_segment::NextSegment;
use super::on_ack::Because;
use super::recovery::report::PROBES;
use super::segment::Phase;
use super::send_stream::{SendStream, Timeout};
use crate::patience::patience;

/// The shortest pause that a receiver can ask for: the minimum of the RNR NAK timer field (IBTA
/// vol. 1, 9.7.5.2.8).
const SHORTEST_PAUSE: Duration = Duration::from_micros(10);

impl SendStream {
    /// Handles the peer's refusal of the work request of the segment at `psn`. That segment and all
    /// later ones are not sent again. The peer may still take long to answer earlier requests.
    #[cold]
    pub(crate) fn on_refused(&mut self, psn: Psn) {
        self.next_segment = NextSegment::Unknown;
        let unreported = &mut self.losses.unreported;
        self.window.refuse_from(psn, &mut |segment| {
            unreported.push((segment.path, Outcome::Forgotten { packets: 1 }));
        });
        self.forget_probe();
        if !self.window.awaits_ack() {
            (self.clock.deadline, self.rnr.paused_until) = (None, None);
            self.losses.forget_suspects();
        }
    }

    pub(crate) fn forget_timeouts(&mut self) {
        self.clock.forget_timeouts();
    }

    /// Handles "receiver not ready" for the message at `psn`. `stamp`: departure of the refused
    /// packet. Returns false if `retry` is exceeded.
    pub(crate) fn on_receiver_not_ready(
        &mut self,
        now: Time,
        psn: Psn,
        stamp: u32,
        delay: Duration,
        retry: Option<u8>,
    ) -> bool {
        if !self.rnr.rounds.is_of_round(now, stamp) {
            return true;
        }
        let segments = [psn, self.window.una()].map(|psn| self.window.get(psn));
        let [Some(refused), Some(oldest)] = segments else { return true };
        if matches!(refused.phase, Phase::Acked | Phase::Skipped | Phase::Released) {
            return true;
        }
        // A message may be refused only because an earlier segment is missing. This end has skipped
        // that segment, or a shared receive queue keeps the receive for another queue pair.
        let ours = refused.source != oldest.source
            || self.window.skipped().is_some_and(|skipped| skipped < psn);
        let times = if ours { 0 } else { self.rnr.rounds.count(refused.source, oldest.source) };
        if self.rnr.paused_until.is_none() {
            self.rnr.paused_until = Some(now + delay.max(SHORTEST_PAUSE));
            self.forget_timeouts();
        }
        retry.is_none_or(|limit| times <= u32::from(limit))
    }

    /// Time at which to call [`SendStream::on_timeout`]; [`Time::FAR_FUTURE`]: never.
    pub(crate) fn next_timeout(&self) -> Time {
        self.rnr.paused_until.or(self.clock.deadline).unwrap_or(Time::FAR_FUTURE)
    }

    /// Restarts the retransmission timer.
    pub(crate) fn wait(&mut self, now: Time) {
        self.clock.start(now, self.rto());
    }

    /// Handles the expiry of the timer. `longest`: the longest recent delay of an acknowledgement,
    /// for any queue pair of the endpoint. An acknowledgement of this stream may wait in the same
    /// queues, so it is not late before twice that time.
    pub(crate) fn on_timeout(
        &mut self,
        now: Time,
        longest: Duration,
        retry_timeout: Duration,
        rails: &mut Rails,
    ) -> Timeout {
        if let Some(until) = self.rnr.paused_until {
            self.resume(now, until, rails);
            return Timeout::None;
        }
        if self.clock.deadline.is_none_or(|deadline| now < deadline) {
            return Timeout::None;
        }
        if !self.window.awaits_ack() {
            self.clock.deadline = None;
            return Timeout::None;
        }
        let wait = (2 * longest).min(self.subflows.longest_wait()).max(self.rto());
        let timeout_at = self.clock.started_at + wait;
        if let Some(outcome) = self.check_tail(now, longest, timeout_at, rails) {
            return outcome;
        }
        if now < timeout_at {
            self.clock.deadline = Some(timeout_at);
            return Timeout::None;
        }
        // Counts the length of the time-out, not the time that has passed: while the driver does
        // not run, it does not receive.
        self.clock.waited += wait;
        self.clock.timeouts = self.clock.timeouts.saturating_add(1);
        self.clock.max_rtt = self.clock.max_rtt.max(longest);
        if self.clock.waited >= patience(retry_timeout, self.clock.max_rtt) {
            return Timeout::GiveUp;
        }
        rails.on_timeout(self.stream, now);
        self.subflows.on_timeout(now, self.window.in_flight());
        self.follow_window();
        self.window.release_oldest();
        let probed = self.lose_probed(now, Because::Time, rails);
        let lost = self.lose(now, rails, Because::Time, |detector, window, lost| {
            detector.on_timeout(now, window, lost);
        });
        self.losses.probes.due = PROBES;
        self.wait(now);
        Timeout::Resend(probed.packets + lost.packets)
    }

    /// Ends the pause that a "receiver not ready" has asked for. The refused segments are sent
    /// again, and so are all older ones that have not arrived, because nothing else would show that
    /// they are lost. The oldest leaves alone: if the receiver is still not ready, one segment is
    /// wasted and not a whole window. None of them counts as lost: they were refused on arrival, or
    /// their fate is unknown. Otherwise the path set would take paths out of use that seem to have
    /// lost a whole window.
    fn resume(&mut self, now: Time, until: Time, rails: &mut Rails) {
        if now < until {
            return;
        }
        self.rnr.paused_until = None;
        self.rnr.rounds.begin_round(now);
        self.window.release_oldest();
        let (una, stream) = (self.window.una(), self.stream);
        self.window.lose_from(una, usize::MAX, &mut |segment| {
            rails.on_feedback(stream, now, segment.path, Outcome::Forgotten { packets: 1 });
        });
        self.losses.probes.due = 1;
        self.rnr.awaits_receiver = !self.window.is_empty();
        self.wait(now);
    }
}
