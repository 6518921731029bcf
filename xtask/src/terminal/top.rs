//! `braid-perf top` on terminals of several sizes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::tmux::Terminal;
use crate::process::Program;
use crate::{Failure, process};

const SMALL: (usize, usize) = (80, 24);
const LARGE: (usize, usize) = (200, 50);
/// Time limit of the program's first line.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks `top` of a running test with more paths than the terminal has rows.
pub(super) fn check(program: &Path) -> Result<(), Failure> {
    let mut load = Command::new(program);
    load.args(["write-bw", "--loopback", "-D", "600", "-q", "4", "--paths", "64", "--seed", "3"]);
    load.env("BRAID_METRICS", "local").stdout(Stdio::piped()).stderr(Stdio::null());
    let load = start(load)?;
    let pid = load.pid();
    let top = format!("{} top {pid} --interval 0.3; echo ended: $?; read", program.display());
    let terminal = Terminal::start("top", SMALL, &top)?;
    let small = terminal.wait("a table with rates", |screen| {
        screen.contains(" RTS ") && screen.contains("lines 1 to 23 of")
    })?;
    fits(&small, SMALL)?;
    println!("{}", small.trim_end());
    scrolls(&terminal)?;
    terminal.resize(LARGE)?;
    let large = terminal.wait("the wide table", |screen| {
        screen.contains("DAMAGED/s") && screen.contains("lines 1 to 49 of")
    })?;
    fits(&large, LARGE)?;
    terminal.press(&["q"])?;
    terminal.wait("the end", |screen| screen.contains("ended: 0")).map(drop)?;
    drop(terminal);
    drop(load);
    elsewhere(program)
}

fn start(mut command: Command) -> Result<Program, Failure> {
    let mut program = Program::start(&mut command)?;
    program.line(PATIENCE)?;
    Ok(program)
}

/// Checks that each line is within the terminal, which otherwise would show a line as two.
fn fits(screen: &str, (columns, rows): (usize, usize)) -> Result<(), Failure> {
    let lines: Vec<&str> = screen.lines().collect();
    let is_whole = |title: &str| lines.iter().any(|line| line.starts_with(title));
    let all_there = ["ENGINE ", "QP ", "TO "].into_iter().all(is_whole);
    let status = lines.iter().rposition(|line| line.contains("q quits"));
    if all_there && status == Some(rows - 1) && lines.iter().all(|line| line.len() <= columns) {
        return Ok(());
    }
    Err(Failure::new(format!("{columns} x {rows} do not hold the view:\n{screen}")))
}

fn scrolls(terminal: &Terminal) -> Result<(), Failure> {
    let first = |number: usize| move |screen: &str| screen.contains(&format!("lines {number} to"));
    terminal.press(&["Down", "j"])?;
    terminal.wait("two lines further", first(3))?;
    terminal.press(&["NPage"])?;
    terminal.wait("a page further", first(26))?;
    terminal.press(&["End"])?;
    terminal.wait("the last line", |screen| {
        let numbers: Vec<&str> = screen.rsplit("lines ").next().unwrap_or("").split(' ').collect();
        numbers.get(2).is_some() && numbers.get(2) == numbers.get(4)
    })?;
    terminal.press(&["Home"])?;
    terminal.wait("the first line", first(1)).map(drop)
}

/// Checks a process in another network namespace.
fn elsewhere(program: &Path) -> Result<(), Failure> {
    let name = format!("braid-top-{}", std::process::id());
    process::run(Command::new("ip").args(["netns", "add", &name]))?;
    let done = inside(program, &name);
    process::run(Command::new("ip").args(["netns", "delete", &name]))?;
    done
}

fn inside(program: &Path, namespace: &str) -> Result<(), Failure> {
    let mut server = Command::new("ip");
    server.args(["netns", "exec", namespace]).arg(program).args(["write-bw", "-p", "0"]);
    server.env("BRAID_METRICS", "local").stdout(Stdio::piped());
    let server = start(server)?;
    let pid = server.pid().to_string();
    let top = ["top", &pid, "--once", "--interval", "0.1"];
    let text = process::output(Command::new(program).args(top))?;
    if !text.contains("ENGINE") {
        return Err(Failure::new(format!("top of another namespace shows:\n{text}")));
    }
    // Another user may not enter it.
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).args(top);
    let output = other.output().map_err(|e| Failure::new(format!("cannot start setpriv: {e}")))?;
    let says = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && says.lines().count() == 1 && says.contains("or as root") {
        return Ok(());
    }
    Err(Failure::new(format!("top of another user's namespace says:\n{says}")))
}
