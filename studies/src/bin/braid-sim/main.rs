//! `braid-sim`: simulates load balancers and congestion controls on a fabric.

mod cli;
mod compare;
mod failure;
mod list;
mod progress;
mod reproduce;
mod run;
mod scenarios;
mod stdio;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let command = braid_lab::pages::parse::<Cli>().command;
    let log = braid_log::from_environment(|name| std::env::var_os(name)).map_err(Failure::from);
    braid_lab::pages::exit_code("braid-sim", log.and_then(|()| dispatch(command)))
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::List => list::list(),
        Command::Run(args) => run::run_scenarios(&args),
        Command::Matrix(args) => run::run_matrices(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Reproduce(args) => args.run(),
        Command::WritePages(options) => braid_lab::pages::write(Cli::command(), &options)
            .map_err(|why| Failure::Pages { prefix: options.prefix, why }),
    }
}
