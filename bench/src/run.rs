//! One test from the command line to its result: the client, or both sides.

use std::io::Write;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use braid::{Medium, MemFabric, RoceMtu};

use crate::about::host_name;
use crate::bandwidth::{self, Watch};
use crate::child::Child;
use crate::cli::{Test, TestArgs};
use crate::engine_args::Switch;
use crate::failure::Failure;
use crate::json_file::JsonFile;
use crate::peer::cpu_seconds;
use crate::peer::limits::WORKING_SET_BYTES;
use crate::plan::{Dcqcn, Extent, Order, Phase, PhaseOutcome, Plan, RocePlan};
use crate::policies::Policies;
use crate::report::{self, Bandwidth, Figures, Host, Hosts, Latency, Results, Row};
use crate::session::{self, Session, Side};
use crate::table::{self, RULE, Table};
use crate::{degraded, header, interrupt, latency, server, stdio};

/// Default bytes outstanding per queue pair.
const OUTSTANDING_BYTES: u64 = 8 << 20;
/// Samples of shorter intervals are not printed at once, because that would disturb the
/// measurement.
const SHOWN_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of messages whose times are kept.
const MOST_TIMES: u64 = 10_000_000;
/// The longest message of `-a`.
const LARGEST_OF_ALL: u64 = 8 << 20;

/// Runs the test of the command line.
pub(crate) fn run(test: Test, args: &TestArgs) -> Result<(), Failure> {
    check(test, args)?;
    match (&args.host, args.loopback, args.engine.datapath().medium()) {
        (None, true, Medium::Process) => both_in_one_process(test, args),
        (None, true, _) => {
            let side = Side::new(&args.engine, 0, None)?;
            let server = Child::server(test, args)?;
            client(test, args, side, &[server.address()])?;
            server.finish()
        }
        (Some(_), _, Medium::Process) | (None, false, Medium::Process) => Err(Failure::Usage(
            "--datapath mem stays inside one process: add --loopback, without HOST".to_owned(),
        )),
        (Some(host), ..) => {
            let addresses = session::resolve(host, args.engine.port())?;
            client(test, args, client_side(args)?, &addresses)
        }
        (None, ..) => server::run(args),
    }
}

/// Creates the engine of a client. It receives at any port, except for RoCEv2 with a server at the
/// port where all RoCEv2 peers receive.
fn client_side(args: &TestArgs) -> Result<Side, Failure> {
    match args.engine.port() {
        braid::DEFAULT_PORT if args.roce => Side::at_roce_port(&args.engine),
        _ => Side::new(&args.engine, 0, None),
    }
}

fn check(test: Test, args: &TestArgs) -> Result<(), Failure> {
    session::check(&args.engine)?;
    let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
    if args.roce {
        let mtu = args.engine.mtu;
        if mtu.is_some_and(|mtu| RoceMtu::from_bytes(mtu.into()).is_none()) {
            return usage("the path MTU of RoCEv2 is 256, 512, 1024, 2048 or 4096: give -m one");
        }
        if args.engine.protection.key.is_some() {
            return usage("RoCEv2 protects nothing: remove --key, or --roce");
        }
        if args.host.is_none() && !args.loopback {
            return usage("--roce is for the client, whose choice holds for both: remove it");
        }
    }
    if test.is_latency() && (args.load.bidirectional || args.load.qps > 1) {
        return usage("a latency test has one queue pair and is bidirectional: remove -b and -q");
    }
    let other_size = args.load.all || args.load.size.is_some_and(|size| size != 8);
    if test == Test::AtomicLat && other_size {
        return usage("atomics are 8 bytes: remove -s and -a");
    }
    if args.events && !matches!(test, Test::SendLat | Test::ReadLat | Test::AtomicLat) {
        return usage(
            "-e waits for completions, which a WRITE has at one side only: \
             it is for send-lat, read-lat and atomic-lat",
        );
    }
    if args.forever && (args.host.is_some() || args.loopback) {
        return usage("--forever is for the server: remove it, or HOST and --loopback");
    }
    if args.connect_timeout.is_some() && args.host.is_none() {
        return usage("--connect-timeout is for the client: give HOST, or remove it");
    }
    if test.is_latency() && args.output.interval.is_some() {
        return usage("samples are of goodput: --interval is for the bandwidth tests");
    }
    let every_time = args.output.report_histogram || args.output.report_unsorted;
    if !test.is_latency() && every_time {
        return usage("-H and -U print the time of each message: they are for the latency tests");
    }
    if every_time && args.load.iters.is_some_and(|iters| iters > MOST_TIMES) {
        return usage("-H and -U keep the time of each message: at most -n 10000000");
    }
    if test.is_latency() && args.output.report_gbits {
        return usage("--report_gbits is for the bandwidth tests");
    }
    if test.is_latency() && args.load.size == Some(0) {
        return usage("a latency test needs messages of at least 1 byte: -s 1");
    }
    Ok(())
}

