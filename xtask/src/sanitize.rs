//! `cargo xtask sanitize`: the tests of what is unsafe or threaded, under ThreadSanitizer and
//! AddressSanitizer.
//!
//! The stable toolchain brings both run-time libraries (`librustc-stable_rt.*san.a`); only the
//! option that links them wants `RUSTC_BOOTSTRAP`. What it does not bring is a standard library
//! that is instrumented, nor the sources to make one, as Miri would want too. AddressSanitizer
//! needs none. ThreadSanitizer does not see what happens inside it: `sanitize/std_locks.c` tells it
//! of the locks, `sanitize/thread.supp` names what is left over, line by line with the reason. The
//! crates that forbid unsafe code have no threads, and nothing here for either to find.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::files::write;
use crate::test::SANITIZED;
use crate::{Failure, process, rustc, tools, tree};

/// Which of them to run.
#[derive(clap::Args)]
pub struct SanitizeOptions {
    /// Only this one
    #[arg(long)]
    only: Option<Sanitizer>,
    /// Only tests whose name holds this
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
}

/// The sanitizer that the tests run under.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sanitizer {
    /// Accesses of several threads to the same memory without an order between them
    Thread,
    /// Accesses outside of what is allocated or alive, and leaks
    Address,
}

/// Test programs with the same sanitizer that are run in the same way.
struct Group {
    sanitizer: Sanitizer,
    packages: &'static [&'static str],
    /// Arguments to cargo.
    build: &'static [&'static str],
    /// SanitizeOptions of the sanitizer, and arguments of the test programs.
    options: &'static str,
    arguments: &'static [&'static str],
}

const GROUPS: &[Group] = &[
    // `cargo xtask test` runs the tests of these packages nowhere else.
    Group {
        sanitizer: Sanitizer::Address,
        packages: SANITIZED,
        build: &["--lib", "--tests"],
        options: "",
        arguments: &[
            "--skip",
            "closing_leaves_nothing",
            "--skip",
            "survives_a_flood_of_garbage",
            "--skip",
            "silent_connections_keep_nobody_out",
        ],
    },
    // Those left out above. They count resident memory, so none of what is freed may be kept to
    // find out who uses it.
    Group {
        sanitizer: Sanitizer::Address,
        packages: SANITIZED,
        build: &["--test", "nothing_left", "--test", "flooded", "--test", "silent"],
        options: "quarantine_size_mb=0:thread_local_quarantine_size_kb=0",
        arguments: &[],
    },
    // One test at a time: the harness, which is not instrumented, then starts no threads. Those
    // left out first are about registered memory that changes meanwhile, which is suppressed, and
    // take minutes. The last one leaves too few descriptors for the symbolizer, without which no
    // suppression applies.
    Group {
        sanitizer: Sanitizer::Thread,
        packages: &["braid-rdma"],
        build: &["--lib", "--tests", "--config", "profile.dev.opt-level=2"],
        options: "halt_on_error=0 history_size=4",
        arguments: &[
            "--test-threads=1",
            "--skip",
            "large_",
            "--skip",
            "missing_connections_are_a_degradation",
        ],
    },
];

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Sanitizer::Thread => "thread",
            Sanitizer::Address => "address",
        }
    }
}

/// A slow path of the standard library: the macro that its wrapper has in `std_locks.c`, and what
/// its mangled name holds.
const SLOW_PATHS: &[(&str, [&str; 2])] = &[
    ("MUTEX_LOCK", ["5mutex5futex", "14lock_contended"]),
    ("RWLOCK_READ", ["6rwlock5futex", "14read_contended"]),
    ("RWLOCK_WRITE", ["6rwlock5futex", "15write_contended"]),
    ("CONDVAR_WAIT", ["7condvar5futex", "4wait"]),
    ("CONDVAR_WAIT_TIMEOUT", ["7condvar5futex", "12wait_timeout"]),
    ("SCOPED_END", ["6scoped", "29decrement_num_running_threads"]),
    ("ONCE", ["4once5futex", "4Once4call"]),
];

const STD_LOCKS: &str = include_str!("sanitize/std_locks.c");
const RACES: &str = include_str!("sanitize/thread.supp");
const LEAKS: &str = include_str!("sanitize/leak.supp");

/// Builds the tests with each sanitizer and runs them.
pub fn run(options: &SanitizeOptions) -> Result<(), Failure> {
    tools::need("cc")?;
    let is_chosen = |group: &&Group| options.only.is_none_or(|only| only == group.sanitizer);
    GROUPS.iter().filter(is_chosen).try_for_each(|group| watch(group, options.test.as_deref()))
}

