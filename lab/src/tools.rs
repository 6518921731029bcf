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

/// Lines for `ip`, from outside of all namespaces.
pub(crate) fn ip(lines: &str) -> Result<(), FabricError> {
    run(Command::new("ip").args(["-batch", "-"]), lines)
}

/// Lines for `ip`, from outside of all namespaces; one that fails does not keep the others from
/// being done.
pub(crate) fn ip_all(lines: &str) -> Result<(), FabricError> {
    run(Command::new("ip").args(["-force", "-batch", "-"]), lines)
}

/// Lines for `ip` inside a namespace.
pub(crate) fn ip_in(namespace: &str, lines: &str) -> Result<(), FabricError> {
    run(Command::new("ip").args(["-n", namespace, "-batch", "-"]), lines)
}

/// Lines for `tc` inside a namespace.
pub(crate) fn tc_in(namespace: &str, lines: &str) -> Result<(), FabricError> {
    run(Command::new("tc").args(["-n", namespace, "-batch", "-"]), lines)
}

/// A rule set for `nft` inside a namespace, taken as a whole or not at all.
pub(crate) fn nft_in(namespace: &str, rules: &str) -> Result<(), FabricError> {
    run(Command::new("ip").args(["netns", "exec", namespace, "nft", "-f", "-"]), rules)
}

/// Has the calling thread run before all that are no real-time threads (SCHED_FIFO, the lowest priority).
pub(crate) fn run_first() -> Result<(), FabricError> {
    let thread = nix::unistd::gettid().to_string();
    run(Command::new("chrt").args(["--fifo", "--pid", "1", &thread]), "")
}

/// A program in a namespace; `ip netns exec` replaces itself by it, so it is the caller's child.
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
    // A program that gives up early closes its end; what it says then is the better message.
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