fn both_in_one_process(test: Test, args: &TestArgs) -> Result<(), Failure> {
    let fabric = MemFabric::new();
    let server = Side::new(&args.engine, args.engine.port(), Some(&fabric))?;
    let side = Side::new(&args.engine, 0, Some(&fabric))?;
    let address = server.engine.local_addr();
    let serve = server::listen_silently(server)?;
    // A server whose client has failed is not awaited: it ends with the process.
    let serving = thread::spawn(serve);
    client(test, args, side, &[address])?;
    serving.join().map_err(|_| Failure::Peer("panicked".to_owned()))?
}

/// Measures once over loopback, without output.
pub(crate) fn sample(test: Test, args: &TestArgs) -> Result<Row, Failure> {
    let side = Side::new(&args.engine, 0, None)?;
    let server = Child::server(test, args)?;
    let size = args.load.size.unwrap_or(test.default_size());
    let mut session = connect(test, args, side, &[server.address()], &[size])?;
    let measured = measure(&mut session, test, args, size)?;
    session.control.flush(&Order::Quit)?;
    server.finish()?;
    measured.cut.map_or(Ok(measured.result), Err)
}

fn security_text(agreed: braid::Agreed) -> String {
    let what = match agreed.protection {
        braid::Protection::Authenticate => "authenticated",
        braid::Protection::Encrypt => "encrypted",
    };
    format!("{what} with {}", agreed.cipher)
}

fn client(test: Test, args: &TestArgs, side: Side, servers: &[SocketAddr]) -> Result<(), Failure> {
    let json = JsonFile::asked(args.output.json.as_ref())?;
    let sizes = sizes(test, args);
    let mut session = connect(test, args, side, servers, &sizes)?;
    interrupt::end_in_order();
    let table = table_of(test, args, &phase(test, args, sizes[0]));
    stdio::print(|out| {
        header::print(out, &session, &args.engine)?;
        table.heading(out)
    })?;
    let (mut rows, mut cut) = (Vec::new(), None);
    for size in sizes {
        let measured = measure(&mut session, test, args, size)?;
        let row = measured.result;
        cut = measured.cut;
        if cut.is_none() || row.figures.iterations > 0 {
            stdio::print(|out| table.row(out, &row.figures, row.measured_s))?;
            let shown = session.control.send(&Order::Show(row.figures));
            if cut.is_none() {
                shown?
            }
            rows.push(row);
        }
        if cut.is_some() {
            break;
        }
    }
    stdio::print(|out| writeln!(out, "{RULE}"))?;
    let results = results(test, args, &session, rows, cut.as_ref());
    let told = session.control.flush(&Order::Quit);
    stdio::note(report::summary(&results));
    match cut {
        Some(cut) if results.rows.is_empty() => Err(cut),
        Some(cut) => {
            json.map_or(Ok(()), |json| json.write(&results))?;
            Err(cut)
        }
        None => told.and_then(|()| json.map_or(Ok(()), |json| json.write(&results))),
    }
}

/// Collects the results at the end, when the packet size of the paths is known.
fn results(
    test: Test,
    args: &TestArgs,
    session: &Session,
    rows: Vec<Row>,
    cut: Option<&Failure>,
) -> Results {
    let client = Host { name: host_name(), address: session.engine.local_addr() };
    let name = args.host.clone().unwrap_or_else(host_name);
    let policies = Policies::of(&session.plan, &args.engine);
    let mut degradations = Vec::new();
    rows.iter().for_each(|row| degraded::merge(&mut degradations, &row.degraded));
    Results {
        degradations,
        test: test.name(),
        hosts: Hosts { client, server: Host { name, address: session.peer() } },
        queue_pairs: args.load.qps,
        paths: policies.paths,
        path_policy: policies.lb,
        loss_recovery: policies.loss_recovery,
        congestion_control: policies.cc,
        packet_payload_bytes: session.qps[0].packet_payload().unwrap_or(0),
        datapath: args.engine.datapath().name(),
        protocol: session.qps[0].protocol().unwrap_or("unknown"),
        crc: session.qps[0].payload_crc() == Some(braid::Crc::On),
        security: session.qps[0].security().map(security_text),
        verify: args.verify,
        rail_policy: args.engine.policy.rail_policy.to_string(),
        rails: session.rails(),
        ended_early: cut.map(Failure::to_string),
        rows,
    }
}

