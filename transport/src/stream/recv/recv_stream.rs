//! One receiving stream: the PSNs that have arrived, the effects that become due as the ePSN
//! advances, and the pending acknowledgement.
//!
//! Invariants: every PSN below `epsn` has arrived. `arrived` holds those at or above it, and
//! `early` counts them. `events` is sorted by PSN, with all PSNs at or above `epsn`; `requests`
//! counts those that expect a response.

use std::collections::VecDeque;
use std::time::Duration;

use braid_wire::{Ack, Bitmap, DataHeader, NakCode, PathId, Psn, QpId, Stream, Time, Token};

use super::effect::Effect;
use super::last_ack::LastAck;
use super::pending_ack::PendingAck;
use super::refusal::Refusal;
use super::refusals::Refusals;
use crate::places::visit_value;
use crate::stream::marks::CountedMarks;
use crate::stream::paws::Paws;
use crate::stream::psn_run::PsnRun;
use crate::stream::psn_set::PsnSet;
use crate::{QpConfig, Remote};

/// The longest delay of an acknowledgement that the peer did not request, ...
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_micros(500);
/// ... and the number of packets after which it leaves in any case.
const MAX_UNACKED: u32 = 128;

/// A run of data packets from the driver, which has decoded them and checked their payloads: one
/// packet, or several that continue each other, see [`braid_wire::DataRun`].
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The header of one segment with the bytes of all.
    pub header: &'a DataHeader,
    /// Number of segments, at least 1.
    pub segments: u32,
    /// The stamp of the final segment.
    pub stamp: u32,
    /// The path that the packets took, from their UDP source port.
    pub path: PathId,
    /// Whether each of them carries a congestion mark (ECN CE).
    pub congestion: bool,
    /// Whether the application polls for messages and may reply at once, see
    /// [`crate::QpConfig::reply_wait`].
    pub may_be_replied_to: bool,
}

/// The state of a PSN in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PsnPlace {
    New,
    Duplicate,
}

#[derive(Clone, Debug)]
pub(crate) struct RecvStream {
    stream: Stream,
    epsn: Psn,
    arrived: PsnSet,
    early: u32,
    highest: Option<Psn>,
    paws: Paws,
    events: VecDeque<(Psn, Effect)>,
    requests: usize,
    refusals: Refusals,
    pending_ack: PendingAck,
    last_ack: LastAck,
    received: u32,
    duplicates: u32,
    marks: CountedMarks,
}

impl RecvStream {
    pub(crate) fn new(stream: Stream, remote: &Remote, config: &QpConfig) -> Self {
        let first = Psn(remote.recv_psn.into());
        RecvStream {
            stream,
            epsn: first,
            arrived: PsnSet::new(first),
            early: 0,
            highest: None,
            paws: Paws::default(),
            events: VecDeque::new(),
            requests: 0,
            refusals: Refusals::none(),
            pending_ack: PendingAck::nothing(config.reply_hold, config.reply_wait),
            last_ack: LastAck::default(),
            received: 0,
            duplicates: 0,
            marks: CountedMarks::default(),
        }
    }

    /// Visits the places in memory of what has arrived, of the first effect and of the marks.
    pub(crate) fn rings(&self, mut visit: impl FnMut(*const u8, usize)) {
        visit(self.events.as_slices().0.as_ptr().cast(), size_of::<(Psn, Effect)>());
        self.marks.rings(&mut visit);
        self.arrived.rings(visit);
    }

    /// Visits the places in memory of what is checked of a stream on which nothing arrives.
    pub(crate) fn parts_of_idle(&self, mut visit: impl FnMut(*const u8, usize)) {
        visit_value(&self.pending_ack, &mut visit);
        visit_value(&self.refusals, &mut visit);
    }

    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    pub(crate) fn epsn(&self) -> Psn {
        self.epsn
    }

