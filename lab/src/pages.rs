//! Programs with several commands: their command lines, error messages, exit codes, man pages and
//! shell completions.

use std::env;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Args, Command, Parser};
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
    let command = command.disable_help_subcommand(true);
    let program = command.get_name().to_owned();
    let shown = visible(&command);
    for (shell, folder, file) in SHELLS {
        let mut file = create(&options.prefix.join(folder), &file.replace("PROGRAM", &program))?;
        file.write_all(completions(shell, shown.clone(), &program).as_bytes())?;
    }
    let folder = options.prefix.join("share/man/man1");
    fs::create_dir_all(&folder)?;
    clap_mangen::generate_to(command, folder)
}

/// Returns the command without its hidden commands and arguments, which the generators of
/// completions would offer.
fn visible(command: &Command) -> Command {
    let mut shown = Command::new(command.get_name().to_owned()).disable_help_subcommand(true);
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned()).propagate_version(true);
    }
    let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.args(arguments).subcommands(commands.map(visible))
}

fn completions(shell: Shell, mut command: Command, program: &str) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, program, &mut text);
    let text = String::from_utf8_lossy(&text);
    // In bash's, the generator writes a hyphen in the program's name in two ways, so that nothing
    // behind a command was completed (clap_complete 4.6).
    let [one, other] = ["__", "__subcmd__"].map(|hyphen| program.replace('-', hyphen));
    text.replace(&format!("{other}__subcmd__"), &format!("{one}__subcmd__"))
}

/// The most similar of some names, if one is similar.
pub fn similar<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // clap's own threshold.
    const ENOUGH: f64 = 0.7;
    let all = known.into_iter().map(|name| (strsim::jaro(given, name), name));
    let best = all.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(similarity, _)| *similarity > ENOUGH).map(|(_, name)| name)
}

/// The end of an error about an unknown name: the name that was probably meant, if there is one.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    similar(given, known).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Parser of a value that begins with one of `names`, which completions offer. The type decides
/// which values are valid; parameters may follow the name after a colon.
pub fn named<T>(names: fn() -> Vec<String>) -> Named<T> {
    Named { names, value: PhantomData }
}

/// See [`named`].
pub struct Named<T> {
    names: fn() -> Vec<String>,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Named<T> {
    fn clone(&self) -> Self {
        Named { names: self.names, value: PhantomData }
    }
}

impl<T> TypedValueParser for Named<T>
where
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let text = value.to_string_lossy();
        text.parse().map_err(|why: T::Err| {
            let names = (self.names)();
            let name = text.split(':').next().unwrap_or_default();
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            let of = arg.map_or_else(String::new, |arg| format!(" for '{arg}'"));
            let text = format!("invalid value '{text}'{of}: {why}{hint}");
            clap::Error::raw(ErrorKind::ValueValidation, format!("{text}\n")).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

/// Reads the command line. The error of an unknown command lists the known ones.
pub fn parse<Cli: Parser>() -> Cli {
    let program = env::current_exe().unwrap_or_default();
    let command = Cli::command().after_help(documentation(&program));
    let parsed = command.clone().try_get_matches();
    let parsed = parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    parsed.unwrap_or_else(|error| with_known(error, command).exit())
}

/// The last line of the help: the place of the documentation, which an installed program finds
/// beside it.
fn documentation(program: &Path) -> String {
    let prefix = program.parent().and_then(Path::parent);
    let book = prefix.map(|prefix| prefix.join("share/doc/braid/html/index.html"));
    match book.filter(|book| book.is_file()) {
        Some(book) => format!("Documentation: {}", book.display()),
        None => "Documentation: docs/README.md of Braid's sources".to_owned(),
    }
}

fn with_known(error: clap::Error, mut command: Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let given = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
    let known = command.get_subcommands().filter(|command| !command.is_hide_set());
    let known: Vec<_> = known.map(|command| command.get_name()).collect();
    let given = given.unwrap_or_default();
    let hint = did_you_mean(&given, known.iter().copied());
    let text = format!("no command `{given}`; known: {}{hint}", known.join(", "));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_suggested_if_one_is_similar() {
        let known = ["adaptive", "pro", "round-robin"];
        assert_eq!(did_you_mean("adaptve", known), "; did you mean `adaptive`?");
        assert_eq!(did_you_mean("zzz", known), "");
        assert_eq!(similar("roundrobin", known), Some("round-robin"));
    }

    #[test]
    fn the_documentation_is_that_of_the_installation() {
        let prefix = env::temp_dir().join(format!("braid-pages-{}", std::process::id()));
        let program = prefix.join("bin/braid-x");
        assert!(documentation(&program).contains("docs/README.md"));
        let book = prefix.join("share/doc/braid/html");
        fs::create_dir_all(&book).expect("a folder for the test");
        fs::write(book.join("index.html"), "").expect("a file for the test");
        let installed = documentation(&program);
        fs::remove_dir_all(&prefix).expect("the folder is ours");
        assert_eq!(installed, format!("Documentation: {}/index.html", book.display()));
    }

    fn program() -> Command {
        let names = || vec!["even".to_owned(), "odd".to_owned()];
        let parity = Arg::new("parity").long("parity").value_parser(named::<String>(names));
        let hidden = Arg::new("secret").long("secret").hide(true);
        let shown = Command::new("do-it").args([parity, hidden]);
        Command::new("braid-x").subcommand(shown).subcommand(Command::new("internal").hide(true))
    }

    #[test]
    fn completions_have_options_and_values_and_nothing_hidden() {
        for (shell, ..) in SHELLS {
            let text = completions(shell, visible(&program()), "braid-x");
            for word in ["parity", "even", "odd", "do-it"] {
                assert!(text.contains(word), "{shell} lacks {word}: {text}");
            }
            assert!(!text.contains("internal") && !text.contains("secret"), "{shell}: {text}");
        }
    }
}
