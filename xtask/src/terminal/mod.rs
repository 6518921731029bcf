//! `cargo xtask terminal`: `braid-perf` and `braid-sim` as somebody at a terminal meets it.
//!
//! The terminal is tmux, in which real shells complete command lines, and `top` and the progress of
//! a test are drawn.

mod progress;
mod shells;
mod tmux;
mod top;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::files::cannot;
use crate::{Failure, process, programs, tools, tree};

/// Builds `braid-perf`, writes its completions, and uses both.
pub fn run() -> Result<(), Failure> {
    ["tmux", "bash", "zsh", "fish", "ip"].into_iter().try_for_each(tools::need)?;
    let built = programs::build()?;
    let prefix = folder()?;
    let program = built.join("braid-perf");
    process::run(Command::new(&program).arg("write-pages").arg(&prefix))?;
    shells::check(&built, &prefix)?;
    println!("bash, zsh and fish complete commands, options and values");
    top::check(&program)?;
    println!("top fits its terminal, scrolls, quits, and enters other network namespaces");
    progress::check(&program)?;
    progress::check_all_to_all(&program)?;
    progress::check_paths(&program)?;
    progress::check_simulator(&built.join("braid-sim"))?;
    println!("tests, an all-to-all, path discovery and a simulation show their progress");
    Ok(())
}

/// An empty folder for the completions and for what shells write.
fn folder() -> Result<PathBuf, Failure> {
    let folder = tree::target()?.join("xtask/terminal");
    // The one of an earlier run may be missing.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("empty")).map_err(|e| cannot("make", &folder, &e))?;
    Ok(folder)
}
