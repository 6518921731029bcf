//! Plays NCCL's proxy against the RMA tables: a process per rank, and one that is NCCL's bootstrap
//! network.

mod check;
mod checks;
mod gpu;
mod rank;
mod table;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use braid_lab::process::{Program, Stream};

use self::rank::{GATHER, Rank};
use self::table::RmaTable;
use crate::pair::Verdict;
use crate::table::Table;

pub(crate) use self::check::RmaCheck;
pub(crate) use self::checks::all;

/// The silence after which a rank is lost.
const PEER_TIMEOUT: &str = "BRAID_PEER_TIMEOUT_MS";

/// Time limit of a step of a check. The limit of the check is shorter than two of them.
const LIMIT: Duration = Duration::from_secs(40);

/// Whether the substitute of CUDA's driver is here, which checks of a GPU need.
pub(crate) fn has_gpu() -> bool {
    gpu::file().is_some()
}

/// Runs a check with all its ranks, as this process's children.
///
/// # Errors
/// A rank fails or crashes.
pub(crate) fn run(check: &RmaCheck, table: Table, plugin: &Path) -> Verdict {
    let mut ranks = Vec::new();
    for rank in 0..check.ranks {
        let table = if check.mixes_tables && rank == 1 { table.other() } else { table };
        let program = std::env::current_exe().map_err(rank::text)?;
        let mut command = Command::new(program);
        command.arg("--plugin").arg(plugin);
        command.args(["--versions", &table.token(), "--check", check.name]);
        command.args(["--rank", &rank.to_string()]);
        // A rank of a busy machine may not run for seconds.
        if std::env::var_os(PEER_TIMEOUT).is_none() {
            command.env(PEER_TIMEOUT, "20000");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ranks.push(Program::start_in_our_group(&mut command).map_err(rank::text)?);
    }
    while exchange(&mut ranks)? {}
    for (number, rank) in ranks.iter_mut().enumerate() {
        let status = rank.status(LIMIT).map_err(rank::text)?;
        if !status.success() && check.dies != Some(number) {
            let complaints = rank.text(Stream::Err);
            let end = status.signal().map_or_else(String::new, |s| format!(", signal {s}"));
            return Err(format!("rank {number} failed{end}: {complaints}"));
        }
    }
    Ok(())
}

/// Passes on what the ranks exchange, once. Returns false if the first of them has ended.
fn exchange(ranks: &mut [Program]) -> Verdict<bool> {
    let mut parts = Vec::new();
    for (number, rank) in ranks.iter_mut().enumerate() {
        let line = match rank.line(LIMIT) {
            Ok(line) => line,
            // Rank 0 has ended; its exit status says how.
            Err(_) if number == 0 => return Ok(false),
            Err(_) => {
                let complaints = rank.text(Stream::Err);
                return Err(format!("rank {number} ends before rank 0: {complaints}"));
            }
        };
        let part = line.trim().strip_prefix(GATHER).map(str::to_owned);
        parts.push(part.ok_or_else(|| format!("rank {number} says `{line}`"))?);
    }
    let line = parts.join(" ");
    for rank in ranks {
        let stdin = rank.child.stdin.as_mut().ok_or("no pipe")?;
        // A rank that has ended meanwhile says so by its exit status.
        let _ = writeln!(stdin, "{line}");
    }
    Ok(true)
}

/// Plays a rank of a check in this process.
///
/// # Errors
/// The plugin behaves otherwise than it should.
pub(crate) fn play(check: &RmaCheck, table: Table, plugin: &Path, rank: usize) -> Verdict {
    let gpu = check.needs_gpu.then(gpu::Gpu::open).transpose()?;
    let table = RmaTable::open(plugin, table)?;
    (check.run)(&Rank { table, rank, ranks: check.ranks, gpu })
}
