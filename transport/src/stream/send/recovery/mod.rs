//! Loss detection, which distinguishes lost packets from late ones: five methods behind one
//! interface.
//!
//! All methods decide at the sender. An acknowledgement carries the ePSN, the highest PSN, the
//! bitmap and the number of duplicates, and is sent at once when a packet arrives out of order. So
//! the sender knows as much as the receiver, and a NACK would add nothing.

pub(crate) mod report;
mod reordering_window;
mod presumed_lost;
mod fifo_path;
mod go_back_n;
mod nic_sr;
mod ooo_window;
mod sack;

use braid_lb::Rails;
use braid_wire::Time;

use self::fifo_path::FifoPath;
use self::go_back_n::GoBackN;
use self::nic_sr::NicSr;
use self::ooo_window::OooWindow;
use self::report::{PROBES, Report};
use self::sack::Sack;
use crate::stream::send::segment::{Echo, Phase, Segment};
use crate::stream::send::window::Window;
use crate::{LossRecovery, QpConfig};

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
    /// Creates the state. `segments`: full segments that may be in flight at first, the paper's
    /// BDP/MTU.
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

    /// Handles the certain arrival of a segment's last transmission.
    #[inline]
    pub(crate) fn on_arrival(&mut self, now: Time, segment: &Segment, rails: &mut Rails) {
        if let Detector::FifoPath(fifo) = self {
            fifo.on_arrival(now, segment, rails);
        }
    }

    /// Handles the acknowledgement of a segment that was declared lost or retransmitted. Returns
    /// whether it was declared lost but only late.
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
            Detector::FifoPath(fifo) => fifo.presumed.on_acked(now, segment, echo, rails),
            _ => false,
        };
        is_late || segment.phase == Phase::Lost
    }

    /// Handles `count` new duplicates at the peer, one of which is echoed. Returns whether
    /// [`Detector::on_presumed_acked`] has already reported that segment as late.
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

    /// Reports to the path set what [`Detector::detect`] has just declared lost by the order of its
    /// path.
    #[cold]
    pub(crate) fn report_lost(&mut self, rails: &mut Rails) {
        if let Detector::FifoPath(fifo) = self {
            fifo.presumed.report_new(rails);
        }
    }

    /// Whether [`Detector::detect`] may find losses. The order of paths proves nothing if
    /// everything that has arrived was sent before the oldest outstanding segment.
    #[inline]
    pub(crate) fn has_cause(&self, window: &Window) -> bool {
        !matches!(self, Detector::FifoPath(_)) || window.is_overtaken()
    }

    /// Declares segments lost according to the acknowledgement that the window has just taken.
    /// `lost` gets each of them.
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

    /// Handles a time-out: declares the segments lost that are to be retransmitted now.
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

    /// Whether age alone may show that a segment is lost. False for the methods of RNICs and PRO,
    /// which leave the end of a message to the time-out.
    pub(crate) fn uses_time(&self) -> bool {
        match self {
            Detector::FifoPath(_) => true,
            Detector::Sack(method) => method.has_threshold(),
            Detector::OooWindow(_) | Detector::NicSr(_) | Detector::GoBackN(_) => false,
        }
    }

    /// Releases memory that is not needed while nothing is in flight.
    pub(crate) fn trim(&mut self) {
        if let Detector::FifoPath(fifo) = self {
            fifo.trim();
        }
    }
}

#[cfg(test)]
mod tests;
