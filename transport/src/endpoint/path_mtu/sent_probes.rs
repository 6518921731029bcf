//! The probes that a path MTU search has sent, and the round trips that their answers measure.

use std::collections::VecDeque;
use std::time::Duration;

use braid_wire::Time;

use crate::endpoint::max_rtt::MaxRtt;

/// Number of probes whose departure is remembered to measure their round trips.
const MEASURED: usize = 32;

/// The local port that a probe leaves from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::endpoint) enum Way {
    /// The port of a path, like data.
    Path,
    /// The receiving port, which set-up has shown to be open in both directions.
    Port,
}

/// The probes of a rail. The serial of a probe is twice its number, plus 1 if it leaves from the
/// receiving port.
#[derive(Debug)]
pub(super) struct SentProbes {
    /// Number of probes sent.
    count: u32,
    /// Answers to probes with lower numbers are ignored as too old.
    oldest: u32,
    /// Numbers and departure times of the latest probes.
    departures: VecDeque<(u32, Time)>,
    /// Recent round trips of probes, and of data when a search began.
    round_trips: MaxRtt,
}

impl SentProbes {
    pub(super) fn none() -> Self {
        SentProbes {
            count: 0,
            oldest: 0,
            departures: VecDeque::new(),
            round_trips: MaxRtt::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Ignores the answers to all probes so far.
    pub(super) fn ignore_answers(&mut self) {
        self.oldest = self.count;
    }

    /// Records a round trip of data.
    pub(super) fn on_round_trip(&mut self, now: Time, longest: Duration) {
        self.round_trips.on_sample(now, longest);
    }

    /// The longest recent round trip.
    pub(super) fn round_trip(&self, now: Time) -> Duration {
        self.round_trips.get(now)
    }

    /// Records the departure of a probe. Returns its serial.
    pub(super) fn send(&mut self, now: Time, way: Way) -> u32 {
        self.departures.truncate(MEASURED - 1);
        self.departures.push_front((self.count, now));
        let serial = self.count << 1 | u32::from(way == Way::Port);
        self.count = (self.count + 1) & u32::MAX >> 1;
        serial
    }

    /// Whether the answer to a probe with this serial counts.
    pub(super) fn expects(&self, serial: u32) -> bool {
        (self.oldest..self.count).contains(&(serial >> 1))
    }

    /// Takes the round-trip sample of an answered probe. Returns the port that the probe left from.
    pub(super) fn on_answer(&mut self, now: Time, serial: u32) -> Way {
        let number = serial >> 1;
        let departure = self.departures.iter().find(|(departed, _)| *departed == number);
        if let Some((_, departed_at)) = departure {
            self.round_trips.on_sample(now, now - *departed_at);
        }
        if serial & 1 == 0 { Way::Path } else { Way::Port }
    }
}
