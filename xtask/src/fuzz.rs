//! `cargo xtask fuzz`: libFuzzer on the parsers and on a connected endpoint, with the stable
//! toolchain.
//!
//! `fuzz/` has cargo-fuzz's layout, so `cargo +nightly fuzz` works there too. cargo-fuzz itself
//! insists on nightly only for its sanitizers; the coverage that guides libFuzzer is plain LLVM and
//! stable rustc passes it through. What is fuzzed is safe code, so a sanitizer has nothing to find
//! there and would cost a factor of eight. What lies inside the engine is reached by `--cfg
//! fuzzing`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use braid_lab::process::Stream;

use crate::{Failure, process, rustc, tools, tree};

/// The targets, and their time.
#[derive(clap::Args)]
pub struct FuzzOptions {
    /// Time of each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Only this target
    #[arg(long)]
    target: Option<String>,
    /// Run one input again instead, such as a crash
    #[arg(long, requires = "target", value_name = "FILE")]
    replay: Option<PathBuf>,
}

/// The coverage that cargo-fuzz asks LLVM for, and assertions as in a debug build.
const RUSTFLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "--cfg=fuzzing",
];

/// Longer than any header, short enough to be fast.
const MAX_LEN: u32 = 2048;

/// Builds the targets and runs each of them.
pub fn run(options: &FuzzOptions) -> Result<(), Failure> {
    tools::need("c++")?;
    let targets = chosen(options.target.as_deref())?;
    let programs = build()?;
    match &options.replay {
        Some(input) => targets.iter().try_for_each(|target| replay(&programs, target, input)),
        None => fuzz_all(&programs, &targets, options.seconds),
    }
}

/// As many targets at a time as there are processors, until one fails.
fn fuzz_all(programs: &Path, targets: &[String], seconds: u64) -> Result<(), Failure> {
    let left = Mutex::new(targets.iter());
    let next = || left.lock().expect("nobody panics with it").next();
    let fuzz_next = || {
        while let Some(target) = next() {
            if let Err(failure) = fuzz(programs, target, seconds) {
                while next().is_some() {}
                return Err(failure);
            }
        }
        Ok(())
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let runs: Vec<_> = (0..processors).map(|_| scope.spawn(fuzz_next)).collect();
        runs.into_iter().try_for_each(|run| run.join().expect("it does not panic"))
    })
}

/// That the targets' lock file holds all that they depend on.
pub(crate) fn locked() -> Result<(), Failure> {
    tree::locked(tree::FUZZ)
}

fn chosen(only: Option<&str>) -> Result<Vec<String>, Failure> {
    let folder = tree::root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder)
        .map_err(|e| Failure::new(format!("cannot list {}: {e}", folder.display())))?;
    let names = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        (path.extension()? == "rs").then(|| path.file_stem()?.to_str().map(str::to_owned))?
    });
    let mut all: Vec<String> = names.collect();
    all.sort();
    match only {
        None => Ok(all),
        Some(name) if all.iter().any(|target| target == name) => Ok(vec![name.to_owned()]),
        Some(name) => Err(Failure::new(format!("there is no fuzz target `{name}`"))
            .remedy(format!("one of: {}", all.join(", ")))),
    }
}

/// Builds all targets and returns the folder they are in.
fn build() -> Result<PathBuf, Failure> {
    locked()?;
    let triple = rustc::host()?;
    let output = tree::target()?.join("fuzz");
    // With a target triple, rustc's flags do not reach build scripts and macros.
    process::run(
        tree::cargo()
            .env("CARGO_ENCODED_RUSTFLAGS", RUSTFLAGS.join("\u{1f}"))
            .args(["build", "--release", "--locked", "--manifest-path", tree::FUZZ])
            .args(["--target", &triple, "--target-dir"])
            .arg(&output),
    )?;
    Ok(output.join(triple).join("release"))
}

fn fuzz(programs: &Path, target: &str, seconds: u64) -> Result<(), Failure> {
    let corpus = make_folder(&format!("fuzz/corpus/{target}"))?;
    let artifacts = make_folder(&format!("fuzz/artifacts/{target}"))?;
    let mut command = Command::new(programs.join(target));
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={MAX_LEN}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-timeout=5", "-print_final_stats=1"])
        .arg(&corpus)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let mut program = process::Program::start(&mut command)?;
    let result = program.wait(Duration::from_secs(seconds + 60));
    let log = program.text(Stream::Err);
    match result {
        Ok(()) => println!("{}", report(target, &log)),
        Err(failure) => {
            eprintln!("{}", without_progress(&log));
            return Err(crash(target, &log, Failure::new(failure.what)));
        }
    }
    Ok(())
}

fn make_folder(name: &str) -> Result<PathBuf, Failure> {
    let folder = tree::root().join(name);
    fs::create_dir_all(&folder)
        .map_err(|e| Failure::new(format!("cannot create {}: {e}", folder.display())))?;
    // The shorter path, for the messages.
    Ok(folder.canonicalize().unwrap_or(folder))
}

/// One line from libFuzzer's last status: `#N DONE cov: C ft: F corp: K/Sb .. exec/s: E ..`.
fn report(target: &str, log: &str) -> String {
    let done = log.lines().rev().find(|line| line.contains("DONE")).unwrap_or_default();
    let field = |name: &str| {
        done.split_once(name)
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .unwrap_or("?")
            .to_owned()
    };
    let execs = done.split_whitespace().next().unwrap_or("?").trim_start_matches('#').to_owned();
    format!(
        "{target:<16} {execs:>11} execs {:>9}/s   coverage {:>5}   corpus {}",
        field("exec/s:"),
        field("cov:"),
        field("corp:"),
    )
}

/// libFuzzer's log without the lines that say what it has tried.
fn without_progress(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with(['#', '\t'])).collect();
    lines.join("\n")
}

fn crash(target: &str, log: &str, failure: Failure) -> Failure {
    let artifact = log.lines().find_map(|line| line.split_once("Test unit written to "));
    match artifact {
        Some((_, path)) => Failure::new(format!("fuzz target {target} failed on {path}"))
            .remedy(format!("cargo xtask fuzz --target {target} --replay {path}")),
        None => failure,
    }
}

fn replay(programs: &Path, target: &str, input: &Path) -> Result<(), Failure> {
    process::run(Command::new(programs.join(target)).arg(input))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &str = "#9\tNEW    cov: 1 ft: 1\n\
        #17834061\tDONE   cov: 11 ft: 12 corp: 4/13b lim: 4096 exec/s: 1621278 rss: 27Mb\n\
        Done 17834061 runs in 11 second(s)\n";

    #[test]
    fn the_report_reads_the_last_status() {
        let line = report("ack", DONE);
        let words: Vec<&str> = line.split_whitespace().collect();
        let expected =
            ["ack", "17834061", "execs", "1621278/s", "coverage", "11", "corpus", "4/13b"];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_story_leaves_out_progress() {
        assert_eq!(without_progress(DONE), "Done 17834061 runs in 11 second(s)");
    }

    #[test]
    fn a_crash_names_its_input_and_how_to_replay_it() {
        let log = "artifact_prefix='/a/'; Test unit written to /a/crash-1\nBase64: QlK+7w==\n";
        let text = crash("ack", log, Failure::new("exit code 77")).to_string();
        assert!(text.contains("cargo xtask fuzz --target ack --replay /a/crash-1"), "{text}");
        let text = crash("ack", "", Failure::new("exit code 77")).to_string();
        assert_eq!(text, "exit code 77");
    }
}
