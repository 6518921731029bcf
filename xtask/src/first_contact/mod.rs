//! `cargo xtask first-contact`: the first commands of the README on a bare Debian with Rust and a C
//! compiler, and the time that each takes.
//!
//! The user's folders are empty, so cargo fetches and compiles all crates.

mod system;

use std::process::Command;
use std::time::{Duration, Instant};

use braid_lab::table::aligned;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use self::system::System;
use crate::files::read;
use crate::{Failure, process, tree};

/// The page of the commands, and the heading above them.
const PAGE: &str = "README.md";
const HEADING: &str = "## Try it";
/// The clone's folder.
const CLONE: &str = "braid";
/// The packages that the second command needs, as the page says.
const PACKAGES: &str = "iproute2 nftables";

/// A command that has ended.
struct Typed {
    line: String,
    took: Duration,
    /// CPU time of all its processes.
    cpu: Duration,
}

/// Types the commands, and prints the times.
///
/// # Errors
///
/// This user is not root, the system cannot be made, or a command fails.
pub fn run() -> Result<(), Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Failure::new("only root may enter another root folder").remedy("use sudo"));
    }
    let [verified, picture] = commands(&read(&tree::root().join(PAGE))?)?;
    let system = System::fresh()?;
    let mut typed = Vec::new();
    let mut clone = Command::new("git");
    // As from another machine: without links to the files of this clone.
    clone.args(["clone", "--quiet", "--no-local"]).arg(tree::root());
    typed.push(time("git clone", clone.arg(system.home().join(CLONE)))?);
    typed.push(time(&verified, &mut system.shell(CLONE, &verified))?);
    let until_verified = sum(&typed);
    let install = format!("apt-get -qq update && apt-get -qq -y install {PACKAGES} >/dev/null");
    typed.push(time(&format!("apt-get install {PACKAGES}"), &mut system.shell("", &install))?);
    typed.push(time(&picture, &mut system.shell(CLONE, &picture))?);
    let mut rows = vec![["", "s", "CPU s"].map(str::to_owned).to_vec()];
    rows.extend(typed.iter().map(|typed| row(&typed.line, typed.took, typed.cpu)));
    rows.push(row(
        "from the clone to the first verified result",
        until_verified.0,
        until_verified.1,
    ));
    let (took, cpu) = sum(&typed);
    rows.push(row("from the clone to the picture of all paths", took, cpu));
    println!("\n{}", aligned(&rows, 1).join("\n"));
    Ok(())
}

/// The commands that show a verified result and all paths, as root types them.
fn commands(page: &str) -> Result<[String; 2], Failure> {
    let section = page.split_once(HEADING).and_then(|(_, rest)| rest.split("```").nth(1));
    let lines = section.unwrap_or_default().lines().skip(1);
    let command = |line: &str| {
        let command = line.split('#').next().unwrap_or_default().trim();
        command.strip_prefix("sudo ").unwrap_or(command).to_owned()
    };
    let mut lines = lines.map(command);
    match (lines.next(), lines.next()) {
        (Some(first), Some(second)) if first.contains("--verify") && second.contains("spray") => {
            Ok([first, second])
        }
        other => Err(Failure::new(format!(
            "{PAGE}: `{HEADING}` does not begin with a verified run and `spray`: {other:?}"
        ))),
    }
}

fn time(line: &str, command: &mut Command) -> Result<Typed, Failure> {
    println!("==> {line}");
    let (start, before) = (Instant::now(), cpu()?);
    process::run(command)?;
    Ok(Typed { line: line.to_owned(), took: start.elapsed(), cpu: cpu()?.saturating_sub(before) })
}

/// CPU time of all processes that have been waited for.
fn cpu() -> Result<Duration, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)
        .map_err(|e| Failure::new(format!("the kernel does not tell the CPU time: {e}")))?;
    let time = |value: TimeVal| {
        Duration::from_secs(value.tv_sec().unsigned_abs())
            + Duration::from_micros(value.tv_usec().unsigned_abs())
    };
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

fn sum(typed: &[Typed]) -> (Duration, Duration) {
    (typed.iter().map(|typed| typed.took).sum(), typed.iter().map(|typed| typed.cpu).sum())
}

fn row(what: &str, took: Duration, cpu: Duration) -> Vec<String> {
    let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
    vec![what.to_owned(), seconds(took), seconds(cpu)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_begins_with_both_commands() {
        let page = read(&tree::root().join(PAGE)).expect("the README");
        let [verified, picture] = commands(&page).expect("both commands");
        assert!(verified.starts_with("cargo run --release"), "{verified}");
        assert!(picture.starts_with("target/release/braid-perf spray"), "{picture}");
        assert!(commands("## Try it\n\n```sh\ncargo run\n```\n").is_err());
    }
}
