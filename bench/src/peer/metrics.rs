//! The metrics of a peer's run, with the unit in each name.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::error::{Context, PeerError};

/// The figures of one run by name. The name ends with the unit.
pub(crate) type Metrics = BTreeMap<&'static str, f64>;

/// Payload received and acknowledged, in 10^9 bytes per second.
pub(crate) const GOODPUT: &str = "goodput_gbytes_per_s";
/// CPU seconds of the sending process per 10^9 payload bytes.
pub(crate) const SENDER_CPU: &str = "sender_cpu_s_per_gbyte";
/// CPU seconds of the receiving process per 10^9 payload bytes.
pub(crate) const RECEIVER_CPU: &str = "receiver_cpu_s_per_gbyte";
/// Payload bytes sent that never arrived.
pub(crate) const LOST: &str = "lost_bytes";
/// Median of half a round trip, in microseconds.
pub(crate) const ONE_WAY_P50: &str = "one_way_p50_us";
/// Mean of half a round trip, in microseconds.
pub(crate) const ONE_WAY_MEAN: &str = "one_way_mean_us";
/// 99th percentile of half a round trip, in microseconds.
pub(crate) const ONE_WAY_P99: &str = "one_way_p99_us";
/// 99.9th percentile of half a round trip, in microseconds.
pub(crate) const ONE_WAY_P999: &str = "one_way_p999_us";

/// Messages per second, in millions.
pub(crate) const MESSAGE_RATE: &str = "rate_mmsgs";
/// CPU seconds of all processes per 10^9 payload bytes.
pub(crate) const CPU: &str = "cpu_s_per_gbyte";
/// CPU seconds of all processes per second.
pub(crate) const BUSY_CORES: &str = "busy_cores";
/// Peak resident memory of all processes, in 2^20 bytes.
pub(crate) const MEMORY: &str = "memory_mib";

/// The metrics that the measuring process of a raw peer may report.
pub(crate) const ALL: [&str; 7] =
    [GOODPUT, MESSAGE_RATE, SENDER_CPU, LOST, ONE_WAY_P50, ONE_WAY_P99, ONE_WAY_P999];

/// The report of the server process at its end.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct ServerReport {
    /// Payload bytes received while the CPU clock below ran.
    pub(crate) payload_bytes: u64,
    /// CPU seconds of the whole process for those bytes.
    pub(crate) cpu_seconds: f64,
}

impl ServerReport {
    /// Writes the report to the parent.
    pub(super) fn write_to(&self, out: &mut impl Write) -> Result<(), PeerError> {
        let json = serde_json::to_string(self).expect("two numbers always serialise");
        writeln!(out, "report {json}").context("report to the parent")?;
        out.flush().context("report to the parent")
    }
}

/// One bulk transfer, as measured by its sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bulk {
    /// Payload bytes that the receiver has acknowledged.
    pub(crate) payload_bytes: u64,
    /// Time from the first measured byte to the last acknowledgement.
    pub(crate) elapsed: Duration,
    /// CPU time of the sending thread in `elapsed`.
    pub(crate) sender_cpu: Duration,
    /// Payload bytes that never arrived; 0 on TCP.
    pub(crate) lost_bytes: u64,
}

impl Bulk {
    /// Returns the sender's figures by name.
    pub(crate) fn sender_metrics(&self) -> Metrics {
        let gigabytes = self.payload_bytes as f64 / 1e9;
        Metrics::from([
            (GOODPUT, gigabytes / self.elapsed.as_secs_f64()),
            (SENDER_CPU, self.sender_cpu.as_secs_f64() / gigabytes),
            (LOST, self.lost_bytes as f64),
        ])
    }

    /// Returns the sender's figures with those of the receiver's report.
    pub(crate) fn metrics(&self, server: ServerReport) -> Metrics {
        let mut metrics = self.sender_metrics();
        let gigabytes = server.payload_bytes as f64 / 1e9;
        metrics.insert(RECEIVER_CPU, server.cpu_seconds / gigabytes);
        metrics
    }
}

/// Round-trip times, in nanoseconds.
pub(crate) struct RoundTrips(Histogram<u64>);

impl RoundTrips {
    /// Creates an empty histogram. Times above `longest` count as `longest`.
    pub(crate) fn new(longest: Duration) -> Self {
        let bounds = Histogram::new_with_bounds(1, longest.as_nanos() as u64, 3);
        Self(bounds.expect("every limit here is longer than two nanoseconds"))
    }

    pub(crate) fn record(&mut self, round_trip: Duration) {
        self.0.saturating_record(round_trip.as_nanos() as u64);
    }

    /// Returns the number of round trips.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the figures of half a round trip.
    pub(crate) fn metrics(&self) -> Metrics {
        let one_way = |quantile| self.0.value_at_quantile(quantile) as f64 / 2e3;
        Metrics::from([
            (ONE_WAY_P50, one_way(0.5)),
            (ONE_WAY_P99, one_way(0.99)),
            (ONE_WAY_P999, one_way(0.999)),
        ])
    }
}