    /// Records the arrival of packets of the window, whatever becomes of them. Their
    /// acknowledgement will echo the stamp of the last.
    #[inline(always)] // called for each packet, from two places
    pub(crate) fn record(&mut self, now: Time, arrival: &Arrival<'_>) {
        let Arrival { header, segments, stamp, path, congestion, may_be_replied_to } = *arrival;
        let asks = header.ack_request;
        self.received = self.received.wrapping_add(segments);
        if congestion {
            self.marks.count(path, segments);
        }
        let is_first = self.pending_ack.unacked == 0;
        self.pending_ack.unacked += segments;
        if self.pending_ack.unacked >= MAX_UNACKED {
            self.ack_now();
        } else if asks && !self.pending_ack.asked {
            self.pending_ack.ask();
            if may_be_replied_to {
                self.pending_ack.wait_for_reply(now);
            }
        } else if is_first && !self.pending_ack.asked {
            self.pending_ack.by(now + MAX_ACK_DELAY);
        }
        (self.pending_ack.stamp, self.pending_ack.path, self.pending_ack.arrived) =
            (stamp, path, now);
    }

    /// Whether packets that seem new were sent before the PSN wrapped. The stamps of all are
    /// between those of the first and the last.
    pub(crate) fn is_stale(&self, now: Time, psns: PsnRun, (first, last): (u32, u32)) -> bool {
        psns.first >= self.epsn && (self.paws.is_stale(now, first) || self.paws.is_stale(now, last))
    }

    /// Returns the state of PSNs, with a window of `window` packets. Several are new if each is.
    ///
    /// # Errors
    /// See [`check_window`].
    pub(crate) fn locate(&self, psns: PsnRun, window: u16) -> Result<PsnPlace, Refusal> {
        check_window(psns, self.epsn, window)?;
        match psns.first < self.epsn || self.arrived.has_any(psns) {
            true => Ok(PsnPlace::Duplicate),
            false => Ok(PsnPlace::New),
        }
    }

    /// Makes an acknowledgement due at once.
    pub(crate) fn ack_now(&mut self) {
        self.pending_ack.due = Time::ZERO;
    }

    /// Makes a pending acknowledgement leave with the next transmission, whatever it waits for.
    pub(crate) fn expedite_ack(&mut self) {
        self.pending_ack.expedite();
    }

    /// Counts a duplicate packet. `again`: it is a retransmission, so the peer seems not to have
    /// received the acknowledgement.
    pub(crate) fn count_duplicate(&mut self, again: bool) {
        self.duplicates = self.duplicates.wrapping_add(1);
        self.last_ack.leaves_twice |= again;
        self.ack_now();
    }

    /// Marks new PSNs as arrived, with the stamp of the first. `event` belongs to the last. The
    /// ePSN moves only with [`RecvStream::advance`]. Returns the distance of the first from the
    /// ePSN.
    pub(crate) fn insert(
        &mut self,
        now: Time,
        psns: PsnRun,
        stamp: u32,
        event: Option<Effect>,
    ) -> u64 {
        let last = psns.last();
        self.paws.pass(now, self.epsn, psns.first, stamp);
        self.arrived.insert(psns);
        self.refusals.on_arrival(psns);
        self.early += psns.count;
        self.highest = self.highest.max(Some(last));
        if let Some(event) = event {
            self.requests += usize::from(event.is_request());
            let at = self.events.partition_point(|(other, _)| *other < last);
            self.events.insert(at, (last, event));
        }
        let ahead = psns.first.0 - self.epsn.0;
        // A packet that fills a gap is acknowledged at once, too (RFC 5681, section 4.2). The last
        // packet that requested an acknowledgement may have overtaken it on another path.
        if ahead > 0 || self.early > psns.count {
            self.ack_now();
        }
        ahead
    }

    /// Handles a packet that is dropped because an earlier one is missing; an acknowledgement
    /// reports it.
    pub(crate) fn pass_over(&mut self, psn: Psn) {
        self.highest = self.highest.max(Some(psn));
        self.ack_now();
    }

