//! Programs of Python's package index that move data by themselves: NIXL, which brings a UCX and a
//! libibverbs of its own, and Mooncake's transfer engine.
//!
//! Each reads from a second process, writes to it, and checks the data. Braid's metrics show the
//! number of bytes that it carried, because a program that falls back to TCP succeeds as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{alone, print_note, print_row};
use crate::{Failure, process, tree};

/// The versions that are known to run. Without what they depend on, which they need for GPUs only.
const WHEELS: &[&str] = &[
    "nixl==1.5.1",
    "nixl-cu12==1.5.1",
    "numpy==2.4.6",
    "mooncake-transfer-engine-non-cuda==0.3.13.post1",
];
const LIMIT: Duration = Duration::from_secs(60);
/// The line of success begins so.
const CHECKED: &str = "checked: ";

/// A program, its row, and its environment.
struct Wheel {
    name: &'static str,
    file: &'static str,
    options: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

/// UCX has shared memory between processes of a host, which is switched off. TCP is not: that Braid
/// is taken for it is what has to be seen.
const PROGRAMS: &[Wheel] = &[
    Wheel {
        name: "nixl",
        file: "nixl_transfer.py",
        options: "UCX 1.23, READ, WRITE",
        settings: &[("UCX_TLS", "^posix,sysv,cma")],
    },
    Wheel {
        name: "nixl",
        file: "nixl_transfer.py",
        options: "UCX 1.23, READ, WRITE",
        settings: &[("UCX_TLS", "^posix,sysv,cma"), ("BRAID_DROP", "0.01")],
    },
    Wheel {
        name: "mooncake",
        file: "mooncake_transfer.py",
        options: "rdma, READ, WRITE",
        settings: &[],
    },
    Wheel {
        name: "mooncake",
        file: "mooncake_transfer.py",
        options: "rdma, READ, WRITE",
        settings: &[("BRAID_DROP", "0.01")],
    },
    Wheel {
        name: "mooncake",
        file: "mooncake_transfer.py",
        options: "rdma, READ, WRITE",
        settings: &[("BRAID_DATAPATH", "tcp")],
    },
    Wheel {
        name: "mooncake",
        file: "mooncake_cache.py",
        options: "the example of a KV cache",
        settings: &[("BRAID_PATHS", "16"), ("BRAID_LOSS_RECOVERY", "fifo-path")],
    },
];

/// Runs all of them and prints a row for each.
pub(super) fn run(braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    let python = installed(logs)?;
    for wheel in PROGRAMS {
        let program = tree::root().join("ibverbs/tests/wheels").join(wheel.file);
        let mut command = Command::new(braid_run);
        command.arg("--quiet").arg(&python).arg(&program).envs(wheel.settings.iter().copied());
        let log = logs.join(format!("{}.log", wheel.name));
        let report = alone::run(&mut command, &log, LIMIT)?.succeeded()?;
        let Some(bytes) = report.said.lines().find_map(|line| line.strip_prefix(CHECKED)) else {
            return Err(Failure::new(format!(
                "{}: no word of success in:\n{}",
                wheel.name, report.said
            )));
        };
        print_row(wheel.name, wheel.options, wheel.settings, report.seconds);
        print_note("", bytes);
    }
    Ok(())
}

/// A Python that has the wheels, installed by an earlier run or now.
fn installed(logs: &Path) -> Result<PathBuf, Failure> {
    let folder = logs.join("wheels");
    let (python, mark) = (folder.join("bin/python"), folder.join("installed"));
    let wanted = WHEELS.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    // An interrupted run may have left files.
    _ = fs::remove_dir_all(&folder);
    process::run(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&folder))
        .map_err(|failure| failure.remedy("as root: cargo xtask tools"))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]).args(WHEELS);
    process::run(&mut pip).map_err(|failure| {
        failure.remedy("the wheels come from pypi.org, or from PIP_INDEX_URL")
    })?;
    fs::write(&mark, wanted)
        .map_err(|e| Failure::new(format!("cannot write {}: {e}", mark.display())))?;
    Ok(python)
}
