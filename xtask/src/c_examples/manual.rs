//! The man pages of the C API, as `man` sees them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::{Failure, install, process};

/// Finds the page of every function, and formats every page that is found.
pub(super) fn check(prefix: &Path, functions: impl Iterator<Item = String>) -> Result<(), Failure> {
    install::check_manual(prefix)?;
    let manual = prefix.join("share/man");
    let mut pages = BTreeSet::new();
    for function in functions {
        let mut man = Command::new("man");
        man.arg("-M").arg(&manual).args(["--where", "3", &function]);
        pages.insert(process::output(&mut man)?.trim().to_owned());
    }
    pages.iter().try_for_each(|page| formatted(page))?;
    println!("`man 3` finds every function, in {} pages", pages.len());
    Ok(())
}

/// Formats a page for a terminal, about whose errors groff writes to standard error only.
fn formatted(page: &str) -> Result<(), Failure> {
    let mut man = Command::new("man");
    man.args(["--warnings=w", "--encoding=UTF-8", "--local-file", page]).env("MANWIDTH", "100");
    let output = man.output().map_err(|e| Failure::new(format!("cannot start man: {e}")))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.success() && errors.trim().is_empty() && !output.stdout.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("man formats {page} with errors:\n{errors}"))),
    }
}
