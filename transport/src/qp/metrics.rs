//! Counters of a queue pair, and the state of its subflows.

use std::time::Duration;

use braid_cc::Metrics;
use braid_wire::{RailId, Stream};

use crate::stream::send::send_stream::SendStream;

/// Counters since the queue pair was created.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct QpCounters {
    /// Data segments sent, retransmissions included.
    pub segments_sent: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
    /// Segments declared lost.
    pub lost: u64,
    /// Retransmissions that turned out to have been unnecessary: the peer received the segment
    /// twice.
    pub spurious: u64,
    /// Congestion marks (ECN CE) on segments sent, as the peer reports them.
    pub ecn_marks: u64,
    /// Packets of plain RoCEv2 received with a congestion mark (ECN CE).
    pub marks_received: u64,
    /// Congestion notification packets (CNPs) of plain RoCEv2 sent.
    pub cnps_sent: u64,
    /// Congestion notification packets (CNPs) of plain RoCEv2 received.
    pub cnps_received: u64,
    /// Payload bytes in segments sent.
    pub bytes_sent: u64,
    /// Data segments accepted.
    pub segments_received: u64,
    /// Payload bytes in segments accepted.
    pub bytes_received: u64,
    /// Duplicate segments received.
    pub duplicates: u64,
    /// Segments accepted ahead of the ePSN.
    pub out_of_order: u64,
    /// Segments refused: beyond the window, forbidden, malformed.
    pub refused: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Acknowledgements received.
    pub acks_received: u64,
    /// "Receiver not ready" (RNR) NAKs received.
    pub rnr_naks: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Acknowledgements of segments that were never sent. Each one ends the queue pair.
    pub untrue_acks: u64,
}

impl std::ops::AddAssign for QpCounters {
    fn add_assign(&mut self, other: Self) {
        self.segments_sent += other.segments_sent;
        self.retransmitted += other.retransmitted;
        self.lost += other.lost;
        self.spurious += other.spurious;
        self.ecn_marks += other.ecn_marks;
        self.marks_received += other.marks_received;
        self.cnps_sent += other.cnps_sent;
        self.cnps_received += other.cnps_received;
        self.bytes_sent += other.bytes_sent;
        self.segments_received += other.segments_received;
        self.bytes_received += other.bytes_received;
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
        self.refused += other.refused;
        self.acks_sent += other.acks_sent;
        self.acks_received += other.acks_received;
        self.rnr_naks += other.rnr_naks;
        self.timeouts += other.timeouts;
        self.untrue_acks += other.untrue_acks;
    }
}

/// Metrics of a subflow: the part of a stream that a queue pair sends over one rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SubflowMetrics {
    /// Requests, or responses to the peer's READs and atomics.
    pub stream: Stream,
    /// The rail, in the order of the connection.
    pub rail: RailId,
    /// Smoothed round-trip time (RFC 6298); `None`: not measured yet.
    pub rtt: Option<Duration>,
    /// Retransmission time-out, without backoff.
    pub rto: Duration,
    /// Congestion window in bytes, headers included.
    pub window: u64,
    /// Pacing rate in bits per second, if the congestion controller has one.
    pub bits_per_second: Option<u64>,
    /// Bytes in flight, headers included.
    pub in_flight: u64,
}

pub(super) fn of(outgoing: &SendStream, stream: Stream, rail: RailId) -> SubflowMetrics {
    let subflow = outgoing.subflows.at(rail);
    let Metrics { window, bits_per_second } = subflow.cc.metrics();
    let (rtt, rto, in_flight) =
        (subflow.rtt.smoothed(), subflow.rtt.rto(0), outgoing.in_flight(rail));
    SubflowMetrics { stream, rail, rtt, rto, window, bits_per_second, in_flight }
}
