//! Thresholds, in packets and in time, beyond which an overtaken packet is lost. With the highest
//! threshold, this method declares no packet lost.

use super::reordering_window::ReorderingWindow;
use super::report::Report;
use crate::stream::send::segment::Segment;
use crate::stream::send::window::Window;

#[derive(Clone, Debug)]
pub(crate) struct Sack {
    threshold: Option<u64>,
    window: ReorderingWindow,
}

impl Sack {
    pub(super) fn new(threshold: u32) -> Self {
        let threshold = (threshold < u32::MAX).then_some(threshold.into());
        Sack { threshold, window: ReorderingWindow::new() }
    }

    pub(super) fn has_threshold(&self) -> bool {
        self.threshold.is_some()
    }

    pub(super) fn detect(
        &mut self,
        report: &Report,
        window: &mut Window,
        lost: &mut dyn FnMut(&Segment),
    ) {
        let Some(threshold) = self.threshold else { return };
        if report.spurious > 0 {
            self.window.on_spurious(report.now, report.rtt);
        }
        let factor = self.window.factor();
        let (late, threshold) = (report.reorder_time * factor, threshold * u64::from(factor));
        let mut found = false;
        window.lose_overtaken(lost, |segment, by| {
            let is_lost = by >= threshold || report.now - segment.sent_at > late;
            found |= is_lost;
            is_lost
        });
        if found {
            self.window.on_recovery();
        }
    }
}
