//! Programs with several commands: their command lines, error messages, exit codes, man pages and
//! shell completions.

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

/// The arguments of that command.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The prefix of an installation. Its folder `share` gets the pages.
    pub prefix: PathBuf,
}

/// The folder below a prefix and the file name that each shell expects.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions", "PROGRAM"),
    (Shell::Zsh, "share/zsh/site-functions", "_PROGRAM"),
    (Shell::Fish, "share/fish/vendor_completions.d", "PROGRAM.fish"),
];

/// Writes the man pages of a program and of its commands to `share/man/man1`, and the completions.
/// Hidden commands have none.
///
/// # Errors
/// A folder or a file cannot be written.
pub fn write(command: Command, options: &Options) -> io::Result<()> {
    // `help COMMAND` is the same as `COMMAND --help`.
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

/// Reads the command line. The error of an unknown command lists the known ones.
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

/// The error of a command.
pub trait Failure: Display {
    /// Whether the error is not printed, for instance because the user has closed standard output.
    fn is_no_news(&self) -> bool;

    /// The exit status: 2 for bad usage, 1 for a failed run.
    fn exit_status(&self) -> u8;
}

/// Prints the error of a command, if there is one, and returns the exit code of the program.
pub fn exit_code(program: &str, done: Result<(), impl Failure>) -> ExitCode {
    let Err(failure) = done else { return ExitCode::SUCCESS };
    if !failure.is_no_news() {
        say(program, &failure);
    }
    ExitCode::from(failure.exit_status())
}

/// Writes a line to standard error at once, because other processes may write there too. A failure
/// to write is ignored.
pub fn say(program: &str, what: impl Display) {
    _ = io::stderr().write_all(format!("{program}: {what}\n").as_bytes());
}

fn create(folder: &Path, name: &str) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    File::create(folder.join(name))
}