    /// Moves the ePSN over everything that has arrived.
    pub(crate) fn advance(&mut self) {
        let before = self.epsn;
        while self.early > 0 {
            let arrived = self.arrived.word(self.epsn).trailing_ones();
            self.epsn = self.epsn.plus(arrived.into());
            self.early -= arrived;
            if arrived < u64::BITS {
                break;
            }
        }
        if self.epsn > before {
            self.arrived.forget_below(self.epsn);
            // A dropped PSN says nothing about the new ePSN, because the sender has gone back.
            self.highest = self.highest.filter(|_| self.early > 0);
        }
    }

    /// Returns the next event whose message, and everything before it, has arrived. Messages after
    /// a refused one have no effect.
    pub(crate) fn pop_event(&mut self) -> Option<(Psn, Effect)> {
        let refused = self.refusals.first_refused();
        let end = refused.map_or(self.epsn, |refused| refused.min(self.epsn));
        let due = self.events.front().is_some_and(|(psn, _)| *psn < end);
        let (psn, event) = if due { self.events.pop_front() } else { None }?;
        self.requests -= usize::from(event.is_request());
        Some((psn, event))
    }

    /// Number of READs and atomics that wait for earlier packets to arrive.
    pub(crate) fn waiting_requests(&self) -> usize {
        self.requests
    }

    /// Refuses a PSN for good; the lowest of several counts.
    pub(crate) fn refuse(&mut self, code: NakCode, psn: Psn) {
        self.refusals.refuse(code, psn);
        self.ack_now();
    }

    /// Whether this PSN is a refused one or comes after one.
    pub(crate) fn is_barred(&self, psn: Psn) -> bool {
        self.refusals.first_refused().is_some_and(|refused| psn >= refused)
    }

    /// Whether something was refused for good.
    #[inline]
    pub(crate) fn has_refused(&self) -> bool {
        self.refusals.is_any()
    }

    /// Returns the refusal, once everything before the refused PSN has arrived.
    pub(crate) fn due_refusal(&self) -> Option<NakCode> {
        self.refusals.due(self.epsn).map(|(code, _)| code)
    }

    /// Returns the first PSN that has not taken effect, and the reason if it was refused.
    pub(crate) fn end(&self) -> (Psn, Option<NakCode>) {
        match self.refusals.due(self.epsn) {
            Some((code, psn)) => (psn, Some(code)),
            None => (self.epsn, None),
        }
    }

    /// Refuses a PSN because there is no receive for it. All acknowledgements repeat that while the
    /// peer pauses. One on another path may overtake the first, and the refused packet must not
    /// seem lost.
    pub(crate) fn refuse_for_now(&mut self, now: Time, psn: Psn) {
        self.refusals.refuse_for_now(now, psn);
        self.ack_now();
    }

    /// Reports in the next acknowledgement that this PSN could not be served. Has no other effect
    /// here.
    pub(crate) fn report_unserved(&mut self, code: NakCode, psn: Psn) {
        self.refusals.report(code, psn);
        self.ack_now();
    }

    /// Releases unused memory.
    pub(crate) fn trim(&mut self) {
        self.arrived.shrink_to(crate::idle::KEPT_ENTRIES);
        self.events.shrink_to(crate::idle::KEPT_ENTRIES);
    }

    /// Time at which an acknowledgement becomes due that the peer did not request;
    /// [`Time::FAR_FUTURE`]: none. One that is due already needs no timer, because it leaves with
    /// the next transmission.
    pub(crate) fn ack_deadline(&self) -> Time {
        if self.pending_ack.due == Time::ZERO { Time::FAR_FUTURE } else { self.pending_ack.due }
    }

    /// Handles data that is sent to the peer.
    pub(crate) fn on_reply(&mut self, now: Time) {
        self.pending_ack.on_reply(now);
    }