fn watch(group: &Group, test: Option<&str>) -> Result<(), Failure> {
    let name = group.sanitizer.name();
    let target = tree::target()?.join("sanitize").join(name);
    fs::create_dir_all(&target)
        .map_err(|e| Failure::new(format!("cannot create {}: {e}", target.display())))?;
    let mut flags = vec![
        format!("-Zsanitizer={name}"),
        "-Cunsafe-allow-abi-mismatch=sanitizer".to_owned(),
        // What is generic in the standard library is compiled, and instrumented, with who uses it.
        "-Zshare-generics=no".to_owned(),
        // Libraries that a test opens find the sanitizer's functions in the test program.
        "-Clink-arg=-rdynamic".to_owned(),
    ];
    let mut command = tree::cargo();
    match group.sanitizer {
        Sanitizer::Address => {
            let suppressions = suppressions(&target, LEAKS)?;
            command.env("ASAN_OPTIONS", group.options).env("LSAN_OPTIONS", suppressions)
        }
        Sanitizer::Thread => {
            flags.extend(told_locks(&target)?);
            let suppressions = suppressions(&target, RACES)?;
            command.env("TSAN_OPTIONS", format!("{} {suppressions}", group.options))
        }
    };
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .args(["test", "--no-fail-fast"])
        .args(group.build)
        .arg("--target-dir")
        .arg(&target)
        // With a target triple, rustc's flags do not reach build scripts and macros.
        .args(["--target", &rustc::host()?]);
    for package in group.packages {
        command.args(["-p", package]);
    }
    command.arg("--").args(group.arguments).args(test);
    process::run(&mut command).map_err(|failure| {
        failure.remedy(format!("cargo xtask sanitize --only {name} --test NAME repeats one test"))
    })
}

/// The option that names the file of what a sanitizer is not to report.
fn suppressions(target: &Path, text: &str) -> Result<String, Failure> {
    let file = target.join("suppressions");
    write(&file, text)?;
    Ok(format!("suppressions={}", file.display()))
}

/// The flags that lead calls of the standard library's slow paths through wrappers.
fn told_locks(target: &Path) -> Result<Vec<String>, Failure> {
    let names = exported_by_std()?;
    let (source, object) = (target.join("std_locks.c"), target.join("std_locks.o"));
    write(&source, STD_LOCKS)?;
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-c", "-o"]).arg(&object).arg(&source);
    let mut flags = vec![format!("-Clink-arg={}", object.display())];
    for (name, parts) in SLOW_PATHS {
        let symbol = find(&names, *parts)?;
        compile.arg(format!("-D{name}=\"{symbol}\""));
        flags.push(format!("-Clink-arg=-Wl,--wrap={symbol}"));
    }
    process::run(&mut compile)?;
    Ok(flags)
}

fn find<'a>(names: &'a str, [module, function]: [&str; 2]) -> Result<&'a str, Failure> {
    let mut words = names.split_whitespace();
    words.find(|word| word.contains(module) && word.ends_with(function)).ok_or_else(|| {
        Failure::new(format!("the standard library has no `{function}` of `{module}` any more"))
            .remedy("see what has taken its place, and bring std_locks.c and SLOW_PATHS up to date")
    })
}

/// The names in the standard library's shared object: the archive, which is linked, has the same
/// ones.
fn exported_by_std() -> Result<String, Failure> {
    let root = process::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let folder = Path::new(root.trim()).join("lib/rustlib").join(rustc::host()?).join("lib");
    let is_std = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libstd-") && name.ends_with(".so")
    };
    let entries =
        fs::read_dir(&folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let library = entries.into_iter().find(is_std);
    let library = library
        .ok_or_else(|| Failure::new(format!("there is no libstd-*.so in {}", folder.display())))?;
    process::output(Command::new("nm").args(["-D", "--defined-only"]).arg(library))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_library_has_every_slow_path() {
        let names = exported_by_std().expect("nm reads the library");
        for (_, parts) in SLOW_PATHS {
            find(&names, *parts).expect("a name");
        }
    }

    #[test]
    fn every_suppression_has_a_reason_before_it() {
        for text in [RACES, LEAKS] {
            let lines: Vec<&str> = text.lines().collect();
            for (before, line) in lines.iter().zip(&lines[1..]) {
                assert!(line.starts_with('#') || before.starts_with('#'), "no reason for `{line}`");
            }
        }
    }
}
