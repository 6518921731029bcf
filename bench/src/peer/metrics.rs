//! What a peer's run is worth, with the unit in each name.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

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
/// 99th percentile of half a round trip, in microseconds.
pub(crate) const ONE_WAY_P99: &str = "one_way_p99_us";

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
    /// The figures by name, the receiver's from its own report.
    pub(crate) fn metrics(&self, server: ServerReport) -> Metrics {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let bytes = gigabytes(self.payload_bytes);
        Metrics::from([
            (GOODPUT, bytes / self.elapsed.as_secs_f64()),
            (SENDER_CPU, self.sender_cpu.as_secs_f64() / bytes),
            (RECEIVER_CPU, server.cpu_seconds / gigabytes(server.payload_bytes)),
            (LOST, self.lost_bytes as f64),
        ])
    }
}
