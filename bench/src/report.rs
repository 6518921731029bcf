//! Results: perftest's columns for people, the same numbers with units in their names for programs.

use std::io::{self, Write};
use std::net::IpAddr;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::cli::Test;
use crate::samples::Sample;
use crate::traffic::{OutOfOrder, Traffic};

/// One line of the result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) bytes: u64,
    pub(crate) iterations: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bandwidth: Option<Bandwidth>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Latency>,
    /// Messages whose every byte was checked, on either side.
    pub(crate) verified_messages: u64,
    /// Of both sides.
    #[serde(flatten)]
    pub(crate) traffic: Traffic,
    /// Of the side that receives; of the worse one where both do.
    #[serde(flatten)]
    pub(crate) order: OutOfOrder,
    /// Paths to the server that were in use at the end.
    pub(crate) paths_live: usize,
    pub(crate) client_cpu_s: f64,
    pub(crate) server_cpu_s: f64,
    /// When each queue pair's last message completed, counted from the first message of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) qp_seconds: Vec<f64>,
    /// How many messages of each queue pair of the client's had ended when the time was over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) qp_messages: Vec<u64>,
    /// When the first message was posted; other processes' events can be told by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began_unix_s: Option<f64>,
    /// With `--interval`: what the client's own messages came to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Bandwidth {
    pub(crate) goodput_gbps: f64,
    pub(crate) goodput_gbytes_s: f64,
    pub(crate) rate_mmsgs: f64,
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
}

/// The whole result.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) test: &'static str,
    pub(crate) queue_pairs: u32,
    pub(crate) paths: usize,
    pub(crate) path_policy: String,
    pub(crate) loss_recovery: &'static str,
    pub(crate) congestion_control: String,
    pub(crate) packet_payload_bytes: u16,
    pub(crate) crc: bool,
    pub(crate) verify: bool,
    pub(crate) rail_policy: String,
    /// What has left on each rail, over the whole run.
    pub(crate) rails: Vec<RailUse>,
    pub(crate) rows: Vec<Row>,
}

/// What has left on a rail.
#[derive(Debug, Serialize)]
pub(crate) struct RailUse {
    pub(crate) rail: usize,
    /// Where the other side receives.
    pub(crate) to: IpAddr,
    pub(crate) packets: u64,
    /// Those of them that were declared lost.
    pub(crate) lost: u64,
}

impl Bandwidth {
    pub(crate) fn new(messages: u64, bytes: u64, seconds: f64) -> Self {
        let total = messages as f64 * bytes as f64;
        Bandwidth {
            goodput_gbps: total * 8e-9 / seconds,
            goodput_gbytes_s: total * 1e-9 / seconds,
            rate_mmsgs: messages as f64 * 1e-6 / seconds,
        }
    }
}

impl Latency {
    /// `divisor` 2: half round trips.
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
        }
    }
}

/// The line above the rows.
pub(crate) fn heading(out: &mut impl Write, test: Test) -> io::Result<()> {
    if test.is_latency() {
        writeln!(
            out,
            " {:>10} {:>11} {:>10} {:>14} {:>10} {:>10} {:>10} {:>10} {:>12}",
            "#bytes",
            "#iterations",
            "t_min[us]",
            "t_typical[us]",
            "t_avg[us]",
            "t_stdev",
            "99%[us]",
            "99.9%[us]",
            "t_max[us]"
        )
    } else {
        writeln!(
            out,
            " {:>10} {:>11} {:>18} {:>18} {:>15}",
            "#bytes", "#iterations", "BW avg[Gb/s]", "BW avg[GB/s]", "MsgRate[Mpps]"
        )
    }
}

/// The figures of one size.
pub(crate) fn row(out: &mut impl Write, row: &Row) -> io::Result<()> {
    if let Some(l) = &row.latency {
        writeln!(
            out,
            " {:>10} {:>11} {:>10.2} {:>14.2} {:>10.2} {:>10.2} {:>10.2} {:>10.2} {:>12.2}",
            row.bytes,
            row.iterations,
            l.min_us,
            l.p50_us,
            l.avg_us,
            l.stdev_us,
            l.p99_us,
            l.p999_us,
            l.max_us
        )?;
    }
    if let Some(b) = &row.bandwidth {
        writeln!(
            out,
            " {:>10} {:>11} {:>18.2} {:>18.3} {:>15.6}",
            row.bytes, row.iterations, b.goodput_gbps, b.goodput_gbytes_s, b.rate_mmsgs
        )?;
    }
    Ok(())
}

/// What happened besides.
pub(crate) fn summary(out: &mut impl Write, results: &Results) -> io::Result<()> {
    let sum = |field: fn(&Row) -> u64| results.rows.iter().map(field).sum::<u64>();
    writeln!(
        out,
        " {} queue pair(s), {} path(s) by {}, packets of {} bytes, crc {}, {}",
        results.queue_pairs,
        results.paths,
        results.path_policy,
        results.packet_payload_bytes,
        if results.crc { "on" } else { "off" },
        results.loss_recovery,
    )?;
    writeln!(
        out,
        " {} segments sent, {} declared lost, {} sent again ({} of them needlessly), {} damaged datagrams dropped",
        sum(|row| row.traffic.segments_sent),
        sum(|row| row.traffic.lost_segments),
        sum(|row| row.traffic.retransmitted_segments),
        sum(|row| row.traffic.spurious_retransmissions),
        sum(|row| row.traffic.corrupted_dropped),
    )?;
    if results.rails.len() > 1 {
        let all: u64 = results.rails.iter().map(|rail| rail.packets).sum();
        for RailUse { rail, to, packets, lost } in &results.rails {
            let share = *packets as f64 * 100.0 / all.max(1) as f64;
            writeln!(out, " rail {rail} to {to}: {packets} packets ({share:.0} %), {lost} lost")?;
        }
    }
    if results.verify {
        let verified = sum(|row| row.verified_messages);
        writeln!(out, " verified: every byte of {verified} messages is right")?;
    }
    Ok(())
}
