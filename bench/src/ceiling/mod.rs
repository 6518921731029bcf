//! `braid-perf ceiling`: Braid compared with the limits of this machine's kernel, in one
//! interleaved run.
//!
//! Each contestant is two processes on loopback. Ratios are taken within a round, and their median
//! is reported, because the state of the machine varies more than any measured figure (see
//! [`crate::peer::machine`]).

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use braid::{CcConfig, Datapath, LossRecovery, RailScheme};
use serde::Serialize;

use crate::cli::{AtomicKind, CeilingArgs, LoadArgs, OutputArgs, Test, TestArgs};
use crate::engine_args::{
    DeviceArgs, EngineArgs, FaultArgs, MemoryKind, PolicyArgs, ProgressKind, ProtectionArgs, Switch,
};
use crate::failure::{Attempt, Failure};
use crate::interleave::report::Report;
use crate::interleave::{Contestant, interleave};
use crate::json_file::JsonFile;
use crate::peer::metrics::{CPU, GOODPUT, MESSAGE_RATE, Metrics, ONE_WAY_P50, ONE_WAY_P99};
use crate::peer::options::{DEFAULT_CONGESTION, DEFAULT_PAYLOAD_BYTES, Timing};
use crate::peer::{ping_pong, tcp, udp_gso};
use crate::perftest::PerftestOptions;
use crate::report::Row;
use crate::{interrupt, run, stdio};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const UDP_GSO: &str = "raw UDP GSO/GRO";
const UDP_GSO_CRC: &str = "raw UDP GSO/GRO, CRC-32";
const PING_PONG: &str = "raw UDP ping-pong";
const WRITE_1M: &str = "braid WRITE 1 MiB, crc off";
const WRITE_1M_CRC: &str = "braid WRITE 1 MiB, crc on";
const WRITE_64K: &str = "braid WRITE 64 KiB, crc on";
const WRITE_64K_OFF: &str = "braid WRITE 64 KiB, crc off";
const WRITE_8B_LAT: &str = "braid WRITE 8 B latency";
const SEND_8B: &str = "braid SEND 8 B, 64 outstanding";

/// The headline figures of the project, with their targets.
#[derive(Debug, Serialize)]
struct Headline {
    /// WRITE 1 MiB, 8 outstanding, `--crc off`, over raw UDP GSO. Target: 0.70.
    write_1mib_ratio_udp_gso: Option<f64>,
    /// The same with payload checks. Target: 0.60.
    write_1mib_crc_ratio_udp_gso: Option<f64>,
    /// WRITE 1 MiB, `--crc off`, over TCP with writes of 1 MiB.
    write_1mib_ratio_tcp: Option<f64>,
    /// WRITE 64 KiB, with payload checks, over TCP with writes of 64 KiB. Target: 1.0.
    write_64kib_ratio_tcp: Option<f64>,
    /// The same with `--crc off`.
    write_64kib_crc_off_ratio_tcp: Option<f64>,
    /// Raw UDP GSO with payload checks, without a transport protocol, over the same TCP.
    udp_gso_crc_ratio_tcp_64kib: Option<f64>,
    /// WRITE 8 B, half a round trip, over the raw ping-pong. Target: at most 1.5.
    write_8b_latency_ratio_udp: Option<f64>,
    /// SENDs of 8 B, 64 outstanding. Target: 2.
    send_8b_mmsgs: Option<f64>,
    /// CPU seconds of both processes per 10^9 bytes of WRITE 1 MiB, `--crc off`; both spin.
    cpu_s_per_gb: Option<f64>,
}

#[derive(Serialize)]
struct Everything<'a> {
    #[serde(flatten)]
    headline: &'a Headline,
    /// The congestion control of the TCP contestants.
    tcp_congestion_control: &'a str,
    bandwidth: &'a Report,
    bandwidth_to_tcp_64kib: &'a Report,
    bandwidth_to_tcp_1mib: &'a Report,
    latency: &'a Report,
    /// The reason why the run ended before its end; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_early: Option<String>,
}

