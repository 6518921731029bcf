//! The package installed on this machine, used, and removed again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::NAME;
use crate::{Failure, install, process, tools, tree};

/// Opens the plugin by the name that NCCL looks for, and finds its newest table.
const OPENS_PLUGIN: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    void *plugin = dlopen("libnccl-net-braid.so", RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL || dlsym(plugin, "ncclNetPlugin_v10") == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return 0;
}
"#;

/// Opens the drop-in libraries by the names that verbs programs have them by; this machine has a
/// device at least.
const LISTS_DEVICES: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    int count = 0;
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    void *connections = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
    void *(*list)(int *) = verbs == NULL ? NULL : dlsym(verbs, "ibv_get_device_list");
    const char *(*name)(void *) = verbs == NULL ? NULL : dlsym(verbs, "ibv_get_device_name");
    if (connections == NULL || list == NULL || name == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void **devices = list(&count);
    if (devices == NULL || count == 0 || name(devices[0])[0] != 'b') {
        fprintf(stderr, "no device of Braid's among %d\n", count);
        return 1;
    }
    return 0;
}
"#;

/// Removes the package, whatever has become of the check.
struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        _ = Command::new("dpkg").args(["--purge", NAME]).output();
    }
}

/// Installs, uses and removes.
pub(super) fn run(package: &Path, out: &Path) -> Result<(), Failure> {
    ["gcc", "pkg-config"].into_iter().try_for_each(tools::need)?;
    if process::output(Command::new("dpkg-query").args(["--show", NAME])).is_ok() {
        return Err(Failure::new(format!("a package `{NAME}` is installed here already"))
            .remedy(format!("remove it first: dpkg --purge {NAME}")));
    }
    let wanted = install::files(&out.join("root"))?;
    let wanted: Vec<PathBuf> = wanted
        .into_iter()
        .map(|(file, _)| Path::new("/").join(file))
        .filter(|file| !file.starts_with("/DEBIAN"))
        .collect();
    let installed = Installed;
    process::run(Command::new("dpkg").arg("--install").arg(package))?;
    if let Some(missing) = wanted.iter().find(|file| file.symlink_metadata().is_err()) {
        return Err(Failure::new(format!("{} has not been installed", missing.display())));
    }
    let programs = out.join("programs");
    fs::create_dir_all(&programs)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", programs.display())))?;
    use_library(&programs)?;
    process::run(&mut Command::new(compiled(&programs, "plugin", OPENS_PLUGIN)?))?;
    let lists = compiled(&programs, "devices", LISTS_DEVICES)?;
    process::run(Command::new("braid-run").arg(lists))?;
    use_programs()?;
    process::run(Command::new("dpkg").args(["--purge", NAME]))?;
    drop(installed);
    match wanted.iter().find(|file| file.symlink_metadata().is_ok()) {
        Some(left) => Err(Failure::new(format!("{} is left behind", left.display()))),
        None => {
            println!("installed, used and removed: {} files", wanted.len());
            Ok(())
        }
    }
}

/// A C program, built with what pkg-config says, moves bytes between two processes.
fn use_library(programs: &Path) -> Result<(), Failure> {
    let flags = process::output(Command::new("pkg-config").args(["--cflags", "--libs", "braid"]))?;
    let program = programs.join("pingpong");
    let source = tree::root().join("examples/c/pingpong.c");
    let mut compile = Command::new("gcc");
    compile.arg("-o").arg(&program).arg(source).args(flags.split_whitespace());
    process::run(&mut compile)?;
    let script = r#""$0" listen 127.0.0.1:7411 & sleep 1; "$0" connect 127.0.0.1:7411 && wait $!"#;
    process::run(Command::new("sh").args(["-c", script]).arg(program))
}

/// A program that opens libraries by itself.
fn compiled(programs: &Path, name: &str, source: &str) -> Result<PathBuf, Failure> {
    let (file, program) = (programs.join(format!("{name}.c")), programs.join(name));
    super::write(&file, source)?;
    process::run(Command::new("gcc").arg("-o").arg(&program).arg(&file).arg("-ldl"))?;
    Ok(program)
}

fn use_programs() -> Result<(), Failure> {
    process::run(Command::new("braid-perf").args([
        "write-bw",
        "--loopback",
        "-n",
        "100",
        "--verify",
    ]))?;
    // The scenario is the installed one: the working folder has none.
    let mut simulate = Command::new("braid-sim");
    process::run(simulate.args(["run", "permutation-pro"]).current_dir("/"))
}
