//! Where the streams of a queue pair stand, for people to look at.

use std::time::Duration;

use braid_cc::Metrics;
use braid_wire::{RailId, Stream};

use super::QueuePair;
use super::outgoing::Outgoing;

/// Where a subflow stands: what a queue pair sends of one stream over one rail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SubflowMetrics {
    /// Requests, or what answers the peer's READs and atomics.
    pub stream: Stream,
    /// Its rail, in the order of the connection.
    pub rail: RailId,
    /// Round-trip time, smoothed (RFC 6298); `None`: not measured yet.
    pub rtt: Option<Duration>,
    /// Bytes that its controller lets be in flight, headers included.
    pub window: u64,
    /// Bits per second at which its controller lets packets leave, if it has a rate.
    pub bits_per_second: Option<u64>,
    /// Bytes in flight, headers included.
    pub in_flight: u64,
}

impl QueuePair {
    /// Its subflows: by stream, then by rail; none before it is connected.
    pub fn subflows(&self) -> impl Iterator<Item = SubflowMetrics> {
        let streams = self.link.iter().flat_map(|link| link.all_outgoing());
        streams.zip([Stream::Requests, Stream::Responses]).flat_map(|(outgoing, stream)| {
            outgoing.subflows.by_rail().map(move |(rail, _)| of(outgoing, stream, rail))
        })
    }
}

fn of(outgoing: &Outgoing, stream: Stream, rail: RailId) -> SubflowMetrics {
    let subflow = outgoing.subflows.at(rail);
    let Metrics { window, bits_per_second } = subflow.cc.metrics();
    let (rtt, in_flight) = (subflow.rtt.smoothed(), outgoing.in_flight(rail));
    SubflowMetrics { stream, rail, rtt, window, bits_per_second, in_flight }
}
