//! One receiving stream: which PSNs have arrived, what becomes due as the ePSN advances, and the
//! acknowledgement that is pending.
//!
//! Invariants: every PSN below `epsn` has arrived; `arrived` holds those at or above it, and
//! `early` counts them; `events` is sorted by PSN and all at or above `epsn`, and `requests` counts
//! those among them that want an answer.

use std::collections::VecDeque;
use std::time::Duration;

use braid_wire::{Ack, Bitmap, DataHeader, NakCode, PathId, Psn, QpId, Stream, Time, Token};

use super::effect::Effect;
use super::pending_ack::PendingAck;
use super::refusal::Refusal;
use crate::stream::marks::CountedMarks;
use crate::stream::paws::Paws;
use crate::stream::psn_set::PsnSet;
use crate::{QpConfig, Remote};

/// The longest delay of an acknowledgement that the peer did not ask for, ...
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_micros(500);
/// ... or after this many of them.
const MAX_UNACKED: u32 = 128;

/// A data packet as the driver hands it in: decoded, and its payload's check made.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its header.
    pub header: &'a DataHeader,
    /// The path it took, from the UDP source port.
    pub path: PathId,
    /// Whether it carries a congestion mark (ECN CE).
    pub congestion: bool,
    /// Whether the application looks for what comes and may reply at once: see
    /// [`crate::QpConfig::reply_wait`].
    pub may_be_replied_to: bool,
}

/// Where a PSN of the window stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PsnPlace {
    New,
    Duplicate,
}

#[derive(Clone, Debug)]
pub(crate) struct RecvStream {
    stream: Stream,
    /// Time that an acknowledgement waits after its message was replied to, and for a reply.
    reply_hold: Duration,
    reply_wait: Duration,
    epsn: Psn,
    arrived: PsnSet,
    early: u32,
    highest: Option<Psn>,
    paws: Paws,
    events: VecDeque<(Psn, Effect)>,
    requests: usize,
    /// The lowest PSN that was refused for good, and why. Nothing from there on is taken.
    refusal: Option<(NakCode, Psn)>,
    /// The refusal for the next acknowledgement: of several since the last one the lowest.
    complaint: Option<(NakCode, Psn)>,
    /// When there was cause for it last.
    complained_at: Time,
    /// An ack has said it.
    is_complaint_told: bool,
    pending_ack: PendingAck,
    received: u32,
    duplicates: u32,
    marks: CountedMarks,
    /// The path of the last acknowledgement.
    acked_by: Option<PathId>,
    /// The next acknowledgement leaves by two paths.
    answers_twice: bool,
}

impl RecvStream {
    pub(crate) fn new(stream: Stream, remote: &Remote, config: &QpConfig) -> Self {
        let first = Psn(remote.recv_psn.into());
        RecvStream {
            stream,
            reply_hold: config.reply_hold,
            reply_wait: config.reply_wait,
            epsn: first,
            arrived: PsnSet::new(first),
            early: 0,
            highest: None,
            paws: Paws::default(),
            events: VecDeque::new(),
            requests: 0,
            refusal: None,
            complaint: None,
            complained_at: Time::ZERO,
            is_complaint_told: false,
            pending_ack: PendingAck::nothing(),
            received: 0,
            duplicates: 0,
            marks: CountedMarks::default(),
            acked_by: None,
            answers_twice: false,
        }
    }

    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    pub(crate) fn epsn(&self) -> Psn {
        self.epsn
    }

