//! Delivery rate samples (section 4.1).
//!
//! The draft stores the state of the connection with each packet (section 4.1.2.1.2). Here the
//! state is recorded after acknowledgements. The state of a packet is the last record before its
//! departure, because that state changes with acknowledgements only. So nothing is stored for a
//! packet, and sending costs nothing.

use std::collections::VecDeque;
use std::time::Duration;

use braid_wire::Time;

use crate::{AckSample, Loss, RttSample};

/// Records per round trip. More acknowledgements share a record, so that a packet's interval may
/// begin this share of a round trip earlier than its acknowledgement would tell.
const RECORDS: u32 = 64;
/// Capacity of the history: two round trips.
const CAPACITY: usize = 2 * RECORDS as usize;

/// The state of the connection after an acknowledgement, which packets carry in the draft.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// `C.delivered_time`.
    at: Time,
    /// `C.delivered`, in bytes.
    delivered: u64,
    /// `C.lost`, in bytes.
    lost: u64,
    /// `C.first_send_time`: departure of the latest packet that is acknowledged.
    first_sent: Time,
    /// Whether `C.app_limited` is set.
    is_app_limited: bool,
    /// Whether nothing was in flight. Then the departure of the first packet that is sampled takes
    /// the place of both times (section 4.1.2.2).
    is_idle: bool,
    /// Most bytes in flight since the record before.
    most_in_flight: u64,
}

/// A delivery rate sample, `RS` (section 4.1.2.1.3). Volumes are in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSample {
    pub(super) rtt: Duration,
    /// `C.delivered` when the packet left.
    pub(super) prior_delivered: u64,
    /// Bytes per second, or `None` if the interval is too short to tell.
    pub(super) rate: Option<f64>,
    pub(super) flight: FlightSample,
}

/// Events since the departure of a packet. Volumes are in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlightSample {
    pub(super) delivered: u64,
    pub(super) lost: u64,
    /// Bytes in flight when the packet left.
    pub(super) in_flight: u64,
    pub(super) is_app_limited: bool,
}

/// The state of the connection, `C`.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    now: Time,
    delivered: u64,
    lost: u64,
    in_flight: u64,
    first_sent: Time,
    /// `C.app_limited`: the volume at whose delivery the connection is no longer app-limited, or 0.
    limited_until: u64,
    /// Bytes in flight as the current acknowledgement reports them for each of its paths.
    reported: Option<u64>,
    most_in_flight: u64,
    /// Minimum distance of records.
    spacing: Duration,
    records: VecDeque<Record>,
}

impl Delivery {
    pub(super) fn new() -> Self {
        let mut delivery = Delivery {
            now: Time::ZERO,
            delivered: 0,
            lost: 0,
            in_flight: 0,
            first_sent: Time::ZERO,
            limited_until: 0,
            reported: None,
            most_in_flight: 0,
            spacing: Duration::ZERO,
            records: VecDeque::with_capacity(CAPACITY),
        };
        delivery.record();
        delivery
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the bytes in flight after the latest acknowledgement and loss.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns whether the connection has nothing in flight because the application is idle.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.limited_until > 0
    }

    /// Processes the acknowledgements of one path. Returns whether the connection was idle before.
    pub(super) fn on_ack(&mut self, ack: &AckSample) -> bool {
        self.begin(ack.now);
        let was_idle = self.is_idle();
        if self.reported != Some(ack.in_flight) {
            (self.reported, self.in_flight) = (Some(ack.in_flight), ack.in_flight);
            self.most_in_flight = self.most_in_flight.max(ack.in_flight);
        }
        self.in_flight = self.in_flight.saturating_sub(ack.bytes);
        self.delivered += ack.bytes;
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        if ack.app_limited {
            self.limit_by_app();
        }
        was_idle
    }

    pub(super) fn on_loss(&mut self, loss: &Loss) {
        self.begin(loss.now);
        self.lost += loss.bytes;
        self.in_flight = self.in_flight.saturating_sub(loss.bytes);
    }

    /// Marks samples of the packets in flight as app-limited (section 4.1.2.4).
    pub(super) fn limit_by_app(&mut self) {
        self.limited_until = (self.delivered + self.in_flight).max(1);
    }

    /// Returns the sample of an acknowledged packet. `min_rtt`: the shortest round trip, if known.
    /// `None`: the packet left before the history begins.
    pub(super) fn sample(
        &mut self,
        packet: RttSample,
        min_rtt: Option<Duration>,
    ) -> Option<RateSample> {
        let index = self.index_of(packet.sent_at)?;
        let flight = self.flight_at(index);
        let record = &mut self.records[index];
        if record.is_idle && record.first_sent == Time::ZERO {
            record.first_sent = packet.sent_at;
        }
        let began = if record.is_idle { record.first_sent } else { record.at };
        // The slower of the rates at which packets left and were acknowledged (section 4.1.1.2.4).
        let took = (packet.sent_at - record.first_sent).max(self.now - began);
        let is_credible = !took.is_zero() && min_rtt.is_none_or(|shortest| took >= shortest);
        let prior_delivered = record.delivered;
        self.first_sent = self.first_sent.max(packet.sent_at);
        self.spacing = packet.rtt / RECORDS;
        Some(RateSample {
            rtt: packet.rtt,
            prior_delivered,
            rate: is_credible.then(|| flight.delivered as f64 / took.as_secs_f64()),
            flight,
        })
    }

    /// Returns the events since the departure of a packet.
    pub(super) fn since(&self, sent_at: Time) -> Option<FlightSample> {
        Some(self.flight_at(self.index_of(sent_at)?))
    }

    /// Returns the index of the last record before a departure.
    fn index_of(&self, sent_at: Time) -> Option<usize> {
        self.records.partition_point(|record| record.at <= sent_at).checked_sub(1)
    }

    /// Returns the events since a record.
    ///
    /// The bytes in flight at a departure are those that were delivered or lost until its
    /// acknowledgement, and no more than an acknowledgement has reported at about that time.
    fn flight_at(&self, index: usize) -> FlightSample {
        let record = &self.records[index];
        let (delivered, lost) = (self.delivered - record.delivered, self.lost - record.lost);
        let next = self.records.get(index + 1);
        let most = next.map_or(self.most_in_flight, |next| next.most_in_flight);
        let in_flight = (delivered + lost).min(most);
        FlightSample { delivered, lost, in_flight, is_app_limited: record.is_app_limited }
    }

    /// Begins the processing of an event. The state after the last one is recorded now, because one
    /// acknowledgement consists of several calls.
    fn begin(&mut self, now: Time) {
        if now != self.now {
            self.record();
            (self.now, self.reported) = (now, None);
        }
    }

    fn record(&mut self) {
        let (is_idle, is_app_limited) = (self.in_flight == 0, self.limited_until > 0);
        if let Some(last) = self.records.back() {
            let is_alike = (last.is_idle, last.is_app_limited) == (is_idle, is_app_limited);
            if is_alike && self.now - last.at < self.spacing {
                return;
            }
        }
        if self.records.len() == CAPACITY {
            self.records.pop_front();
        }
        let Delivery { now: at, delivered, lost, .. } = *self;
        let first_sent = if is_idle { Time::ZERO } else { self.first_sent };
        let most_in_flight = std::mem::take(&mut self.most_in_flight);
        let record =
            Record { at, delivered, lost, first_sent, is_app_limited, is_idle, most_in_flight };
        self.records.push_back(record);
    }
}