fn connect(
    test: Test,
    args: &TestArgs,
    side: Side,
    servers: &[SocketAddr],
    sizes: &[u64],
) -> Result<Session, Failure> {
    let plan = plan(test, args, sizes);
    let limit = args.connect_timeout.map(Duration::from_secs_f64);
    let session = Session::connect(side, servers, plan, limit)?;
    if args.engine.policy.discover == Switch::On {
        session.wait_for_routes()?;
    }
    Ok(session)
}

fn plan(test: Test, args: &TestArgs, sizes: &[u64]) -> Plan {
    let slot_len = slot_len(sizes.iter().copied().max().unwrap_or(8));
    let sends = sizes.iter().map(|size| depth(args, *size)).max().unwrap_or(1);
    // A receiver needs spare receives while it posts receives again.
    let receives = if test == Test::SendBw { 4 * sends } else { sends };
    Plan {
        test,
        qps: args.load.qps,
        verify: args.verify,
        bidirectional: args.load.bidirectional,
        events: args.events,
        atomic: args.atomic,
        loss_recovery: args.engine.policy.loss_recovery,
        roce: args.roce.then(|| RocePlan {
            mtu: args.engine.mtu.map_or(u32::MAX, u32::from),
            dcqcn: args.dcqcn.map(Dcqcn),
        }),
        sends,
        receives,
        slots: if args.verify { receives } else { slots(args, slot_len).min(receives) },
        slot_len,
    }
}

fn sizes(test: Test, args: &TestArgs) -> Vec<u64> {
    if args.load.all {
        return (1..).map(|shift| 1 << shift).take_while(|size| *size <= LARGEST_OF_ALL).collect();
    }
    vec![args.load.size.unwrap_or(test.default_size())]
}

/// Returns the messages outstanding per queue pair. Verified messages have memory of their own,
/// which the queue pairs share.
fn depth(args: &TestArgs, size: u64) -> u32 {
    let sharers = if args.verify { args.load.qps.into() } else { 1 };
    let by_bytes = OUTSTANDING_BYTES / size.max(1) / sharers;
    args.load.tx_depth.unwrap_or(by_bytes.clamp(2, 128) as u32)
}

/// Returns the slots of memory per queue pair if bytes are not verified. Messages may then overlap
/// as in perftest, so that the working set of a test does not depend on the number of posted
/// messages.
fn slots(args: &TestArgs, slot_len: u64) -> u32 {
    (WORKING_SET_BYTES as u64 / slot_len / u64::from(args.load.qps)).clamp(1, u32::MAX.into())
        as u32
}

/// Returns the length of a slot. Slots begin on cache lines, so that messages do not share them.
fn slot_len(largest: u64) -> u64 {
    largest.max(8).next_multiple_of(64)
}

/// Returns the number of messages for about a second, as perftest's 1000 and 5000 once were.
fn default_iters(test: Test, args: &TestArgs, size: u64) -> u64 {
    match test.is_latency() {
        true => 20_000.min((1 << 30) / size.max(1)).max(100),
        false => ((1 << 30) / size.max(1) / u64::from(args.load.qps)).clamp(100, 500_000),
    }
}

fn phase(test: Test, args: &TestArgs, size: u64) -> Phase {
    let iters = args.load.iters.unwrap_or_else(|| default_iters(test, args, size));
    let limit = args.load.duration.map(|seconds| Extent::Time(Duration::from_secs_f64(seconds)));
    Phase { size, extent: limit.unwrap_or(Extent::Messages(iters)), depth: depth(args, size) }
}

/// Returns the table of a phase, which has the time of each row if intervals are shown.
fn table_of(test: Test, args: &TestArgs, phase: &Phase) -> Table {
    let interval = args.output.interval.map(Duration::from_millis);
    let is_timed = matches!(phase.extent, Extent::Time(_));
    match Table::new(test, phase, args.output.unit()) {
        Table::Bandwidth(unit) if is_timed && interval >= Some(SHOWN_INTERVAL) => {
            Table::BandwidthOverTime(unit)
        }
        table => table,
    }
}