    /// Records that a packet of the window came, whatever becomes of it. Its acknowledgement will
    /// echo its stamp.
    pub(crate) fn record(&mut self, now: Time, arrival: &Arrival<'_>) {
        let Arrival { header, path, congestion, may_be_replied_to } = *arrival;
        let (stamp, asks) = (header.stamp, header.ack_request);
        self.received = self.received.wrapping_add(1);
        if congestion {
            self.marks.count(path);
        }
        self.pending_ack.unacked += 1;
        if self.pending_ack.unacked >= MAX_UNACKED {
            self.ack_now();
        } else if asks && !self.pending_ack.asked {
            self.pending_ack.ask();
            let may_wait = may_be_replied_to && self.pending_ack.is_reply_usual;
            if may_wait && !self.reply_wait.is_zero() {
                self.pending_ack.awaits_reply = true;
                self.pending_ack.by(now + self.reply_wait);
            }
        } else if self.pending_ack.unacked == 1 && !self.pending_ack.asked {
            self.pending_ack.by(now + MAX_ACK_DELAY);
        }
        (self.pending_ack.stamp, self.pending_ack.path, self.pending_ack.arrived) =
            (stamp, path, now);
    }

    /// Whether a packet that seems new comes from before the PSN has wrapped.
    pub(crate) fn is_stale(&self, now: Time, psn: Psn, stamp: u32) -> bool {
        psn >= self.epsn && self.paws.is_stale(now, stamp)
    }

    /// Where the PSN stands, with a window of `window` packets.
    ///
    /// # Errors
    /// See [`check_window`].
    pub(crate) fn locate(&self, psn: Psn, window: u16) -> Result<PsnPlace, Refusal> {
        check_window(psn, self.epsn, window)?;
        match psn < self.epsn || self.arrived.has(psn) {
            true => Ok(PsnPlace::Duplicate),
            false => Ok(PsnPlace::New),
        }
    }

    /// The sender should hear about this at once.
    pub(crate) fn ack_now(&mut self) {
        self.pending_ack.due = Time::ZERO;
    }

    /// An acknowledgement that waits for anything leaves with the next transmission.
    pub(crate) fn hasten_ack(&mut self) {
        self.pending_ack.hasten();
    }

    /// Counts a packet that has arrived before. `again`: it was sent again, so the peer seems not
    /// to have heard of it.
    pub(crate) fn count_duplicate(&mut self, again: bool) {
        self.duplicates = self.duplicates.wrapping_add(1);
        self.answers_twice |= again;
        self.ack_now();
    }

    /// Marks a new PSN as arrived, with its stamp. The ePSN moves only with
    /// [`RecvStream::advance`]. Returns the distance from the ePSN.
    pub(crate) fn insert(&mut self, now: Time, psn: Psn, stamp: u32, event: Option<Effect>) -> u64 {
        self.paws.pass(now, self.epsn, psn, stamp);
        self.arrived.insert(psn);
        // What was refused and comes again before an ack has said so is told all the same: its
        // sender would take the first transmission for lost.
        if let Some((_, refused)) = self.complaint
            && self.is_complaint_told
            && refused == psn
        {
            self.complaint = None;
        }
        self.early += 1;
        self.highest = self.highest.max(Some(psn));
        if let Some(event) = event {
            self.requests += usize::from(event.is_request());
            let at = self.events.partition_point(|(other, _)| *other < psn);
            self.events.insert(at, (psn, event));
        }
        let ahead = psn.0 - self.epsn.0;
        if ahead > 0 {
            self.ack_now();
        }
        ahead
    }

    /// Drops a packet because one before it is missing, and says so.
    pub(crate) fn pass_over(&mut self, psn: Psn) {
        self.highest = self.highest.max(Some(psn));
        self.ack_now();
    }

    /// Moves the ePSN over everything that has arrived.
    pub(crate) fn advance(&mut self) {
        let before = self.epsn;
        while self.early > 0 && self.arrived.has(self.epsn) {
            self.epsn = self.epsn.plus(1);
            self.early -= 1;
        }
        if self.epsn > before {
            self.arrived.forget_below(self.epsn);
            // A PSN that was passed over says nothing about the new ePSN: the sender has gone back.
            self.highest = self.highest.filter(|_| self.early > 0);
        }
    }

