//! Undoing of reductions after spurious losses (Eifel response, RFC 4015; RFC 9438, section 4.9).

use std::time::Duration;

use braid_wire::Time;

use crate::Loss;

/// Round trips after which the losses of a reduction are considered real.
///
/// A late packet takes up to a round trip longer than others. Its retransmission arrives as a
/// duplicate, which the peer then reports.
const PROVED_AFTER: u32 = 8;

/// The state before a reduction, until it is clear whether the reduction was necessary.
///
/// Later reductions join it, because late packets recur in each round trip.
#[derive(Clone, Debug)]
pub(crate) struct Undo<T> {
    pending: Option<Pending<T>>,
}

#[derive(Clone, Copy, Debug)]
struct Pending<T> {
    before: T,
    cut_at: Time,
    /// The longest round trip that was reported with the joined reductions.
    rtt: Duration,
    lost: u64,
    spurious: u64,
}

impl<T> Default for Undo<T> {
    fn default() -> Self {
        Undo { pending: None }
    }
}

impl<T: Copy> Undo<T> {
    /// Records losses. `cut` says whether they reduced the window, `before` is the state before
    /// that, and `rtt` is the latest round trip.
    pub(crate) fn on_loss_of(&mut self, loss: &Loss, cut: bool, rtt: Duration, before: T) {
        match cut {
            true => self.on_loss(loss, rtt, before),
            false => self.on_lost(loss.packets),
        }
    }

    /// Records losses that reduced the window. `before` is the state before that, and `rtt` is the
    /// latest round trip.
    pub(crate) fn on_loss(&mut self, loss: &Loss, rtt: Duration, before: T) {
        // If round trips vary a lot, the lost packet's is the better measure.
        let rtt = rtt.max(loss.now - loss.sent_at);
        self.on_cut(loss.now, rtt, before, loss.packets);
    }

    /// Records a reduction for `lost` packets. `before` is the state before it, and `rtt` is a
    /// round trip.
    pub(crate) fn on_cut(&mut self, now: Time, rtt: Duration, before: T, lost: u64) {
        if let Some(pending) = &mut self.pending {
            pending.rtt = pending.rtt.max(rtt);
            if now - pending.cut_at < pending.rtt.saturating_mul(PROVED_AFTER) {
                pending.lost += lost;
                return;
            }
        }
        self.pending = Some(Pending { before, cut_at: now, rtt, lost, spurious: 0 });
    }

    /// Counts losses that did not reduce the window.
    pub(crate) fn on_lost(&mut self, lost: u64) {
        if let Some(pending) = &mut self.pending {
            pending.lost += lost;
        }
    }

    /// Counts spurious losses. Returns the state before the reductions if all their losses were
    /// spurious.
    pub(crate) fn on_spurious(&mut self, packets: u64) -> Option<T> {
        let pending = self.pending.as_mut()?;
        pending.spurious += packets;
        let Pending { before, lost, spurious, .. } = *pending;
        let is_needless = spurious >= lost.max(1);
        is_needless.then(|| {
            self.pending = None;
            before
        })
    }

    /// Applies a reduction for another reason to the saved state, too.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut T)) {
        if let Some(pending) = &mut self.pending {
            change(&mut pending.before);
        }
    }

    /// Drops the saved state after a reduction for another reason.
    pub(crate) fn forget(&mut self) {
        self.pending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AckSample, CcConfig, Controller, PathId, RttSample, Spurious, Subflow};

    const RTT: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn cuts_in_a_row_are_undone_together_once_all_losses_were_none() {
        let mut undo = Undo::default();
        undo.on_cut(at(10), RTT, 100, 2);
        undo.on_lost(1);
        undo.on_cut(at(12), RTT, 70, 1);
        assert_eq!([undo.on_spurious(2), undo.on_spurious(1)], [None, None]);
        assert_eq!([undo.on_spurious(1), undo.on_spurious(1)], [Some(100), None]);
    }

    #[test]
    fn a_cut_that_has_proved_right_is_not_undone_with_a_later_one() {
        let mut undo = Undo::default();
        undo.on_cut(at(10), RTT, 100, 1);
        undo.on_cut(at(18), RTT, 70, 1);
        assert_eq!(undo.on_spurious(1), Some(70));
        undo.on_cut(at(30), RTT, 50, 0);
        undo.forget();
        assert_eq!(undo.on_spurious(1), None);
    }

    const PACKET: u64 = 1500;

    fn lose(controller: &mut dyn Controller, now: Time, sent_at: Time) {
        controller.on_loss(&Loss { now, packets: 2, bytes: 2 * PACKET, sent_at });
    }

    /// Acknowledges a packet after a round trip. All round trips are alike.
    fn acknowledge(controller: &mut dyn Controller, now: Time) {
        let sent_at = Time::from_nanos(now.as_nanos() - RTT.as_nanos() as u64);
        controller.on_ack(&AckSample {
            now,
            path: PathId::default(),
            packets: 10,
            bytes: 10 * PACKET,
            marks: 0,
            rtt: Some(RttSample { sent_at, rtt: RTT }),
            in_flight: 10 * PACKET,
            app_limited: true,
        });
    }

    /// Covers all controllers whose windows or rates a loss reduces.
    const CUT_BY_LOSS: [&str; 6] = [
        "cubic:start=1M",
        "swift:start=1M",
        "mswift:start=1M",
        "mcc:line=40G,rtt=1ms",
        "dcqcn:line=40G",
        "nscc:line=40G,rtt=1ms",
    ];

    #[test]
    fn every_controller_takes_its_cuts_back_if_nothing_was_lost() {
        for name in CUT_BY_LOSS {
            let config: CcConfig = name.parse().expect("a controller");
            let mut controller =
                config.build(&Subflow { packet_bytes: PACKET, ..Subflow::default() });
            acknowledge(&mut *controller, at(9));
            let stands = |controller: &mut dyn Controller, ms: u64| {
                (controller.window(), controller.rate(at(ms)).filter(|_| name.starts_with("dcqcn")))
            };
            let before = stands(&mut *controller, 10);
            lose(&mut *controller, at(10), at(9));
            let once = stands(&mut *controller, 10);
            acknowledge(&mut *controller, at(11));
            lose(&mut *controller, at(12), at(11));
            acknowledge(&mut *controller, at(12));
            let twice = stands(&mut *controller, 12);
            assert!(twice < before && once < before, "{name}: {before:?}, {once:?}, {twice:?}");
            controller.on_spurious(&Spurious { now: at(12), packets: 3 });
            assert_eq!(stands(&mut *controller, 12), twice, "{name}: one may be real");
            controller.on_spurious(&Spurious { now: at(12), packets: 1 });
            assert_eq!(stands(&mut *controller, 12), before, "{name}");
        }
    }
}
