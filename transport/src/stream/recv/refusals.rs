//! Refused packets of an incoming stream, and the NAK that reports them.

use std::time::Duration;

use braid_wire::{NakCode, Psn, Time};

use crate::stream::psn_run::PsnRun;

/// The refusals of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusals {
    /// The lowest PSN that was refused for good, and the reason. Nothing from there on is accepted.
    last: Option<(NakCode, Psn)>,
    /// The NAK for the next acknowledgement: the lowest of several refusals since the last one.
    nak: Option<(NakCode, Psn)>,
    /// Whether an acknowledgement has carried that NAK.
    is_sent: bool,
    /// Time of the last refusal for lack of a receive.
    not_ready_at: Time,
}

impl Refusals {
    pub(super) fn none() -> Self {
        Refusals { last: None, nak: None, is_sent: false, not_ready_at: Time::ZERO }
    }

    /// Refuses a PSN for good; the lowest of several counts.
    pub(super) fn refuse(&mut self, code: NakCode, psn: Psn) {
        if self.last.is_none_or(|(_, other)| psn < other) {
            self.last = Some((code, psn));
        }
    }

    /// Refuses a PSN because there is no receive for it.
    pub(super) fn refuse_for_now(&mut self, now: Time, psn: Psn) {
        self.not_ready_at = now;
        self.report(NakCode::ReceiverNotReady, psn);
    }

    /// Reports a PSN in the next acknowledgement. Has no other effect here.
    pub(super) fn report(&mut self, code: NakCode, psn: Psn) {
        // A reported PSN may be served before the next acknowledgement, which would then report
        // nothing.
        if self.is_sent || self.nak.is_none_or(|(_, other)| psn < other) {
            (self.nak, self.is_sent) = (Some((code, psn)), false);
        }
    }

    /// Handles the arrival of PSNs. A refusal is reported even if the packet arrives again before
    /// an acknowledgement has carried it. Otherwise the sender would take the first transmission
    /// for lost.
    pub(super) fn on_arrival(&mut self, psns: PsnRun) {
        if self.is_sent && self.nak.is_some_and(|(_, refused)| psns.contains(refused)) {
            self.nak = None;
        }
    }

    /// Whether something was refused for good.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.last.is_some()
    }

    /// The lowest PSN that was refused for good.
    pub(super) fn first_refused(&self) -> Option<Psn> {
        self.last.map(|(_, psn)| psn)
    }

    /// Returns the final refusal, once everything before the refused PSN has arrived.
    pub(super) fn due(&self, epsn: Psn) -> Option<(NakCode, Psn)> {
        self.last.filter(|(_, psn)| *psn <= epsn)
    }

    /// Returns the NAK of an acknowledgement that leaves now. "Receiver not ready" is repeated
    /// while the peer pauses, for `rnr_delay`.
    pub(super) fn take_nak(
        &mut self,
        now: Time,
        epsn: Psn,
        rnr_delay: Duration,
    ) -> Option<(NakCode, Psn)> {
        let nak = self.nak;
        self.is_sent = true;
        self.nak = nak.filter(|(code, _)| {
            *code == NakCode::ReceiverNotReady && now < self.not_ready_at + rnr_delay
        });
        self.due(epsn).or(nak)
    }
}
