//! `braid-perf`: benchmarks for Braid in the manner of perftest.

mod about;
mod alltoall;
mod bandwidth;
mod capacity;
mod ceiling;
mod child;
mod cli;
mod compare;
mod congestion;
mod control;
mod degraded;
mod engine_args;
mod failure;
mod header;
mod info;
mod interleave;
mod interrupt;
mod json_file;
mod latency;
mod moe;
mod mpi;
mod pair;
mod paths;
mod pattern;
mod peer;
mod perftest;
mod plan;
mod policies;
mod program;
mod progress;
mod quantities;
mod report;
mod results;
mod roce;
mod run;
mod samples;
mod scratch;
mod server;
mod session;
mod spray;
mod stdio;
mod table;
mod top;
mod traffic;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::{panic, thread};

use clap::CommandFactory;

use crate::cli::{Cli, Command, Test};
use crate::failure::Failure;

/// Bytes of the stack that everything runs on. The main thread's stack depends on `ulimit -s`, and
/// parsing the command line alone needs more than 64 KiB.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    match thread::Builder::new().stack_size(STACK).spawn(program).map(|thread| thread.join()) {
        Ok(Ok(code)) => code,
        Ok(Err(panic)) => panic::resume_unwind(panic),
        Err(why) => {
            stdio::say(format_args!("cannot start a thread: {why}"));
            ExitCode::FAILURE
        }
    }
}

fn program() -> ExitCode {
    let command = braid_lab::pages::parse::<Cli>().command;
    let log = braid_log::from_environment(braid::environment::variable)
        .map_err(|error| Failure::Usage(error.to_string()));
    braid_lab::pages::exit_code(
        stdio::PROGRAM,
        log.and_then(|()| prepare(&command)).and_then(|()| dispatch(command)),
    )
}

/// Installs the handler of signals, which the processes of a run leave to the one that started
/// them.
fn prepare(command: &Command) -> Result<(), Failure> {
    let is_part = matches!(
        command,
        Command::PeerServer(_) | Command::PeerClient(_) | Command::FabricRelay { .. }
    );
    if is_part { Ok(()) } else { interrupt::install() }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::WriteBw(args) => run::run(Test::WriteBw, &args),
        Command::ReadBw(args) => run::run(Test::ReadBw, &args),
        Command::SendBw(args) => run::run(Test::SendBw, &args),
        Command::WriteLat(args) => run::run(Test::WriteLat, &args),
        Command::ReadLat(args) => run::run(Test::ReadLat, &args),
        Command::SendLat(args) => run::run(Test::SendLat, &args),
        Command::AtomicLat(args) => run::run(Test::AtomicLat, &args),
        Command::Ceiling(args) => ceiling::run(&args),
        Command::Paths(args) => paths::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Alltoall(args) => alltoall::run(&args),
        Command::Moe(args) => moe::run(&args),
        Command::Keygen { file, is_static: false } => keygen(&file),
        Command::Keygen { file, is_static: true } => keygen_static(&file),
        Command::Spray(args) => spray::run(&args),
        Command::Compare(options) => compare::run(&options),
        Command::Congestion(args) => congestion::run(&args),
        Command::PeerServer(options) => Ok(peer::serve(&options)?),
        Command::PeerClient(options) => Ok(peer::client::run(&options, &mut std::io::stdout())?),
        Command::WritePages(options) => {
            braid_lab::pages::write(Cli::command(), &options).map_err(|why| Failure::Io {
                what: format!("cannot write into {}", options.prefix.display()),
                why,
            })
        }
        Command::FabricRelay { name } => Ok(braid_lab::relay::main(&name)?),
    }
}

fn keygen(file: &Path) -> Result<(), Failure> {
    braid::make_key(file).map_err(|why| Failure::Key(why.to_string()))?;
    stdio::print(|out| {
        writeln!(
            out,
            "{} holds a new key; copy it to both sides over a secure channel",
            file.display()
        )
    })
}

/// Makes a private key and prints only its line for the lists of others, so that the output can be
/// appended to one.
fn keygen_static(file: &Path) -> Result<(), Failure> {
    let public = braid::make_private_key(file).map_err(|why| Failure::Key(why.to_string()))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    stdio::print(|out| writeln!(out, "{public} # {}", name.escape_default()))
}
