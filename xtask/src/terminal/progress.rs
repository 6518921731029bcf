//! The progress of tests and simulations, which only a terminal shows.

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

/// Checks that rank 0 of an all-to-all names the round that runs, and that Ctrl-C shows what was
/// measured.
pub(super) fn check_all_to_all(program: &Path) -> Result<(), Failure> {
    let alltoall = "alltoall --loopback -n 2 --matrix uniform --rounds 10000";
    let line = format!("{} {alltoall}; read", program.display());
    let terminal = Terminal::start("ranks", SIZE, &line)?;
    terminal.wait("the progress", |screen| screen.contains(" uniform: round "))?;
    terminal.press(&["C-c"])?;
    let end = terminal.wait("the end", |screen| screen.contains("braid-perf: interrupted"))?;
    match end.contains("CCT ms") && !end.contains(" uniform: round ") {
        true => Ok(()),
        false => Err(Failure::new(format!("no results, or the progress is left behind:\n{end}"))),
    }
}

/// Checks that a discovery that nobody answers shows its time.
pub(super) fn check_paths(program: &Path) -> Result<(), Failure> {
    let [host] = braid_lab::Namespace::up("paths")?;
    // Packets to this network leave by a device that leads nowhere.
    let links = "ip link add nobody type veth peer other; ip link set nobody up; \
                 ip link set other up; ip addr add 198.51.100.1/24 dev nobody; \
                 ip neigh add 198.51.100.2 lladdr 2:0:0:0:0:1 dev nobody";
    let line = format!(
        "ip netns exec {} sh -c '{links}; {} paths 198.51.100.2 --paths 256'; read",
        host.name(),
        program.display()
    );
    let terminal = Terminal::start("paths", SIZE, &line)?;
    let shown = " s, probing 256 paths to 198.51.100.2";
    terminal.wait("the progress", |screen| screen.contains(shown))?;
    let end = terminal.wait("the end", |screen| screen.contains("no probe was answered"))?;
    match end.contains(shown) {
        true => Err(Failure::new(format!("the progress is left behind:\n{end}"))),
        false => Ok(()),
    }
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
