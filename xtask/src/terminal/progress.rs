//! The progress of a test or a simulation, which only a terminal shows.

use std::path::Path;

use super::tmux::Terminal;
use crate::Failure;

const SIZE: (usize, usize) = (100, 30);

/// Checks the line of a run of more than two seconds, and that it leaves nothing behind.
pub(super) fn check(program: &Path) -> Result<(), Failure> {
    let line = format!("{} write-bw --loopback -D 4; read", program.display());
    let terminal = Terminal::start("progress", SIZE, &line)?;
    terminal.wait("the progress", |screen| screen.contains(" of 4 s, "))?;
    let end = terminal.wait("the end", |screen| screen.contains("segments sent"))?;
    if end.contains(" of 4 s, ") {
        return Err(Failure::new(format!("the progress is left behind:\n{end}")));
    }
    if terminal.has_ended()? {
        return Err(Failure::new("the terminal has ended".to_owned()));
    }
    Ok(())
}

/// Checks that a comparison names the pair that runs, and how far it is.
pub(super) fn check_simulator(program: &Path) -> Result<(), Failure> {
    let compare = "compare permutation-pro --lb pro,ecmp --runs 60";
    let line = format!("{} {compare}; read", program.display());
    let terminal = Terminal::start("simulator", SIZE, &line)?;
    let shown = ["1 of 2: pro", " % of "];
    terminal.wait("the progress", |screen| shown.iter().all(|part| screen.contains(part)))?;
    let end = terminal.wait("the end", |screen| screen.contains("max queue[pkt]"))?;
    match shown.iter().any(|part| end.contains(part)) {
        true => Err(Failure::new(format!("the progress is left behind:\n{end}"))),
        false => Ok(()),
    }
}
