//! Plays NCCL's proxy against the plugin without a GPU: every table, edge cases, and the speed
//! relative to a TCP socket.
//!
//! Each check runs in its own process, so that a crash or a hang of the plugin is a result. Each
//! check can also have its own `BRAID_*` variables.

mod checks;
mod handle;
mod logger;
mod net;
mod pair;
mod process;
mod report;
mod rma;
mod speed;
mod table;
mod tcp;
mod two_hosts;
mod victim;
mod workload;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::checks::{Check, Stage};
use crate::net::Net;
use crate::process::{Job, Subject};
use crate::report::Report;
use crate::rma::RmaCheck;
use crate::table::Table;

/// The datapath of the plugin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Datapath {
    /// UDP sockets
    Udp,
    /// TCP connections
    Tcp,
    /// UDP sockets, or TCP connections where UDP does not pass
    Auto,
    /// The interface's RDMA device, Soft-RoCE included
    Verbs,
}

impl Datapath {
    /// Returns the value for `BRAID_DATAPATH`.
    fn name(self) -> &'static str {
        match self {
            Datapath::Udp => "udp",
            Datapath::Tcp => "tcp",
            Datapath::Auto => "auto",
            Datapath::Verbs => "verbs",
        }
    }
}

/// Checks the NCCL net plugin as NCCL uses it, without a GPU.
///
/// Exit status: 0: all is as it should be; 1: something is not; 2: it could not be checked.
#[derive(Parser, Debug)]
#[command(name = "nccl-conformance", version)]
struct Args {
    /// The plugin. Default: the libnccl_net_braid.so that was built with this program.
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Tables, with commas between them: versions of the net table, and gin13, rma13, rma14.
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "6,7,8,9,10,11,12,gin13,rma13,rma14"
    )]
    versions: Vec<Table>,
    /// Only checks whose name contains this, or one of these with commas between them.
    #[arg(long, value_name = "WORDS,..", value_delimiter = ',')]
    only: Vec<String>,
    /// The oldest and the newest version of each kind of table only, and no speed.
    #[arg(long)]
    quick: bool,
    /// No speed.
    #[arg(long)]
    no_speed: bool,
    /// Speed only.
    #[arg(long, conflicts_with_all = ["quick", "only", "no_speed"])]
    speed: bool,
    /// The network interface that both ends use.
    #[arg(long, value_name = "IF", default_value = "lo")]
    ifname: String,
    /// Interfaces or addresses that are the rails of one device, separated by commas, in place of
    /// `--ifname`. Skips checks that select devices themselves.
    #[arg(long, value_name = "IF,..", conflicts_with_all = ["ifname", "serve", "against", "speed"])]
    rails: Option<String>,
    /// The datapath. Over verbs and TCP, checks that inject faults or use loopback addresses are
    /// skipped.
    #[arg(long, value_enum, default_value = "udp")]
    datapath: Datapath,
    /// Rounds of the speed measurements.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Prints the devices that the plugin finds, and runs nothing. `BRAID_*` and `NCCL_*` variables
    /// count; what the plugin says about its choice goes to stderr
    #[arg(long, conflicts_with_all = ["quick", "only", "speed", "serve", "rails"])]
    devices: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// Writes the results there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    role: RoleArgs,
}

/// Measurements between two hosts.
#[derive(clap::Args, Debug)]
struct HostArgs {
    /// Measures between two hosts, with `--against` on the other one: this side receives. `BRAID_*`
    /// variables apply, except for those that are options here
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["quick", "only", "no_speed", "speed"])]
    serve: Option<SocketAddr>,
    /// Sends to the host that serves there, and compares the speed with a TCP socket
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["serve", "quick", "only", "no_speed", "speed"])]
    against: Option<SocketAddr>,
    /// Seconds of each measurement of `--against`: the start-up of a TCP socket on a slow link
    /// should have little influence
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
}

