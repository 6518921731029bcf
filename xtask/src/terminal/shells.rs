//! Completions, typed in real shells.

use std::path::Path;

use super::tmux::Terminal;
use crate::Failure;

const SIZE: (usize, usize) = (120, 30);
const PROMPT: &str = "ready>";

/// Text typed before Tab, and the line that it becomes.
const COMPLETED: [(&str, &str); 6] = [
    ("braid-perf write-b", "braid-perf write-bw"),
    ("braid-perf write-bw --loopb", "braid-perf write-bw --loopback"),
    ("braid-perf write-bw --lb adap", "braid-perf write-bw --lb adaptive"),
    ("braid-perf send-lat --loss-recovery go", "braid-perf send-lat --loss-recovery go-back-n"),
    ("braid-perf read-bw --crc of", "braid-perf read-bw --crc off"),
    ("braid-perf spray --only skew", "braid-perf spray --only skew"),
];
/// Typed before Tab, of commands and options that are hidden: they stay as they are.
const HIDDEN: [&str; 3] =
    ["braid-perf peer-s", "braid-perf fabric-r", "braid-perf write-bw --post_l"];
/// Typed before Tab, with several completions, and words that are then shown.
const AMBIGUOUS: (&str, [&str; 2]) = ("braid-perf write-bw --al", ["--all", "--allowed-keys"]);

/// Checks all shells.
pub(super) fn check(programs: &Path, prefix: &Path) -> Result<(), Failure> {
    for (name, line) in shells(prefix) {
        let empty = prefix.join("empty");
        let path = format!("PATH={}:$PATH HOME={}", programs.display(), empty.display());
        let line = format!("cd {} && exec env {path} {line}", empty.display());
        let shell = Shell { name, terminal: Terminal::start(name, SIZE, &line)? };
        shell.prepare(prefix)?;
        COMPLETED.iter().try_for_each(|(typed, wanted)| shell.completes(typed, wanted))?;
        HIDDEN.iter().try_for_each(|typed| shell.leaves(typed))?;
        shell.offers(AMBIGUOUS.0, AMBIGUOUS.1)?;
    }
    Ok(())
}

/// The command lines of the shells, without the user's settings.
fn shells(prefix: &Path) -> [(&'static str, String); 3] {
    let share = prefix.join("share");
    let fish = share.join("fish/vendor_completions.d/braid-perf.fish");
    [
        ("bash", "bash --norc --noprofile -i".to_owned()),
        ("zsh", "zsh -f -i".to_owned()),
        ("fish", format!("fish --no-config --private -i -C 'source {}'", fish.display())),
    ]
}

struct Shell {
    name: &'static str,
    terminal: Terminal,
}

impl Shell {
    /// Loads the completions, and sets a prompt by which command lines are found.
    fn prepare(&self, prefix: &Path) -> Result<(), Failure> {
        let share = prefix.join("share").display().to_string();
        let lines = match self.name {
            "bash" => vec![
                format!("source {share}/bash-completion/completions/braid-perf"),
                "bind 'set bell-style none'".to_owned(),
                format!("PS1='{PROMPT} '"),
            ],
            "zsh" => vec![
                format!("fpath=({share}/zsh/site-functions $fpath)"),
                "autoload -Uz compinit && compinit -u -D".to_owned(),
                "unsetopt beep list_beep".to_owned(),
                format!("PS1='{PROMPT} '"),
            ],
            _ => vec![format!("function fish_prompt; echo '{PROMPT} '; end")],
        };
        for line in lines {
            self.terminal.type_text(&line)?;
            self.terminal.press(&["Enter"])?;
        }
        self.clear()
    }

    /// Empties the command line and the screen.
    fn clear(&self) -> Result<(), Failure> {
        self.terminal.press(&["C-u"])?;
        self.terminal.type_text("clear")?;
        self.terminal.press(&["Enter"])?;
        let is_empty = |screen: &str| screen.trim() == PROMPT;
        self.terminal.wait(&format!("the prompt of {}", self.name), is_empty).map(drop)
    }

    fn type_and_complete(&self, typed: &str) -> Result<(), Failure> {
        self.clear()?;
        self.terminal.type_text(typed)?;
        self.terminal.press(&["Tab"])
    }

    fn completes(&self, typed: &str, wanted: &str) -> Result<(), Failure> {
        self.type_and_complete(typed)?;
        let what = format!("{}: `{typed}` completed to `{wanted}`", self.name);
        // A blank, which says that the word is whole.
        self.terminal.type_text("X")?;
        let wanted = [format!("{wanted} X"), format!("{wanted}X")];
        let is_it = |screen: &str| {
            line(screen).is_some_and(|line| wanted.iter().any(|wanted| line.starts_with(wanted)))
        };
        self.terminal.wait(&what, is_it).map(drop)
    }

    /// Checks that Tab adds nothing.
    fn leaves(&self, typed: &str) -> Result<(), Failure> {
        self.type_and_complete(typed)?;
        self.terminal.type_text("X")?;
        let screen = self.terminal.wait("what was typed", |screen| screen.contains('X'))?;
        match line(&screen) {
            Some(line) if line.starts_with(&format!("{typed}X")) => Ok(()),
            _ => Err(Failure::new(format!("{}: `{typed}` is completed:\n{screen}", self.name))),
        }
    }

    fn offers(&self, typed: &str, words: [&str; 2]) -> Result<(), Failure> {
        self.type_and_complete(typed)?;
        // bash completes the common part, rings, and then lists.
        self.terminal.press(&["Tab", "Tab"])?;
        let what = format!("{}: completions of `{typed}`", self.name);
        let offered = |screen: &str| {
            let shown = screen.split_whitespace().collect::<Vec<_>>();
            words.iter().all(|word| shown.contains(word))
        };
        let screen = self.terminal.wait(&what, offered)?;
        if self.name == "bash" {
            println!("{}", screen.trim_end());
        }
        Ok(())
    }
}

/// The command line behind the prompt.
fn line(screen: &str) -> Option<&str> {
    screen.lines().rev().find_map(|line| line.strip_prefix(PROMPT)).map(str::trim_start)
}
