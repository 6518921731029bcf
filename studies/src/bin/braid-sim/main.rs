//! `braid-sim`: what a load balancer or a congestion control does on a fabric, before it is bought.

mod cli;
mod compare;
mod list;
mod progress;
mod reproduce;
mod run;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let command = braid_pages::parse::<Cli>().command;
    if let Err(error) = braid_log::from_environment() {
        eprintln!("braid-sim: {error}");
        return ExitCode::from(2);
    }
    match command {
        Command::List => list::list(),
        Command::Run(args) => run::run_scenarios(&args),
        Command::Matrix(args) => run::run_matrices(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Reproduce(args) => args.run(),
        Command::WritePages(options) => match braid_pages::write(Cli::command(), &options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("braid-sim: cannot write into {}: {why}", options.prefix.display());
                ExitCode::FAILURE
            }
        },
    }
}
