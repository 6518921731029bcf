//! Telling lost packets from late ones: five methods behind one interface.
//!
//! All of them judge at the sender. An acknowledgement carries the ePSN, the highest PSN, the bitmap
//! and the count of duplicates, and it is sent at once when a packet comes out of order; so the
//! sender knows what the receiver knows, and a NACK would tell it nothing new.

mod fifo_path;
mod go_back_n;
mod nic_sr;
mod ooo_window;
mod presumed_lost;
mod sack;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use braid_lb::Rails;
use braid_wire::{Psn, Time};

use self::fifo_path::FifoPath;
use self::go_back_n::GoBackN;
use self::nic_sr::NicSr;
use self::ooo_window::OooWindow;
use self::sack::Sack;
use super::segment::{Echo, Phase, Segment};
use super::window::Window;
use crate::QpConfig;

/// A time-out resends this many of the oldest segments; their acknowledgement tells what else is lost.
pub(crate) const PROBES: usize = 2;

/// How a queue pair tells a lost packet from a late one. What arrives out of order is placed at once
/// and completes in order under each of them, but for [`LossRecovery::GoBackN`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum LossRecovery {
    /// An out-of-order window that grows by one with each spurious retransmission and halves with
    /// each time-out: what falls out of it is lost (PRO, Algorithm 2).
    OooWindow,
    /// Packets of one path stay in order: a later one of the same path proves the loss of all
    /// before it (the observation of Themis, section 3.2, made at the host). Exact wherever a path,
    /// that is a UDP flow, is not reordered, whatever the difference between paths. A path that is
    /// seen to reorder gets a window of time instead (RFC 8985, section 6.2).
    #[default]
    FifoPath,
    /// A packet is lost when a number of later ones, or one much later, has arrived (as RFC 9002,
    /// section 6.1; the thresholds grow with spurious retransmissions as in RFC 8985, 6.2).
    Sack,
    /// What RNICs with selective repeat do: a packet out of order makes one NACK per ePSN, and the sender
    /// resends that packet.
    NicSr,
    /// What older RNICs do: the receiver takes packets in order only, the sender goes back to the
    /// first that is missing. Both ends have to be told so; it is the receiver that drops.
    GoBackN,
}

/// The methods and their names, as users type them.
const METHODS: &[(&str, LossRecovery)] = &[
    ("ooo-window", LossRecovery::OooWindow),
    ("fifo-path", LossRecovery::FifoPath),
    ("sack", LossRecovery::Sack),
    ("nic-sr", LossRecovery::NicSr),
    ("go-back-n", LossRecovery::GoBackN),
];

impl LossRecovery {
    /// All of them.
    pub fn all() -> impl Iterator<Item = LossRecovery> {
        METHODS.iter().map(|(_, method)| *method)
    }

    /// Its name, as users type it.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(_, method)| *method == self).map_or("?", |(name, _)| name)
    }
}

impl fmt::Display for LossRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no method has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no loss recovery is called `{0}`; there is: {names}", names = METHODS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))]
pub struct UnknownRecovery(pub String);

impl FromStr for LossRecovery {
    type Err = UnknownRecovery;

    fn from_str(name: &str) -> Result<Self, UnknownRecovery> {
        let known = METHODS.iter().find(|(known, _)| *known == name);
        known.map(|(_, method)| *method).ok_or_else(|| UnknownRecovery(name.to_owned()))
    }
}

/// What an acknowledgement says beside which packets have arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) now: Time,
    /// The receiver's ePSN.
    pub(crate) cumulative: Psn,
    /// The highest PSN ahead of its ePSN that it has seen, or one less than that.
    pub(crate) highest: Psn,
    /// Packets newly reported ahead of the ePSN.
    pub(crate) early: u64,
    /// Retransmissions newly found to have been unnecessary.
    pub(crate) spurious: u32,
    /// Round-trip time of the packet that it echoes.
    pub(crate) rtt: Duration,
    /// A packet much older than others that have arrived is lost, not late, if older than this.
    pub(crate) reorder_time: Duration,
    /// ... and beyond any doubt if older than this: the time-out.
    pub(crate) overdue: Duration,
}

impl Report {
    fn has_hole(&self) -> bool {
        self.highest > self.cumulative
    }

    fn is_overdue(&self, segment: &Segment) -> bool {
        self.now - segment.sent_at > self.overdue
    }
}

/// The state of one method, for one outgoing stream.
#[derive(Clone, Debug)]
pub(crate) enum Detector {
    OooWindow(OooWindow),
    FifoPath(FifoPath),
    Sack(Sack),
    NicSr(NicSr),
    GoBackN(GoBackN),
}

