//! `ip`, `tc` and `nft`: batches of lines, one process each.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::FabricError;
use crate::process::show;

/// The programs that a fabric is made with, and the Debian packages that bring them.
const NEEDED: [(&str, &str); 4] =
    [("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables"), ("chrt", "util-linux")];

/// Checks that a fabric can be made: by root, with all programs.
pub(crate) fn need() -> Result<(), FabricError> {
    need_all(&NEEDED)
}

/// Checks that network namespaces can be made: by root, with `ip`.
pub(crate) fn need_ip() -> Result<(), FabricError> {
    need_all(&NEEDED[..1])
}

fn need_all(programs: &[(&'static str, &'static str)]) -> Result<(), FabricError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(FabricError::NotRoot);
    }
    match programs.iter().copied().find(|(program, _)| !on_path(program)) {
        Some((program, package)) => Err(FabricError::Missing { program, package }),
        None => Ok(()),
    }
}

/// Runs lines with `ip`, outside of all namespaces.
pub(crate) fn ip(lines: &str) -> Result<(), FabricError> {
    run(Command::new("ip").args(["-batch", "-"]), lines)
}

/// Runs all lines with `ip`, outside of all namespaces, even if one fails.
pub(crate) fn ip_all(lines: &str) -> Result<(), FabricError> {
    run(Command::new("ip").args(["-force", "-batch", "-"]), lines)
}

/// Runs lines with `ip` in a namespace.
pub(crate) fn ip_in(namespace: &str, lines: &str) -> Result<(), FabricError> {
    run(Command::new("ip").args(["-n", namespace, "-batch", "-"]), lines)
}

/// Runs lines with `tc` in a namespace.
pub(crate) fn tc_in(namespace: &str, lines: &str) -> Result<(), FabricError> {
    run(Command::new("tc").args(["-n", namespace, "-batch", "-"]), lines)
}

/// Takes over a rule set with `nft` in a namespace, as a whole or not at all.
pub(crate) fn nft_in(namespace: &str, rules: &str) -> Result<(), FabricError> {
    run(Command::new("ip").args(["netns", "exec", namespace, "nft", "-f", "-"]), rules)
}

/// Gives the calling thread the lowest real-time priority (SCHED_FIFO).
pub(crate) fn run_first() -> Result<(), FabricError> {
    let thread = nix::unistd::gettid().to_string();
    run(Command::new("chrt").args(["--fifo", "--pid", "1", &thread]), "")
}

/// A command that runs a program in a namespace. `ip netns exec` replaces itself by the program, so
/// that the program is the caller's child.
pub(crate) fn inside(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

fn run(command: &mut Command, input: &str) -> Result<(), FabricError> {
    let line = show(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(FabricError::system(format!("start `{line}`")))?;
    // A program that gives up early closes its end. Its standard error is the better message.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    let output =
        child.wait_with_output().map_err(FabricError::system(format!("wait for `{line}`")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = first_lines(&output.stderr);
    let command = match failed_line(&said).and_then(|number| input.lines().nth(number - 1)) {
        Some(batched) => format!("{line}: {batched}"),
        None => line,
    };
    Err(FabricError::Refused { command, said })
}

/// The line that a batch failed at: `Command failed -:3`.
fn failed_line(said: &str) -> Option<usize> {
    let (_, rest) = said.split_once("Command failed -:")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|number| *number > 0)
}

fn first_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().take(3).map(str::trim).collect::<Vec<_>>().join("; ")
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_batch_names_its_line() {
        assert_eq!(failed_line("Error: Unknown device; Command failed -:3"), Some(3));
        assert_eq!(failed_line("Command failed -:x"), None);
        assert_eq!(failed_line("Error"), None);
    }

    #[test]
    fn a_refusal_says_who_and_what() {
        let failure = run(Command::new("sh").args(["-c", "echo no >&2; exit 1"]), "").unwrap_err();
        assert!(failure.to_string().starts_with("`sh -c 'echo no >&2; exit 1'` failed: no"));
    }
}