    /// The next event whose message, and everything before it, has arrived. Behind a refused
    /// message nothing happens any more.
    pub(crate) fn pop_event(&mut self) -> Option<(Psn, Effect)> {
        let refused = self.refusal.map_or(self.epsn, |(_, refused)| refused);
        let end = refused.min(self.epsn);
        let due = self.events.front().is_some_and(|(psn, _)| *psn < end);
        let (psn, event) = if due { self.events.pop_front() } else { None }?;
        self.requests -= usize::from(event.is_request());
        Some((psn, event))
    }

    /// READs and atomics that have arrived and not taken effect: something before them is missing.
    pub(crate) fn waiting_requests(&self) -> usize {
        self.requests
    }

    /// Refuses a PSN for good; of several the lowest counts.
    pub(crate) fn refuse(&mut self, code: NakCode, psn: Psn) {
        if self.refusal.is_none_or(|(_, other)| psn < other) {
            self.refusal = Some((code, psn));
        }
        self.ack_now();
    }

    /// Whether this PSN lies behind one that was refused.
    pub(crate) fn is_barred(&self, psn: Psn) -> bool {
        self.refusal.is_some_and(|(_, refused)| psn >= refused)
    }

    /// Whether something was refused for good.
    #[inline]
    pub(crate) fn has_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// The refusal, once everything before the refused PSN has arrived.
    pub(crate) fn due_refusal(&self) -> Option<NakCode> {
        self.refusal.filter(|(_, psn)| *psn <= self.epsn).map(|(code, _)| code)
    }

    /// The first PSN that has not taken effect, and why, if it was refused.
    pub(crate) fn end(&self) -> (Psn, Option<NakCode>) {
        match self.refusal.filter(|(_, psn)| *psn <= self.epsn) {
            Some((code, psn)) => (psn, Some(code)),
            None => (self.epsn, None),
        }
    }

    /// There is no receive for this PSN. Acks that leave while the peer pauses for that say so,
    /// too: by another path they may overtake the first, and what is refused is not to be taken for
    /// lost.
    pub(crate) fn refuse_for_now(&mut self, now: Time, psn: Psn) {
        self.complained_at = now;
        self.complain(NakCode::ReceiverNotReady, psn);
    }

    /// Says in the next ack that this PSN could not be served; nothing else follows from it here.
    pub(crate) fn complain(&mut self, code: NakCode, psn: Psn) {
        // One that an ack has told may be served before the next, which would then say nothing.
        if self.is_complaint_told || self.complaint.is_none_or(|(_, other)| psn < other) {
            (self.complaint, self.is_complaint_told) = (Some((code, psn)), false);
        }
        self.ack_now();
    }

    /// Gives back room that is not needed.
    pub(crate) fn trim(&mut self) {
        self.arrived.shrink_to(crate::idle::KEPT_ENTRIES);
        self.events.shrink_to(crate::idle::KEPT_ENTRIES);
    }

    /// Time at which an acknowledgement becomes due that the peer did not ask for;
    /// [`Time::FAR_FUTURE`]: none. One that is due needs no timer: it leaves with the next
    /// transmission.
    pub(crate) fn ack_deadline(&self) -> Time {
        if self.pending_ack.due == Time::ZERO { Time::FAR_FUTURE } else { self.pending_ack.due }
    }

    /// Data has been sent to the peer.
    pub(crate) fn on_reply(&mut self, now: Time) {
        self.pending_ack.on_reply(now, self.reply_hold);
    }