impl Detector {
    /// With room for `segments` full segments in flight at first: the paper's BDP/MTU.
    pub(crate) fn new(config: &QpConfig, segments: u64) -> Self {
        let threshold = config.reorder_threshold;
        match config.recovery {
            LossRecovery::OooWindow => Detector::OooWindow(OooWindow::new(segments)),
            LossRecovery::FifoPath => Detector::FifoPath(FifoPath::default()),
            LossRecovery::Sack => Detector::Sack(Sack::new(threshold)),
            LossRecovery::NicSr => Detector::NicSr(NicSr::default()),
            LossRecovery::GoBackN => Detector::GoBackN(GoBackN::default()),
        }
    }

    /// The last transmission of a segment has certainly arrived.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Time, segment: &Segment, rails: &mut Rails) {
        if let Detector::FifoPath(fifo) = self {
            fifo.on_arrival(now, segment, rails);
        }
    }

    /// A segment is acknowledged that is not in flight for the first time. Returns whether it was
    /// taken for lost and had only come late.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_presumed_acked(
        &mut self,
        now: Time,
        segment: &Segment,
        echo: Echo,
        rails: &mut Rails,
    ) -> bool {
        let is_late = match self {
            Detector::FifoPath(fifo) => fifo.presumed.on_heard(now, segment, echo, rails),
            _ => false,
        };
        is_late || segment.phase == Phase::Lost
    }

    /// The peer has `count` more segments twice, and echoes one of them. Returns whether
    /// [`Detector::on_presumed_acked`] has said of that one that it was late.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_duplicates(
        &mut self,
        now: Time,
        echo: Echo,
        count: u32,
        rails: &mut Rails,
    ) -> bool {
        match self {
            Detector::FifoPath(fifo) => fifo.presumed.on_duplicates(now, echo, count, rails),
            _ => false,
        }
    }

    /// Learns which paths reorder, before [`Detector::detect`].
    #[inline]
    pub(crate) fn follow(&mut self, now: Time, rails: &Rails) {
        if let Detector::FifoPath(fifo) = self {
            fifo.follow(now, rails);
        }
    }

    /// Tells what [`Detector::detect`] has just taken for lost by the order of its path.
    #[cold]
    pub(crate) fn tell_lost(&mut self, rails: &mut Rails) {
        if let Detector::FifoPath(fifo) = self {
            fifo.presumed.tell_new(rails);
        }
    }

    /// Whether [`Detector::detect`] may find anything. The order of paths proves nothing where all
    /// that has arrived was sent before the oldest segment that has not.
    #[inline]
    pub(crate) fn has_cause(&self, window: &Window) -> bool {
        !matches!(self, Detector::FifoPath(_)) || window.is_overtaken()
    }

    /// Marks as lost what the acknowledgement that the window has just learnt from proves to be;
    /// `lost` is told of each segment.
    pub(crate) fn detect(
        &mut self,
        report: &Report,
        window: &mut Window,
        lost: &mut dyn FnMut(&Segment),
    ) {
        match self {
            Detector::OooWindow(method) => method.detect(report, window, lost),
            Detector::FifoPath(method) => method.detect(report, window, lost),
            Detector::Sack(method) => method.detect(report, window, lost),
            Detector::NicSr(method) => method.detect(report, window, lost),
            Detector::GoBackN(method) => method.detect(report, window, lost),
        }
    }

    /// Nothing has been heard for the time-out: marks as lost what is to be sent again now.
    pub(crate) fn on_timeout(
        &mut self,
        now: Time,
        window: &mut Window,
        lost: &mut dyn FnMut(&Segment),
    ) {
        let count = match self {
            Detector::GoBackN(method) => return method.on_timeout(window, lost),
            Detector::OooWindow(method) => method.on_timeout(now),
            _ => PROBES,
        };
        window.lose_from(window.una(), count, lost);
    }

    /// Whether a segment may be lost by its age alone. Not with what RNICs and PRO do, who leave the end of a message to the time-out.
    pub(crate) fn heeds_time(&self) -> bool {
        match self {
            Detector::FifoPath(_) => true,
            Detector::Sack(method) => method.has_threshold(),
            Detector::OooWindow(_) | Detector::NicSr(_) | Detector::GoBackN(_) => false,
        }
    }

    /// Gives back room that is not needed while nothing is under way.
    pub(crate) fn trim(&mut self) {
        if let Detector::FifoPath(fifo) = self {
            fifo.trim();
        }
    }
}

#[cfg(test)]
mod tests;