fn measure(
    session: &mut Session,
    test: Test,
    args: &TestArgs,
    size: u64,
) -> Result<PhaseOutcome<Row>, Failure> {
    let phase = phase(test, args, size);
    let (cpu, before) = (cpu_seconds(), session.traffic());
    let PhaseOutcome { result: mut row, report, cut } = match test.is_latency() {
        true => measure_latency(session, phase, args)?,
        false => measure_bandwidth(session, phase, args)?,
    };
    row.figures.bytes = size;
    row.client_cpu_s = cpu_seconds() - cpu;
    row.server_cpu_s = report.cpu_s;
    row.traffic = session.traffic().since(before).and(report.traffic);
    row.order = match test {
        _ if args.load.bidirectional || test.is_latency() => {
            session.out_of_order().worse(report.order)
        }
        Test::ReadBw => session.out_of_order(),
        _ => report.order,
    };
    row.paths_live = session.paths_live();
    row.server_paths_live = report.paths_live;
    row.degraded = session.degraded();
    row.degraded.extend(report.degraded.iter().cloned());
    Ok(PhaseOutcome { result: row, report, cut })
}

fn measure_bandwidth(
    session: &mut Session,
    phase: Phase,
    args: &TestArgs,
) -> Result<PhaseOutcome<Row>, Failure> {
    let interval = args.output.interval.map(Duration::from_millis);
    let table = table_of(session.plan.test, args, &phase);
    let lines = matches!(table, Table::BandwidthOverTime(_)).then_some(table);
    let peak = !args.output.no_peak && !args.load.bidirectional;
    let watch = Watch { interval, lines, peak };
    let PhaseOutcome { result: outcome, report, cut } = bandwidth::client(session, phase, watch)?;
    let seconds = outcome.elapsed.as_secs_f64();
    let bandwidth = Bandwidth::new(outcome.messages, phase.size, seconds, outcome.peak);
    let row = Row {
        figures: Figures {
            iterations: outcome.messages,
            bandwidth: Some(bandwidth),
            ..Figures::default()
        },
        verified_messages: outcome.verified,
        measured_s: seconds,
        qp_seconds: outcome.qp_seconds,
        qp_messages: outcome.qp_messages,
        began_unix_s: Some(outcome.began_unix_s),
        samples: outcome.samples,
        ..Row::default()
    };
    Ok(PhaseOutcome { result: row, report, cut })
}

fn measure_latency(
    session: &mut Session,
    phase: Phase,
    args: &TestArgs,
) -> Result<PhaseOutcome<Row>, Failure> {
    let halves = matches!(session.plan.test, Test::WriteLat | Test::SendLat);
    let divisor = if halves { 2.0 } else { 1.0 };
    let keep = args.output.report_histogram || args.output.report_unsorted;
    let PhaseOutcome { result: mut outcome, report, cut } = latency::client(session, phase, keep)?;
    if args.output.report_unsorted {
        stdio::print(|out| table::times(out, &outcome.each, divisor))?;
    }
    if args.output.report_histogram {
        outcome.each.sort_unstable();
        stdio::print(|out| table::times(out, &outcome.each, divisor))?;
    }
    let row = Row {
        figures: Figures {
            iterations: outcome.times.len(),
            latency: Some(Latency::new(&outcome.times, divisor)),
            ..Figures::default()
        },
        verified_messages: outcome.verified,
        measured_s: outcome.elapsed.as_secs_f64(),
        ..Row::default()
    };
    Ok(PhaseOutcome { result: row, report, cut })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn plan_of(line: &str) -> Plan {
        let cli = Cli::try_parse_from(line.split_whitespace()).expect("a command line");
        let (Command::WriteBw(args) | Command::SendBw(args)) = &cli.command else {
            panic!("another test")
        };
        let test =
            if matches!(cli.command, Command::SendBw(_)) { Test::SendBw } else { Test::WriteBw };
        plan(test, args, &sizes(test, args))
    }

    #[test]
    fn a_queue_pair_keeps_as_much_outstanding_however_many_there_are() {
        for qps in [1_u64, 100, 1_000, 10_000] {
            let plan = plan_of(&format!("braid-perf write-bw -s 4096 -q {qps}"));
            assert_eq!((plan.sends, plan.receives), (128, 128), "{qps} queue pairs");
            let most = (4096 * qps).max(WORKING_SET_BYTES as u64);
            assert!(plan.total_bytes() <= most, "{qps} queue pairs: {plan:?}");
        }
        assert_eq!(plan_of("braid-perf send-bw -s 4096 -q 16384").receives, 512);
    }

    #[test]
    fn messages_that_are_verified_have_memory_of_their_own() {
        for (line, sends, slots) in [
            ("braid-perf write-bw --verify -s 4096 -q 1000", 2, 2),
            ("braid-perf write-bw --verify -s 4096 -q 100 -t 64", 64, 64),
            ("braid-perf send-bw --verify -s 4096 -q 100", 20, 80),
        ] {
            let plan = plan_of(line);
            assert_eq!((plan.sends, plan.slots), (sends, slots), "{line}");
        }
    }
}
