//! What an acknowledgement says about paths: which of them have delivered, how much, how fast, and with how many marks.

use std::time::Duration;

use braid_cc::{AckSample, RttSample};
use braid_lb::{Outcome, Rails, StreamId};
use braid_wire::{Marks, PathId, Psn, Time};

use super::chunks::Arrival;
use super::congestion::Congestion;
use super::marks::HeardMarks;
use super::per_rail::RailBytes;
use super::segment::{Echo, Segment};
use super::subflow::Subflow;
use super::subflows::Subflows;

/// An acknowledgement that has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acked {
    pub(crate) now: Time,
    /// For how long the peer held it back.
    pub(crate) delay: Duration,
    pub(crate) echo: Echo,
    /// The round trip of what it echoes, without that delay.
    pub(crate) rtt: Duration,
    /// Bytes in flight before it came.
    pub(crate) in_flight: RailBytes,
}

impl Acked {
    /// A sample without packets.
    fn blank(&self, path: PathId, marks: u32, cc: &Congestion) -> AckSample {
        let (now, in_flight) = (self.now, self.in_flight[path.rail()]);
        let (packets, bytes, rtt, app_limited) = (0, 0, None, cc.is_app_limited());
        AckSample { now, path, packets, bytes, marks, rtt, in_flight, app_limited }
    }
}

/// Acknowledged segments of the same path, which come in a row because they left as a batch.
#[derive(Clone, Copy, Default, Debug)]
struct Run {
    path: PathId,
    packets: u32,
    bytes: u64,
    rtt: Duration,
    /// What is echoed may be one of them.
    echoes: bool,
    sample: Option<RttSample>,
}

/// Gathers runs, and tells the path set and the controller of each.
#[derive(Debug)]
pub(crate) struct Credit<'a> {
    ack: &'a Acked,
    marks: &'a mut HeardMarks,
    subflows: &'a mut Subflows,
    run: Run,
    /// The controller has its sample: an acknowledgement is one, however many segments left with the same stamp.
    sampled: bool,
    /// The controller wants to hear of chunks.
    follows_chunks: bool,
    /// There are paths that reorder.
    reorders: bool,
}

impl<'a> Credit<'a> {
    pub(crate) fn new(
        ack: &'a Acked,
        marks: &'a mut HeardMarks,
        subflows: &'a mut Subflows,
        reorders: bool,
    ) -> Self {
        let run = Run { echoes: ack.echo.path == PathId::default(), ..Run::default() };
        let follows_chunks = subflows.current().cc.follows_chunks();
        Credit { ack, marks, subflows, run, sampled: false, follows_chunks, reorders }
    }

    /// `certain`: its last transmission has arrived, not an earlier one.
    pub(crate) fn take(
        &mut self,
        psn: Psn,
        segment: &Segment,
        certain: bool,
        rails: &mut Rails,
        stream: StreamId,
    ) {
        let path = segment.path;
        if path != self.run.path {
            self.close(rails, stream);
            let echoes = path == self.ack.echo.path && !self.sampled;
            self.run = Run { path, echoes, ..Run::default() };
        }
        self.run.packets += 1;
        self.run.bytes += Segment::wire_len(segment.len);
        let rtt = (self.ack.now - segment.sent_at).saturating_sub(self.ack.delay);
        // No round trip is measured with what may be an earlier transmission (Karn, RFC 6298, 3).
        self.run.rtt = if certain { rtt } else { self.ack.rtt };
        let mut sampled = None;
        let echoes = self.run.echoes && segment.sent_at.stamp() == self.ack.echo.stamp;
        let mut queued = rtt;
        if self.reorders && certain && (echoes || self.follows_chunks) {
            queued = self.without_lateness(path, rtt, rails);
        }
        if echoes {
            sampled = Some(queued);
            self.run.sample = Some(RttSample { sent_at: segment.sent_at, rtt: queued });
        }
        if self.follows_chunks {
            let (now, peer_delay) = (self.ack.now, self.ack.delay + (rtt - queued));
            self.subflows.on_acked(psn, Arrival { now, peer_delay, rtt: sampled });
        }
    }

    /// What a round trip says of queues. A packet that later ones of its path have overtaken was
    /// not held up by a queue; so where a path reorders, it is the shortest round trip in as long
    /// as packets are late, two thirds of the window.
    #[cold]
    #[inline(never)]
    fn without_lateness(&mut self, path: PathId, rtt: Duration, rails: &Rails) -> Duration {
        let window = rails.reordering().window(path);
        match self.subflows.of(path) {
            Some(subflow) if !window.is_zero() => {
                subflow.shortest.within(window * 2 / 3, self.ack.now, rtt)
            }
            _ => rtt,
        }
    }

    fn close(&mut self, rails: &mut Rails, stream: StreamId) {
        let Run { path, packets, bytes, rtt, sample, .. } = self.run;
        if packets > 0 {
            self.sampled |= sample.is_some();
            let (mut marks, mut congested) = self.marks.take(path);
            if self.marks.is_watching() && !self.heeds(path, packets, marks) {
                (marks, congested) = (0, false);
            }
            let arrived = Outcome::Arrived { packets, rtt, congested };
            rails.on_feedback(stream, self.ack.now, path, arrived);
            let Some(subflow) = self.subflows.of(path) else { return };
            let rtt = if self.reorders { may_take(path, rtt, subflow, rails) } else { rtt };
            subflow.rtt.on_path_sample(rtt);
            let blank = self.ack.blank(path, marks, &subflow.cc);
            subflow.cc.on_ack(&AckSample { packets, bytes, rtt: sample, ..blank });
        }
    }

    /// Whether marks of this path say anything.
    fn heeds(&mut self, path: PathId, packets: u32, marks: u32) -> bool {
        let Some(subflow) = self.subflows.of(path) else { return true };
        let watch = (&mut subflow.marks, subflow.cc.window());
        self.marks.watch(self.ack.now, path.rail(), (packets, marks), watch)
    }

    /// There are no more segments; `reported`: marks, of which some may be of segments that were acknowledged before.
    pub(crate) fn end(mut self, reported: &Marks, rails: &mut Rails, stream: StreamId) {
        self.close(rails, stream);
        for marks in reported.iter() {
            let late = self.marks.take_alone(marks.path);
            let late = if self.heeds(marks.path, 0, late) { late } else { 0 };
            if let Some(subflow) = self.subflows.of(marks.path).filter(|_| late > 0) {
                subflow.cc.on_ack(&self.ack.blank(marks.path, late, &subflow.cc));
            }
        }
        if self.follows_chunks {
            self.subflows.tell_chunks();
        }
    }
}

/// How long a round trip may take on a path on which one has just taken `rtt`: where it reorders, a
/// window longer than the shortest.
#[cold]
#[inline(never)]
fn may_take(path: PathId, rtt: Duration, subflow: &Subflow, rails: &Rails) -> Duration {
    match (rails.reordering().window(path), subflow.shortest.get()) {
        (Duration::ZERO, _) | (_, None) => rtt,
        (window, Some(shortest)) => rtt.max(shortest + window),
    }
}