/// The part of this process in a check that another one has started.
#[derive(clap::Args, Debug)]
struct RoleArgs {
    /// Runs one check in this process.
    #[arg(long, hide = true)]
    check: Option<String>,
    /// Is this rank of the check.
    #[arg(long, hide = true)]
    rank: Option<usize>,
    /// Is the peer that is killed.
    #[arg(long, hide = true)]
    victim: Option<String>,
    /// Measures in this process.
    #[arg(long, hide = true)]
    measure: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=60.0).contains(seconds));
    seconds.ok_or_else(|| "take 0.01 to 60".to_owned())
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("nccl-conformance: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether all checks passed, or the reason why they could not run.
fn run(args: &Args) -> Result<bool, String> {
    let plugin = plugin(args.plugin.as_deref())?;
    if args.hosts.serve.is_some() || args.hosts.against.is_some() {
        return between_hosts(args, &plugin);
    }
    if args.devices {
        return print_devices(args, &plugin);
    }
    if args.role.check.is_some() || args.role.victim.is_some() || args.role.measure {
        return in_this_process(args, plugin);
    }
    let subject = Subject {
        plugin: &plugin,
        ifname: &args.ifname,
        rails: args.rails.as_deref(),
        datapath: args.datapath,
    };
    let partly = args.quick || args.no_speed || args.rails.is_some() || !args.only.is_empty();
    let measures = args.speed || !partly;
    if measures && (subject.ifname != "lo" || subject.datapath != Datapath::Udp) {
        return Err("speed is measured over UDP on lo only; give --no-speed".to_owned());
    }
    let mut report = Report::default();
    if !args.speed {
        conform(args, subject, &mut report)?;
    }
    if measures {
        report.speed = Some(process::measure(subject, args.rounds)?);
    }
    report.print();
    if let Some(file) = &args.json {
        report.write(file)?;
    }
    Ok(report.is_good())
}

/// A line for each: its number, name, and speed.
fn print_devices(args: &Args, plugin: &Path) -> Result<bool, String> {
    let net = Net::open(plugin, net_version(args)?)?;
    let ctx = net.init(None);
    for (_, text) in logger::logged() {
        eprintln!("{text}");
    }
    let ctx = ctx.map_err(|code| format!("init returned {code}"))?;
    for device in 0..net.devices().map_err(|code| format!("devices returned {code}"))? {
        let properties = net.properties(device)?;
        let name = properties.text("name").unwrap_or_default();
        let speed = properties.number("speed").unwrap_or_default();
        println!("{device} {name} {speed} Mbit/s");
    }
    pair::returns("finalize", net.finalize(ctx), net::SUCCESS)?;
    Ok(true)
}

fn between_hosts(args: &Args, plugin: &Path) -> Result<bool, String> {
    // SAFETY: no other thread runs yet.
    unsafe {
        std::env::set_var("BRAID_IFNAME", &args.ifname);
        std::env::set_var("BRAID_DATAPATH", args.datapath.name());
    }
    let net = Net::open(plugin, net_version(args)?)?;
    if let Some(at) = args.hosts.serve {
        two_hosts::serve(&net, at).map_err(with_warnings)?;
    }
    if let Some(to) = args.hosts.against {
        let time = Duration::from_secs_f64(args.hosts.seconds);
        let measured = two_hosts::measure(&net, to, args.rounds, time).map_err(with_warnings)?;
        measured.print();
        if let Some(file) = &args.json {
            report::write_json(file, &measured)?;
        }
    }
    Ok(true)
}

fn plugin(given: Option<&Path>) -> Result<PathBuf, String> {
    // Cargo leaves the library that it builds for a program in deps/, and moves it beside the
    // program only if it was asked for by name.
    let built = || {
        let program = std::env::current_exe().ok()?;
        let folder = program.parent()?;
        let name = "libnccl_net_braid.so";
        Some(folder.join("deps").join(name))
            .filter(|file| file.exists())
            .or(Some(folder.join(name)))
    };
    let file = given.map(Path::to_owned).or_else(built).ok_or("give --plugin FILE")?;
    file.canonicalize().map_err(|error| {
        format!(
            "no plugin at {}: {error}; `cargo build --release -p braid-nccl` makes it",
            file.display()
        )
    })
}

fn in_this_process(args: &Args, plugin: PathBuf) -> Result<bool, String> {
    let name = args.role.check.as_deref().unwrap_or_default();
    if let Some(table) = args.versions.last().filter(|table| table.is_rma() && !name.is_empty()) {
        return play_rma(args, name, *table, &plugin);
    }
    let net = Net::open(&plugin, net_version(args)?)?;
    if let Some(role) = &args.role.victim {
        return victim::run(&net, role).map(|()| true);
    }
    if args.role.measure {
        let measured = speed::measure(&net, args.rounds).map_err(with_warnings)?;
        println!("{}", serde_json::to_string(&measured).map_err(|error| error.to_string())?);
        return Ok(true);
    }
    let check = checks::all().find(|check| check.name == name).ok_or("no such check")?;
    match (check.run)(&Stage { plugin, net }) {
        Ok(()) => Ok(true),
        Err(seen) => {
            println!("{}", with_warnings(seen));
            Ok(false)
        }
    }
}

/// Runs a check of the RMA tables, or one of its ranks.
fn play_rma(args: &Args, name: &str, table: Table, plugin: &Path) -> Result<bool, String> {
    let check = rma::all().find(|check| check.name == name).ok_or("no such check")?;
    let Some(rank) = args.role.rank else {
        return match rma::run(check, table, plugin) {
            Ok(()) => Ok(true),
            Err(seen) => {
                println!("{seen}");
                Ok(false)
            }
        };
    };
    match rma::play(check, table, plugin, rank) {
        Ok(()) => Ok(true),
        Err(seen) => {
            // Standard output belongs to the bootstrap network.
            eprintln!("{}", with_warnings(seen));
            Ok(false)
        }
    }
}

/// The newest version of the net table that was asked for.
fn net_version(args: &Args) -> Result<u32, String> {
    let version = |table: &Table| match table {
        Table::Net(version) => Some(*version),
        _ => None,
    };
    args.versions.iter().filter_map(version).next_back().ok_or_else(|| "no version".to_owned())
}

/// Describes a failure, with the messages of the plugin.
fn with_warnings(seen: String) -> String {
    let warnings = logger::logged().into_iter().filter(|(level, _)| *level <= 2);
    warnings.fold(seen, |seen, (_, text)| seen + "\n    " + &text)
}

fn conform(args: &Args, subject: Subject<'_>, report: &mut Report) -> Result<(), String> {
    let named =
        |name: &str| args.only.is_empty() || args.only.iter().any(|words| name.contains(words));
    let over_udp = subject.datapath == Datapath::Udp;
    let suits = |udp_only: bool, picks_devices: bool| {
        !(!over_udp && udp_only || subject.rails.is_some() && picks_devices)
    };
    let mut tables = args.versions.clone();
    if args.quick {
        let ends = [Table::Net(6), Table::Net(12), Table::Gin(13), Table::Rma(14)];
        tables.retain(|table| ends.contains(table));
    }
    let (mut work, mut unsuited) = (Vec::new(), Vec::new());
    for check in checks::all().filter(|check| named(check.name)) {
        let Check { name, env, .. } = *check;
        let has = |table: &&Table| matches!(table, Table::Net(version) if *version >= check.since);
        match suits(check.udp_only, check.picks_devices) {
            true => work.extend(tables.iter().filter(has).map(|t| (name, env, *t))),
            false => unsuited.push(name),
        }
    }
    for check in rma::all().filter(|check| named(check.name)) {
        let RmaCheck { name, env, .. } = *check;
        match suits(check.udp_only, check.picks_devices) && (rma::has_gpu() || !check.needs_gpu) {
            true => work.extend(tables.iter().filter(|t| t.is_rma()).map(|t| (name, env, *t))),
            false => unsuited.push(name),
        }
    }
    if !unsuited.is_empty() {
        let names = unsuited.join(", ");
        println!(
            "left out, because they are about UDP, pick devices themselves, or need the substitute \
             of CUDA's driver: {names}\n"
        );
    }
    if work.is_empty() {
        return Err("no check has such a name and version".to_owned());
    }
    let work: Vec<_> =
        work.into_iter().map(|(check, env, table)| Job { check, env, table }).collect();
    for (job, outcome) in work.iter().zip(process::run_all(&work, subject)?) {
        report.add(job.check, job.table, outcome);
    }
    Ok(())
}
