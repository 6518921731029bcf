//! What an acknowledgement says about paths: which of them have delivered, how much, how fast.

use std::time::Duration;

use braid_lb::{Outcome, PathSet, StreamId};
use braid_wire::{PathId, Time};

use super::rtt::Rtt;
use super::window::Segment;

/// Gathers acknowledged segments of the same path, which come in a row because they left as a train,
/// into one feedback.
#[derive(Debug)]
pub(crate) struct Credit<'a> {
    estimate: &'a mut Rtt,
    now: Time,
    delay: Duration,
    echo_rtt: Duration,
    congested: bool,
    path: PathId,
    packets: u32,
    rtt: Duration,
}

impl<'a> Credit<'a> {
    /// For an ack that came `now`, held back by the peer for `delay`, whose echo took `echo_rtt`.
    pub(crate) fn new(
        now: Time,
        delay: Duration,
        echo_rtt: Duration,
        congested: bool,
        estimate: &'a mut Rtt,
    ) -> Self {
        let (path, packets, rtt) = (PathId::default(), 0, Duration::ZERO);
        Credit { estimate, now, delay, echo_rtt, congested, path, packets, rtt }
    }

    /// `certain`: its last transmission has arrived, not an earlier one.
    pub(crate) fn take(
        &mut self,
        segment: &Segment,
        certain: bool,
        paths: &mut PathSet,
        stream: StreamId,
    ) {
        if segment.path != self.path {
            self.close(paths, stream);
            self.path = segment.path;
        }
        self.packets += 1;
        // No round trip is measured with what may be an earlier transmission (Karn, RFC 6298, 3).
        self.rtt = match certain {
            true => (self.now - segment.sent_at).saturating_sub(self.delay),
            false => self.echo_rtt,
        };
    }

    pub(crate) fn close(&mut self, paths: &mut PathSet, stream: StreamId) {
        let packets = std::mem::take(&mut self.packets);
        if packets > 0 {
            let (rtt, congested) = (self.rtt, self.congested);
            self.estimate.on_path_sample(rtt);
            let arrived = Outcome::Arrived { packets, rtt, congested };
            paths.on_feedback(stream, self.now, self.path, arrived);
        }
    }
}
