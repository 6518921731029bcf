//! Programs that `LD_LIBRARY_PATH` does not reach, and those that look at the files of devices.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::print_note;
use crate::{Failure, process, tree};

/// A libibverbs of another origin: it has no devices.
const BUNDLED: &str = "
struct ibv_device;
struct ibv_device **ibv_get_device_list(int *count) { *count = 0; return 0; }
const char *ibv_get_device_name(struct ibv_device *device) { return device ? \"bundled\" : \"\"; }
";
/// The versions that a program asks for.
const VERSIONS: &str = "
IBVERBS_1.1 { global: ibv_get_device_list; ibv_get_device_name; local: *; };
";

/// As Python's tools look for devices.
const PYTHON: &str = r#"
import glob, os, stat
name = os.listdir("/sys/class/infiniband")[0]
assert name in [entry.name for entry in os.scandir("/sys/class/infiniband")], name
assert stat.S_ISCHR(os.stat("/dev/infiniband/uverbs-" + name).st_mode)
os.close(os.open("/dev/infiniband/uverbs-" + name, os.O_RDWR))
own = os.path.realpath(f"/sys/class/infiniband/{name}/../..")
assert own == "/sys/devices/virtual/braid/" + name, own
assert os.path.exists(own + "/numa_node"), own
gids = glob.glob("/sys/class/infiniband/*/ports/1/gids/0")
assert len(gids) >= 1 and len(open(gids[0]).read()) == 40, gids
print("device files ok")
"#;

/// Starts all of them.
pub(super) fn all(braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    linked_to_another(braid_run, logs)?;
    device_files(braid_run, logs)
}

/// Programs that come with a libibverbs of their own: under a name of its own, as in Python's
/// wheels, or found by a `DT_RPATH`, which goes before `LD_LIBRARY_PATH`.
fn linked_to_another(braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    for name in ["libibverbs.so.1", "libibverbs-1f4c3d22.so.1.15.57.0"] {
        let library = bundled(logs, name)?;
        let program = logs.join(format!("reached-{name}"));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-Wl,--disable-new-dtags"])
            .arg(format!("-Wl,-rpath,{}", logs.display()))
            .arg(tree::root().join("ibverbs/tests/reached.c"))
            .arg(&library)
            .arg("-o")
            .arg(&program);
        process::run(&mut cc)?;
        let alone = process::output(&mut Command::new(&program))?;
        let reached = process::output(Command::new(braid_run).arg("--quiet").arg(&program))?;
        if (alone.as_str(), reached.as_str()) != ("no device\n", "braid0\n") {
            return Err(Failure::new(format!(
                "a program with its own {name} lists {alone} alone and {reached} on Braid"
            )));
        }
    }
    print_note("programs", "with libibverbs of their own: DT_RPATH, bundled");
    Ok(())
}

fn bundled(logs: &Path, name: &str) -> Result<PathBuf, Failure> {
    let (source, versions) = (logs.join("bundled.c"), logs.join("bundled.map"));
    for (file, text) in [(&source, BUNDLED), (&versions, VERSIONS)] {
        fs::write(file, text)
            .map_err(|e| Failure::new(format!("cannot write {}: {e}", file.display())))?;
    }
    let library = logs.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", &format!("-Wl,-soname,{name}")])
        .arg(format!("-Wl,--version-script={}", versions.display()))
        .arg(&source)
        .arg("-o")
        .arg(&library);
    process::run(&mut cc)?;
    Ok(library)
}

/// In C, with and without what compilers put in place of calls, and in Python.
fn device_files(braid_run: &Path, logs: &Path) -> Result<(), Failure> {
    let source = tree::root().join("ibverbs/tests/device_files.c");
    for (name, options) in [
        ("files", &["-O1"][..]),
        ("files64", &["-O2", "-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64"]),
    ] {
        let program = logs.join(name);
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror"]).args(options);
        process::run(cc.arg(&source).arg("-o").arg(&program))?;
        process::output(Command::new(braid_run).arg("--quiet").arg(&program))?;
    }
    let python = ["--quiet", "/usr/bin/python3", "-c", PYTHON];
    process::output(Command::new(braid_run).args(python))?;
    print_note("device files", "found by stat, access, open, realpath, readdir");
    Ok(())
}
