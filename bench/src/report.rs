//! The results of a test: numbers with units in their names for programs, and a summary for people.

use std::net::{IpAddr, SocketAddr};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::degraded::{self, Degraded};
use crate::samples::Sample;
use crate::traffic::{OutOfOrder, Traffic};

/// The figures of a table row.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) bytes: u64,
    pub(crate) iterations: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bandwidth: Option<Bandwidth>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Latency>,
}

/// The result of one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Messages whose every byte was checked, on either side.
    pub(crate) verified_messages: u64,
    /// Counters of both sides.
    #[serde(flatten)]
    pub(crate) traffic: Traffic,
    /// Reordering at the receiving side; the larger value if both receive.
    #[serde(flatten)]
    pub(crate) order: OutOfOrder,
    /// Paths to the server in use at the end.
    pub(crate) paths_live: usize,
    /// Paths to the client in use at the server.
    #[serde(default)]
    pub(crate) server_paths_live: usize,
    /// Degradations of both sides at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) degraded: Vec<Degraded>,
    /// Duration of the measurement.
    pub(crate) measured_s: f64,
    pub(crate) client_cpu_s: f64,
    pub(crate) server_cpu_s: f64,
    /// Completion time of each queue pair's last message, from the first message of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) qp_seconds: Vec<f64>,
    /// Messages of each queue pair of the client that had completed at the end of the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) qp_messages: Vec<u64>,
    /// Time of the first post, which relates it to events of other processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began_unix_s: Option<f64>,
    /// With `--interval`: goodput of the client's own messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Bandwidth {
    pub(crate) goodput_gbps: f64,
    pub(crate) goodput_gbytes_s: f64,
    pub(crate) rate_mmsgs: f64,
    /// Maximum over all spans from the post of a message to the completion of a later one; absent
    /// if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peak_gbps: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) min_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) avg_us: f64,
    pub(crate) stdev_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
    /// Round trips, or whole operations.
    pub(crate) transactions_per_s: f64,
}

/// The results of a test.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) test: &'static str,
    pub(crate) hosts: Hosts,
    pub(crate) queue_pairs: u32,
    pub(crate) paths: usize,
    pub(crate) path_policy: String,
    pub(crate) loss_recovery: &'static str,
    pub(crate) congestion_control: String,
    pub(crate) packet_payload_bytes: u16,
    pub(crate) datapath: &'static str,
    /// The protocol that carried the packets.
    pub(crate) protocol: &'static str,
    pub(crate) crc: bool,
    /// Protection of packets. `None`: none.
    pub(crate) security: Option<String>,
    pub(crate) verify: bool,
    pub(crate) rail_policy: String,
    /// Degradations of both sides at the end of any row, each with the latest text.
    pub(crate) degradations: Vec<Degraded>,
    /// Packets sent on each rail, over the whole run.
    pub(crate) rails: Vec<RailUse>,
    /// The reason why the run ended before its end; absent if it did not. The last row is then of
    /// the time until it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_early: Option<String>,
    pub(crate) rows: Vec<Row>,
}

/// The two ends of the measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Hosts {
    pub(crate) client: Host,
    pub(crate) server: Host,
}

/// One end of the measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Host {
    /// The name from the kernel, or from the command line.
    pub(crate) name: String,
    /// The address at which its engine receives.
    pub(crate) address: SocketAddr,
}

/// The packets sent on a rail.
#[derive(Debug, Serialize)]
pub(crate) struct RailUse {
    pub(crate) rail: usize,
    /// The address of the other side.
    pub(crate) to: IpAddr,
    pub(crate) packets: u64,
    /// Number of packets that were declared lost.
    pub(crate) lost: u64,
}

impl Bandwidth {
    /// Computes the figures; `peak`: messages per second.
    pub(crate) fn new(messages: u64, bytes: u64, seconds: f64, peak: Option<f64>) -> Self {
        let total = messages as f64 * bytes as f64;
        Bandwidth {
            peak_gbps: peak.map(|per_second| per_second * bytes as f64 * 8e-9),
            goodput_gbps: total * 8e-9 / seconds,
            goodput_gbytes_s: total * 1e-9 / seconds,
            rate_mmsgs: messages as f64 * 1e-6 / seconds,
        }
    }
}

impl Latency {
    /// Computes the figures; a `divisor` of 2 gives half round trips.
    pub(crate) fn new(times: &Histogram<u64>, divisor: f64) -> Self {
        let us = |ns: f64| ns / 1000.0 / divisor;
        let at = |quantile| us(times.value_at_quantile(quantile) as f64);
        Latency {
            min_us: us(times.min() as f64),
            p50_us: at(0.5),
            avg_us: us(times.mean()),
            stdev_us: us(times.stdev()),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(times.max() as f64),
            transactions_per_s: 1e9 / times.mean(),
        }
    }
}

/// Formats the summary of a test.
pub(crate) fn summary(results: &Results) -> String {
    let all = results.rows.iter().map(|row| row.traffic);
    let mut text = format!(
        " packets of {} bytes over {}, crc {}, {}\n{}",
        results.packet_payload_bytes,
        results.protocol,
        if results.crc { "on" } else { "off" },
        results.security.as_deref().unwrap_or("no key"),
        traffic(&all.fold(Traffic::default(), Traffic::and)),
    );
    let packets: u64 = results.rails.iter().map(|rail| rail.packets).sum();
    for RailUse { rail, to, packets: own, lost } in
        results.rails.iter().filter(|_| results.rails.len() > 1)
    {
        let share = *own as f64 * 100.0 / packets.max(1) as f64;
        text += &format!(" rail {rail} to {to}: {own} packets ({share:.0} %), {lost} lost\n");
    }
    if results.verify {
        let verified: u64 = results.rows.iter().map(|row| row.verified_messages).sum();
        text += &format!(" verified: every byte of {verified} messages is right\n");
    }
    results.degradations.iter().for_each(|one| text += &degraded::line(one));
    text
}

/// Formats the counters of segments.
pub(crate) fn traffic(all: &Traffic) -> String {
    format!(
        " {} segments sent, {} declared lost, {} sent again ({} of them needlessly), \
         {} damaged datagrams dropped
",
        all.segments_sent,
        all.lost_segments,
        all.retransmitted_segments,
        all.spurious_retransmissions,
        all.corrupted_dropped,
    )
}
