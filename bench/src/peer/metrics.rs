//! What a peer's run is worth, with the unit in each name.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{Context, PeerError};

/// Figures of one run; the unit is the end of the name.
pub(crate) type Metrics = BTreeMap<&'static str, f64>;

/// Payload received and acknowledged, in 10^9 bytes a second.
pub(crate) const GOODPUT: &str = "goodput_gbytes_per_s";
/// CPU seconds the sending process spends on 10^9 payload bytes.
pub(crate) const SENDER_CPU: &str = "sender_cpu_s_per_gbyte";
/// CPU seconds the receiving process spends on 10^9 payload bytes.
pub(crate) const RECEIVER_CPU: &str = "receiver_cpu_s_per_gbyte";
/// Payload sent that never arrived, in bytes.
pub(crate) const LOST: &str = "lost_bytes";
/// Median of half a round trip, in microseconds.
pub(crate) const ONE_WAY_P50: &str = "one_way_p50_us";
/// Mean of half a round trip, in microseconds.
pub(crate) const ONE_WAY_MEAN: &str = "one_way_mean_us";
/// 99th percentile of half a round trip, in microseconds.
pub(crate) const ONE_WAY_P99: &str = "one_way_p99_us";
/// 99.9th percentile of half a round trip, in microseconds.
pub(crate) const ONE_WAY_P999: &str = "one_way_p999_us";

/// Messages a second, in millions.
pub(crate) const MESSAGE_RATE: &str = "rate_mmsgs";
/// CPU seconds of all processes for 10^9 payload bytes.
pub(crate) const CPU: &str = "cpu_s_per_gbyte";
/// CPU seconds of all processes per second.
pub(crate) const BUSY_CORES: &str = "busy_cores";
/// Resident memory of all processes at most, in 2^20 bytes.
pub(crate) const MEMORY: &str = "memory_mib";

/// What the measuring process of a raw peer may say of itself.
pub(crate) const ALL: [&str; 7] =
    [GOODPUT, MESSAGE_RATE, SENDER_CPU, LOST, ONE_WAY_P50, ONE_WAY_P99, ONE_WAY_P999];

/// What the other process says when it has finished.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct ServerReport {
    /// Payload bytes received while the CPU clock below ran.
    pub(crate) payload_bytes: u64,
    /// CPU time of the whole process over those bytes, in seconds.
    pub(crate) cpu_seconds: f64,
}

impl ServerReport {
    /// Says it to the parent.
    pub(super) fn write_to(&self, out: &mut impl Write) -> Result<(), PeerError> {
        let json = serde_json::to_string(self).expect("two numbers always serialise");
        writeln!(out, "report {json}").context("report to the parent")?;
        out.flush().context("report to the parent")
    }
}

/// One bulk transfer, as measured by its sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bulk {
    /// Payload bytes the receiver has acknowledged.
    pub(crate) payload_bytes: u64,
    /// From the first measured byte to the last acknowledgement.
    pub(crate) elapsed: Duration,
    /// CPU time of the sending thread in `elapsed`.
    pub(crate) sender_cpu: Duration,
    /// Payload bytes that never arrived; none on TCP.
    pub(crate) lost_bytes: u64,
}

impl Bulk {
    /// The sender's own figures by name.
    pub(crate) fn sender_metrics(&self) -> Metrics {
        let gigabytes = self.payload_bytes as f64 / 1e9;
        Metrics::from([
            (GOODPUT, gigabytes / self.elapsed.as_secs_f64()),
            (SENDER_CPU, self.sender_cpu.as_secs_f64() / gigabytes),
            (LOST, self.lost_bytes as f64),
        ])
    }

    /// The same, and the receiver's from its own report.
    pub(crate) fn metrics(&self, server: ServerReport) -> Metrics {
        let mut metrics = self.sender_metrics();
        let gigabytes = server.payload_bytes as f64 / 1e9;
        metrics.insert(RECEIVER_CPU, server.cpu_seconds / gigabytes);
        metrics
    }
}

/// The times of round trips, in nanoseconds.
pub(crate) struct RoundTrips(Histogram<u64>);

impl RoundTrips {
    /// Longer ones than `longest` count as that.
    pub(crate) fn new(longest: Duration) -> Self {
        let bounds = Histogram::new_with_bounds(1, longest.as_nanos() as u64, 3);
        Self(bounds.expect("every limit here is longer than two nanoseconds"))
    }

    pub(crate) fn record(&mut self, round_trip: Duration) {
        self.0.saturating_record(round_trip.as_nanos() as u64);
    }

    /// How many there were.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Half of a round trip each.
    pub(crate) fn metrics(&self) -> Metrics {
        let one_way = |quantile| self.0.value_at_quantile(quantile) as f64 / 2e3;
        Metrics::from([
            (ONE_WAY_P50, one_way(0.5)),
            (ONE_WAY_P99, one_way(0.99)),
            (ONE_WAY_P999, one_way(0.999)),
        ])
    }
}
