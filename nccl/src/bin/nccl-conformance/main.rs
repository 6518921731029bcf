//! Plays NCCL's proxy against the plugin, without a GPU: every table, every trap, and how fast it is
//! beside a TCP socket.
//!
//! Each check runs in a process of its own, so that a crash or a hang of the plugin is a result like any
//! other, and so that each can have its own `BRAID_*` variables.

mod checks;
mod net;
mod pair;
mod process;
mod report;
mod speed;
mod table;
mod tcp;
mod victim;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::checks::{Check, Stage};
use crate::net::Net;
use crate::process::Subject;
use crate::report::Report;

/// What carries the plugin's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Datapath {
    /// UDP sockets
    Udp,
    /// The interface's RDMA device, Soft-RoCE included
    Verbs,
}

impl Datapath {
    /// As `BRAID_DATAPATH` has it.
    fn name(self) -> &'static str {
        match self {
            Datapath::Udp => "udp",
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
    /// Versions of the table, with commas between them.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "6,7,8,9,10,11,12")]
    versions: Vec<u32>,
    /// Only checks whose name contains this.
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// The oldest and the newest version only, and no speed.
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
    /// What carries the packets. Over verbs, checks that inject faults or take addresses of the loopback are left out.
    #[arg(long, value_enum, default_value = "udp")]
    datapath: Datapath,
    /// Rounds of the speed measurements.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Writes the results there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Runs one check in this process.
    #[arg(long, hide = true)]
    check: Option<String>,
    /// Is the peer that is killed.
    #[arg(long, hide = true)]
    victim: Option<String>,
    /// Measures in this process.
    #[arg(long, hide = true)]
    measure: bool,
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

/// Whether all is well; an error says why that cannot be told.
fn run(args: &Args) -> Result<bool, String> {
    let plugin = plugin(args.plugin.as_deref())?;
    if let Some(wrong) = args.versions.iter().find(|version| !table::VERSIONS.contains(version)) {
        return Err(format!("--versions names {wrong}; there are 6 to 12"));
    }
    if args.check.is_some() || args.victim.is_some() || args.measure {
        return in_this_process(args, plugin);
    }
    let subject = Subject { plugin: &plugin, ifname: &args.ifname, datapath: args.datapath };
    let partly = args.quick || args.no_speed || args.only.is_some();
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

fn plugin(given: Option<&Path>) -> Result<PathBuf, String> {
    // Cargo leaves the library that it builds for a program in deps/, and moves it beside the program
    // only if it was asked for by name.
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
    let net = Net::open(&plugin, *args.versions.last().ok_or("no version")?)?;
    if let Some(role) = &args.victim {
        return victim::run(&net, role).map(|()| true);
    }
    if args.measure {
        let measured = speed::measure(&net, args.rounds).map_err(with_warnings)?;
        println!("{}", serde_json::to_string(&measured).map_err(|error| error.to_string())?);
        return Ok(true);
    }
    let name = args.check.as_deref().unwrap_or_default();
    let check = checks::all().find(|check| check.name == name).ok_or("no such check")?;
    match (check.run)(&Stage { plugin, net }) {
        Ok(()) => Ok(true),
        Err(seen) => {
            println!("{}", with_warnings(seen));
            Ok(false)
        }
    }
}

/// What went wrong, and what the plugin has said about it.
fn with_warnings(seen: String) -> String {
    let warnings = net::logged().into_iter().filter(|(level, _)| *level <= 2);
    warnings.fold(seen, |seen, (_, text)| seen + "\n    " + &text)
}

fn conform(args: &Args, subject: Subject<'_>, report: &mut Report) -> Result<(), String> {
    let named = |check: &&Check| args.only.as_ref().is_none_or(|words| check.name.contains(words));
    let suits = |check: &&Check| subject.datapath == Datapath::Udp || !check.udp_only;
    let unsuited: Vec<&str> =
        checks::all().filter(named).filter(|c| !suits(c)).map(|c| c.name).collect();
    if !unsuited.is_empty() {
        println!("left out, because they are about UDP: {}\n", unsuited.join(", "));
    }
    let wanted = |check: &&Check| named(check) && suits(check);
    let mut versions = args.versions.clone();
    if args.quick {
        versions.retain(|version| matches!(version, 6 | 12));
    }
    let each = |check: &'static Check| versions.iter().map(move |version| (check, *version));
    let work: Vec<_> = checks::all().filter(wanted).flat_map(each).collect();
    let work: Vec<_> =
        work.into_iter().filter(|(check, version)| *version >= check.since).collect();
    if work.is_empty() {
        return Err("no check has such a name and version".to_owned());
    }
    for ((check, version), outcome) in work.iter().zip(process::run_all(&work, subject)?) {
        report.add(check.name, *version, outcome);
    }
    Ok(())
}