/// Measures and prints the comparison. A signal ends it with what was measured until then.
pub(crate) fn run(args: &CeilingArgs) -> Result<(), Failure> {
    crate::session::check(&engine_args(args, Switch::On))?;
    let json = JsonFile::asked(args.json.as_ref())?;
    interrupt::end_in_order();
    let congestion = tcp::allowed_congestion()?;
    let (tcp_1m, tcp_64k) = (tcp_name(congestion, 1 << 20), tcp_name(congestion, 64 << 10));
    let timing = Timing { duration: Duration::from_secs_f64(args.seconds), ..Timing::default() };
    let rounds = args.rounds as usize;
    let bulk =
        interleave(&mut bulk_contestants(args, timing, congestion), rounds).attempt("ceiling")?;
    let latency = interleave(&mut latency_contestants(args, timing), rounds).attempt("ceiling")?;
    let cut = interrupt::is_requested().then_some(Failure::Interrupted);
    if bulk.rounds.is_empty() {
        return cut.map_or(Ok(()), Err);
    }
    let to_raw = Report::new(&bulk, UDP_GSO);
    let to_tcp_64k = Report::new(&bulk, &tcp_64k);
    let to_tcp_1m = Report::new(&bulk, &tcp_1m);
    let latency = Report::new(&latency, PING_PONG);
    let headline = Headline {
        write_1mib_ratio_udp_gso: to_raw.ratio(WRITE_1M, GOODPUT),
        write_1mib_crc_ratio_udp_gso: to_raw.ratio(WRITE_1M_CRC, GOODPUT),
        write_1mib_ratio_tcp: to_tcp_1m.ratio(WRITE_1M, GOODPUT),
        write_64kib_ratio_tcp: to_tcp_64k.ratio(WRITE_64K, GOODPUT),
        write_64kib_crc_off_ratio_tcp: to_tcp_64k.ratio(WRITE_64K_OFF, GOODPUT),
        udp_gso_crc_ratio_tcp_64kib: to_tcp_64k.ratio(UDP_GSO_CRC, GOODPUT),
        write_8b_latency_ratio_udp: latency.ratio(WRITE_8B_LAT, ONE_WAY_P50),
        send_8b_mmsgs: latency.median(SEND_8B, MESSAGE_RATE),
        cpu_s_per_gb: to_raw.median(WRITE_1M, CPU),
    };
    stdio::print(|out| {
        writeln!(out, "{to_raw}")?;
        if !latency.is_empty() {
            writeln!(out, "{latency}")?;
        }
        if congestion != DEFAULT_CONGESTION {
            writeln!(out, "{}", tcp::explain(congestion))?;
        }
        print_headline(out, &headline)
    })?;
    let results = Everything {
        headline: &headline,
        tcp_congestion_control: congestion,
        bandwidth: &to_raw,
        bandwidth_to_tcp_64kib: &to_tcp_64k,
        bandwidth_to_tcp_1mib: &to_tcp_1m,
        latency: &latency,
        ended_early: cut.as_ref().map(Failure::to_string),
    };
    json.map_or(Ok(()), |json| json.write(&results))?;
    cut.map_or(Ok(()), Err)
}

fn print_headline(out: &mut impl Write, headline: &Headline) -> io::Result<()> {
    let mut line = |what: &str, value: Option<f64>, target: &str| {
        let value = value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        writeln!(out, "{what:52} {value:>7}   {target}")
    };
    line(
        "WRITE 1 MiB / raw UDP GSO, crc off",
        headline.write_1mib_ratio_udp_gso,
        "target 0.70 or more",
    )?;
    line(
        "WRITE 1 MiB / raw UDP GSO, crc on",
        headline.write_1mib_crc_ratio_udp_gso,
        "target 0.60 or more",
    )?;
    line("WRITE 1 MiB / TCP 1 MiB writes, crc off", headline.write_1mib_ratio_tcp, "")?;
    line(
        "WRITE 64 KiB / TCP 64 KiB writes, crc on",
        headline.write_64kib_ratio_tcp,
        "target 1.00 or more",
    )?;
    line("WRITE 64 KiB / TCP 64 KiB writes, crc off", headline.write_64kib_crc_off_ratio_tcp, "")?;
    line("raw UDP GSO with CRC-32 / TCP 64 KiB writes", headline.udp_gso_crc_ratio_tcp_64kib, "")?;
    line(
        "WRITE 8 B latency / raw UDP ping-pong",
        headline.write_8b_latency_ratio_udp,
        "target 1.50 or less",
    )?;
    line("SEND 8 B, million messages a second", headline.send_8b_mmsgs, "target 2.00 or more")?;
    line("CPU s per GB, both sides, WRITE 1 MiB, crc off", headline.cpu_s_per_gb, "")
}

fn tcp_name(congestion: &str, write_bytes: usize) -> String {
    let (size, unit) =
        if write_bytes < 1 << 20 { (write_bytes >> 10, "KiB") } else { (write_bytes >> 20, "MiB") };
    format!("TCP {congestion}, {size} {unit} writes")
}

