//! What has arrived as something else than an acknowledgement shows: the answer to a request, or the peer's last word.

use std::time::Duration;

use braid_cc::AckSample;
use braid_lb::Outcome;
use braid_wire::{PathId, Psn, Time};

use super::chunks::Arrival;
use super::outgoing::Outgoing;
use super::segment::{Echo, Segment};
use super::subflow::Subflow;
use super::subflows::Subflows;

impl Outgoing {
    /// Everything up to `psn` has arrived, as something else than an ack has shown. False: it cannot have.
    pub(crate) fn on_implied_ack(&mut self, now: Time, psn: Psn) -> bool {
        if self.window.contradicts(psn.plus(1), &[]) {
            return false;
        }
        let in_flight = *self.window.in_flight();
        let moved = self.imply(psn.plus(1), |subflows, psn, segment| {
            let path = segment.path;
            let (packets, bytes, marks) = (1, Segment::wire_len(segment.len), 0);
            subflows.on_acked(psn, Arrival { now, peer_delay: Duration::ZERO, rtt: None });
            if let Some(Subflow { cc, .. }) = subflows.of(path) {
                let (in_flight, app_limited) = (in_flight[path.rail()], cc.is_app_limited());
                let rtt = None; // the peer has worked on it, for nobody knows how long
                let sample =
                    AckSample { now, path, packets, bytes, marks, rtt, in_flight, app_limited };
                cc.on_ack(&sample);
            }
            Outcome::Arrived { packets, rtt: now - segment.sent_at, congested: false }
        });
        if moved {
            self.subflows.tell_chunks();
            self.follow_window();
            self.on_progress(now);
        }
        true
    }

    /// Everything below `end` has arrived, and no more will: it says nothing about the paths.
    pub(crate) fn on_final_ack(&mut self, end: Psn) {
        self.imply(end, |_, _, _| Outcome::Forgotten { packets: 1 });
        self.subflows.forget();
    }

    /// Whether all below `end` has left, and is not less than what is acknowledged.
    pub(crate) fn can_end_at(&self, end: Psn) -> bool {
        (self.window.una()..=self.window.next()).contains(&end)
            && !self.window.contradicts(end, &[])
    }

    fn imply(
        &mut self,
        end: Psn,
        mut outcome: impl FnMut(&mut Subflows, Psn, &Segment) -> Outcome,
    ) -> bool {
        if end <= self.window.una() {
            return false;
        }
        let (untold, subflows) = (&mut self.untold, &mut self.subflows);
        let no_echo = Echo { path: PathId::default(), stamp: 0 };
        let told = |psn, segment: &Segment, _| {
            if let (Some(direct), Some(epoch)) = (&mut self.direct, segment.first_epoch()) {
                direct.on_arrival(epoch);
            }
            untold.push((segment.path, outcome(subflows, psn, segment)));
        };
        self.window.ack(end, &[], no_echo, told).is_ok()
    }
}
