//! Queries to the compiler.

use std::process::Command;

use crate::{Failure, process};

/// The triple that it compiles for unless told otherwise.
pub fn host() -> Result<String, Failure> {
    field(&verbose_version()?, "host: ")
}

/// Release, commit and host in one line: what else is compiled otherwise.
pub fn identity() -> Result<String, Failure> {
    let text = verbose_version()?;
    let release = text.lines().next().unwrap_or_default();
    Ok(format!("{release}, {}", field(&text, "host: ")?))
}

fn field(text: &str, name: &str) -> Result<String, Failure> {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.map(str::to_owned).ok_or_else(|| Failure::new(format!("`rustc -vV` has no `{name}`")))
}

fn verbose_version() -> Result<String, Failure> {
    process::output(Command::new("rustc").arg("-vV"))
}