fn bulk_contestants<'a>(
    args: &'a CeilingArgs,
    timing: Timing,
    congestion: &str,
) -> Vec<Contestant<'a>> {
    let raw = |checked| udp_gso::UdpGsoOptions {
        bind: LOOPBACK,
        payload: DEFAULT_PAYLOAD_BYTES,
        checked,
        timing,
    };
    let (raw, raw_crc) = (raw(false), raw(true));
    let tcp = |write_bytes| tcp::TcpOptions {
        bind: LOOPBACK,
        write_bytes,
        congestion: congestion.to_owned(),
        timing,
    };
    let (tcp_1m, tcp_64k) = (tcp(1 << 20), tcp(64 << 10));
    let write = |size, crc| {
        let test = braid_args(args, Some(size), None, crc);
        move || run::sample(Test::WriteBw, &test).map(|row| bulk_metrics(&row))
    };
    vec![
        Contestant::new(UDP_GSO, move || udp_gso::run(&raw)),
        Contestant::new(WRITE_1M, write(1 << 20, Switch::Off)),
        Contestant::new(WRITE_1M_CRC, write(1 << 20, Switch::On)),
        Contestant::new(tcp_name(congestion, tcp_1m.write_bytes), move || tcp::run(&tcp_1m)),
        Contestant::new(WRITE_64K, write(64 << 10, Switch::On)),
        Contestant::new(UDP_GSO_CRC, move || udp_gso::run(&raw_crc)),
        Contestant::new(tcp_name(congestion, tcp_64k.write_bytes), move || tcp::run(&tcp_64k)),
        Contestant::new(WRITE_64K_OFF, write(64 << 10, Switch::Off)),
    ]
}

fn latency_contestants(args: &CeilingArgs, timing: Timing) -> Vec<Contestant<'_>> {
    let ping =
        ping_pong::PingPongOptions { bind: LOOPBACK, bytes: ping_pong::DEFAULT_BYTES, timing };
    let write = braid_args(args, Some(8), None, Switch::On);
    let send = braid_args(args, Some(8), Some(64), Switch::On);
    vec![
        Contestant::new(PING_PONG, move || ping_pong::run(&ping)),
        Contestant::new(WRITE_8B_LAT, move || {
            run::sample(Test::WriteLat, &write).map(|row| latency_metrics(&row))
        }),
        Contestant::new(SEND_8B, move || {
            run::sample(Test::SendBw, &send).map(|row| bulk_metrics(&row))
        }),
    ]
}

fn bulk_metrics(row: &Row) -> Metrics {
    let Some(bandwidth) = row.figures.bandwidth else { return Metrics::new() };
    let gigabytes = row.figures.bytes as f64 * row.figures.iterations as f64 * 1e-9;
    Metrics::from([
        (GOODPUT, bandwidth.goodput_gbytes_s),
        (MESSAGE_RATE, bandwidth.rate_mmsgs),
        (CPU, (row.client_cpu_s + row.server_cpu_s) / gigabytes),
    ])
}

fn latency_metrics(row: &Row) -> Metrics {
    let Some(latency) = row.figures.latency else { return Metrics::new() };
    Metrics::from([(ONE_WAY_P50, latency.p50_us), (ONE_WAY_P99, latency.p99_us)])
}

fn braid_args(
    args: &CeilingArgs,
    size: Option<u64>,
    tx_depth: Option<u32>,
    crc: Switch,
) -> TestArgs {
    TestArgs {
        host: None,
        load: LoadArgs {
            size,
            iters: None,
            qps: 1,
            all: false,
            duration: Some(args.seconds),
            bidirectional: false,
            tx_depth,
        },
        atomic: AtomicKind::FetchAndAdd,
        events: false,
        loopback: true,
        once: false,
        forever: false,
        connect_timeout: None,
        verify: false,
        roce: false,
        dcqcn: None,
        output: OutputArgs {
            interval: None,
            report_gbits: false,
            no_peak: true,
            report_histogram: false,
            report_unsorted: false,
            json: None,
        },
        engine: engine_args(args, crc),
        perftest: PerftestOptions,
    }
}

fn engine_args(args: &CeilingArgs, crc: Switch) -> EngineArgs {
    EngineArgs {
        port: Some(0),
        bind: Some((LOOPBACK, 0).into()),
        device: DeviceArgs { dev: None, ib_port: 1, gid_index: None, connection: None },
        datapath: Some(Datapath::Udp.kind()),
        progress: ProgressKind::Poll,
        policy: PolicyArgs {
            paths: args.paths,
            quantum: None,
            destination_groups: None,
            lb: args.lb,
            discover: Switch::Off,
            cc: CcConfig::default(),
            loss_recovery: LossRecovery::default(),
            rails: Vec::new(),
            rail_policy: RailScheme::default(),
        },
        mtu: None,
        crc: Some(crc),
        protection: ProtectionArgs { key: None, allowed_keys: None, security: None },
        faults: FaultArgs { drop: 0.0, reorder: 0.0, duplicate: 0.0, corrupt: 0.0, delay: 0 },
        memory: MemoryKind::Host,
        seed: 1,
        metrics: None,
    }
}
