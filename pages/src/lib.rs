//! What programs with several commands share: how their command lines are read, what they say when a command fails, man pages and
//! shell completions.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Command, Parser};
use clap_complete::Shell;

/// The hidden command of every program that has pages.
pub const COMMAND: &str = "write-pages";

/// What that command takes.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The folder that an installation begins in: its `share` gets the pages.
    pub prefix: PathBuf,
}

/// Where each shell looks below a prefix, and under which name.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions", "PROGRAM"),
    (Shell::Zsh, "share/zsh/site-functions", "_PROGRAM"),
    (Shell::Fish, "share/fish/vendor_completions.d", "PROGRAM.fish"),
];

/// Writes `share/man/man1/PROGRAM.1`, one for each of its commands, and the completions. Hidden commands have none.
///
/// # Errors
/// A folder cannot be made, or a file not be written.
pub fn write(command: Command, options: &Options) -> io::Result<()> {
    // `help COMMAND` says what `COMMAND --help` says.
    let mut command = command.disable_help_subcommand(true);
    let program = command.get_name().to_owned();
    for (shell, folder, file) in SHELLS {
        let mut file = create(&options.prefix.join(folder), &file.replace("PROGRAM", &program))?;
        clap_complete::generate(shell, &mut command, &program, &mut file);
    }
    let folder = options.prefix.join("share/man/man1");
    fs::create_dir_all(&folder)?;
    clap_mangen::generate_to(command, folder)
}

/// Reads the command line. An unknown command is answered with those that there are.
pub fn parse<Cli: Parser>() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| with_known(error, Cli::command()).exit())
}

fn with_known(error: clap::Error, mut command: Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let given = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
    let known = command.get_subcommands().filter(|command| !command.is_hide_set());
    let known: Vec<_> = known.map(|command| command.get_name()).collect();
    let text = format!("no command `{}`; known: {}", given.unwrap_or_default(), known.join(", "));
    command.error(ErrorKind::InvalidSubcommand, text)
}

/// Why a command failed.
pub trait Failure: Display {
    /// Whether nobody needs to hear of it: who has closed standard output has heard enough.
    fn is_no_news(&self) -> bool;

    /// 2: bad usage; 1: the run failed.
    fn exit_status(&self) -> u8;
}

/// How `program` ends, once it has said why its command failed, if it did.
pub fn exit_code(program: &str, done: Result<(), impl Failure>) -> ExitCode {
    let Err(failure) = done else { return ExitCode::SUCCESS };
    if !failure.is_no_news() {
        say(program, &failure);
    }
    ExitCode::from(failure.exit_status())
}

/// Says something on standard error, in one piece: other processes may write there, too. Where nobody can hear it, nobody does.
pub fn say(program: &str, what: impl Display) {
    _ = io::stderr().write_all(format!("{program}: {what}\n").as_bytes());
}

fn create(folder: &Path, name: &str) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    File::create(folder.join(name))
}