    /// Handles the response to the request at `psn`, which leaves. If nothing has arrived after
    /// that request, the response acknowledges everything. The acknowledgement can then wait as
    /// long as one that the peer did not request.
    pub(crate) fn on_response_sent(&mut self, now: Time, psn: Psn) {
        if psn.plus(1) == self.epsn && self.early == 0 {
            self.pending_ack.on_implied(now + MAX_ACK_DELAY);
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.is_ack_overdue(now) {
            self.ack_now();
        }
    }

    pub(crate) fn is_ack_due(&self, now: Time) -> bool {
        self.is_ack_overdue(now)
            || (self.pending_ack.asked
                && !self.pending_ack.replied
                && !self.pending_ack.awaits_reply)
    }

    /// Whether an acknowledgement is due before the application is notified of what has arrived.
    /// The process may end right after that, and its peer would take a delivered message for lost.
    /// An acknowledgement only waits for a reply, if replies are usual.
    pub(crate) fn is_ack_due_at_once(&self, now: Time) -> bool {
        let waits = self.pending_ack.replied || self.pending_ack.is_reply_usual;
        self.is_ack_overdue(now) || (self.pending_ack.asked && !waits)
    }

    /// Whether an acknowledgement is due even before data that could leave.
    pub(crate) fn is_ack_overdue(&self, now: Time) -> bool {
        self.pending_ack.due <= now
    }

    /// Takes the acknowledgement; nothing is pending afterwards.
    pub(crate) fn take_ack(
        &mut self,
        now: Time,
        qp: QpId,
        token: Token,
        rnr_delay: Duration,
    ) -> Ack {
        let taken = self.epsn.0 + u64::from(self.early);
        // The last echo is kept: an ack without a new packet still has a true delay.
        self.pending_ack.leave();
        self.last_ack.count(taken);
        let nak = self.refusals.take_nak(now, self.epsn, rnr_delay);
        let highest = self.highest.unwrap_or(Psn(self.epsn.0.wrapping_sub(1)));
        Ack {
            qp,
            token,
            stream: self.stream,
            cumulative: self.epsn.wire(),
            highest: highest.wire(),
            nak: nak.map(|(code, psn)| (code, psn.wire())),
            rnr_delay_us: u32::try_from(rnr_delay.as_micros()).unwrap_or(u32::MAX),
            path: self.pending_ack.path,
            stamp: self.pending_ack.stamp,
            delay_ns: u32::try_from((now - self.pending_ack.arrived).as_nanos())
                .unwrap_or(u32::MAX),
            received: self.received,
            duplicates: self.duplicates,
            bitmap: self.bitmap(),
            marks: self.marks.report(),
        }
    }

    /// Records the path of an acknowledgement. If the peer seems not to receive it, it leaves once
    /// more, on the next of the paths that repetitions take in turn.
    pub(crate) fn on_acked_by(&mut self, path: PathId) {
        self.last_ack.path = Some(path);
        if std::mem::take(&mut self.last_ack.leaves_twice) {
            self.ack_now();
        }
    }

    /// The path of the last acknowledgement.
    pub(crate) fn acked_by(&self) -> Option<PathId> {
        self.last_ack.path
    }

    /// Number of acknowledgements in a row that reported the same number of packets. If packets
    /// arrive nevertheless, the acknowledgements are lost.
    pub(crate) fn repeats(&self) -> u32 {
        self.last_ack.repeats
    }

    /// The PSNs that have arrived beyond the ePSN: bit 0 is the ePSN.
    fn bitmap(&self) -> Bitmap {
        match self.early {
            0 => Bitmap::default(),
            _ => Bitmap::new(self.arrived.words(self.epsn).collect()),
        }
    }
}

/// Checks that PSNs may be the peer's when `epsn` is expected. A sender is never more than a window
/// ahead of what it knows to have arrived. So a PSN further ahead is not the peer's, and one
/// further behind is not sent again.
///
/// # Errors
/// [`Refusal::Window`] and [`Refusal::Behind`].
pub(crate) fn check_window(psns: PsnRun, epsn: Psn, window: u16) -> Result<(), Refusal> {
    let window = u64::from(window);
    if psns.first.plus(window) < epsn {
        return Err(Refusal::Behind);
    }
    if psns.last() >= epsn.plus(window) { Err(Refusal::Window) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