    /// The response to the request `psn` has been sent. If nothing has arrived behind that, the
    /// response acknowledges all there is: its acknowledgement can wait as if nobody had asked.
    pub(crate) fn on_response(&mut self, now: Time, psn: Psn) {
        if psn.plus(1) == self.epsn && self.early == 0 {
            self.pending_ack.on_implied(now + MAX_ACK_DELAY);
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.owes_ack_first(now) {
            self.ack_now();
        }
    }

    pub(crate) fn owes_ack(&self, now: Time) -> bool {
        self.owes_ack_first(now)
            || (self.pending_ack.asked
                && !self.pending_ack.replied
                && !self.pending_ack.awaits_reply)
    }

    /// Whether it is owed before the application hears of what has arrived. The process may end
    /// right after that, and its peer would take a message for lost that was delivered. An
    /// acknowledgement waits only for a reply, if replies are usual.
    pub(crate) fn owes_ack_at_once(&self, now: Time) -> bool {
        let waits = self.pending_ack.replied || self.pending_ack.is_reply_usual;
        self.owes_ack_first(now) || (self.pending_ack.asked && !waits)
    }

    /// Whether it is owed even before data that could go out.
    pub(crate) fn owes_ack_first(&self, now: Time) -> bool {
        self.pending_ack.due <= now
    }

    /// The acknowledgement; nothing is owed afterwards.
    pub(crate) fn take_ack(
        &mut self,
        now: Time,
        qp: QpId,
        token: Token,
        rnr_delay: Duration,
    ) -> Ack {
        let pending = self.pending_ack;
        let taken = self.epsn.0 + u64::from(self.early);
        let repeats = if taken == pending.taken { pending.repeats.saturating_add(1) } else { 0 };
        // What was echoed last stays: an ack that nothing has come before still has a true delay.
        self.pending_ack.leave();
        (self.pending_ack.taken, self.pending_ack.repeats) = (taken, repeats);
        let complaint = self.complaint;
        self.is_complaint_told = true;
        self.complaint = complaint.filter(|(code, _)| {
            *code == NakCode::ReceiverNotReady && now < self.complained_at + rnr_delay
        });
        let refusal = self.refusal.filter(|(_, psn)| *psn <= self.epsn);
        let highest = self.highest.unwrap_or(Psn(self.epsn.0.wrapping_sub(1)));
        Ack {
            qp,
            token,
            stream: self.stream,
            cumulative: self.epsn.wire(),
            highest: highest.wire(),
            nak: refusal.or(complaint).map(|(code, psn)| (code, psn.wire())),
            rnr_delay_us: u32::try_from(rnr_delay.as_micros()).unwrap_or(u32::MAX),
            path: pending.path,
            stamp: pending.stamp,
            delay_ns: u32::try_from((now - pending.arrived).as_nanos()).unwrap_or(u32::MAX),
            received: self.received,
            duplicates: self.duplicates,
            bitmap: self.bitmap(),
            marks: self.marks.report(),
        }
    }

    /// The acknowledgement leaves by this path. One that repeats what was said to a peer that seems
    /// not to hear it leaves once more, by the other of the paths that repetitions take in turn.
    pub(crate) fn on_acked_by(&mut self, path: PathId) {
        self.acked_by = Some(path);
        if self.answers_twice {
            self.answers_twice = false;
            self.ack_now();
        }
    }

    /// The path of the last acknowledgement.
    pub(crate) fn acked_by(&self) -> Option<PathId> {
        self.acked_by
    }

    /// Number of acknowledgements that said as much as the last one before it left. If packets come
    /// all the same, the acknowledgements do not get through.
    pub(crate) fn repeats(&self) -> u32 {
        self.pending_ack.repeats
    }

    /// The ones beyond the ePSN: bit 0 is the ePSN.
    fn bitmap(&self) -> Bitmap {
        match self.early {
            0 => Bitmap::default(),
            _ => Bitmap::new(self.arrived.words(self.epsn).collect()),
        }
    }
}

/// Checks that a PSN may be the peer's where `epsn` is expected. A sender is never more than a
/// window ahead of what it knows to have arrived. So a PSN further ahead is not its, and one
/// further behind is not sent again.
///
/// # Errors
/// [`Refusal::Window`] and [`Refusal::Behind`].
pub(crate) fn check_window(psn: Psn, epsn: Psn, window: u16) -> Result<(), Refusal> {
    let window = u64::from(window);
    match psn.ahead_of(epsn) {
        None if psn.plus(window) < epsn => Err(Refusal::Behind),
        Some(ahead) if ahead >= window => Err(Refusal::Window),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
