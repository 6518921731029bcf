//! `cargo xtask tidy`: style as a test, in the manner of TigerBeetle's `tidy.zig`.

mod layout;
mod links;
mod source;
mod text;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Failure, layers, tree};

/// One place that breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach {
    /// The file, seen from the repository's top folder.
    pub file: PathBuf,
    /// Its line, from 1; 0 where the whole file is meant.
    pub line: usize,
    /// The rule and what to do.
    pub rule: String,
}

impl Breach {
    fn new(file: &Path, line: usize, rule: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, rule: rule.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.rule),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.rule),
        }
    }
}

/// Checks the whole repository and prints every breach.
pub fn run() -> Result<(), Failure> {
    let mut breaches: Vec<String> = check(tree::root())?.iter().map(Breach::to_string).collect();
    breaches.extend(layers::check(&layers::crates()?));
    if breaches.is_empty() {
        return Ok(());
    }
    breaches.iter().for_each(|breach| println!("{breach}"));
    Err(Failure::new(format!("tidy: {} breaches of the conventions, see above", breaches.len()))
        .remedy("CONTRIBUTING.md says what the rules are for"))
}

/// Every breach under `root` but those of the layers.
pub fn check(root: &Path) -> Result<Vec<Breach>, Failure> {
    let mut breaches = layout::check_forbids(root)?;
    let files = files(root)?;
    for file in &files {
        let text = read(&root.join(file))?;
        breaches.extend(check_file(file, &text));
    }
    breaches.extend(links::check(root, &files));
    Ok(breaches)
}

/// Every breach in one file.
pub fn check_file(file: &Path, text: &str) -> Vec<Breach> {
    let mut breaches = text::check(file, text);
    if has_extension(file, "rs") {
        breaches.extend(layout::check_names(file));
        breaches.extend(source::check(file, text));
    }
    breaches
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|e| Failure::new(format!("cannot read {}: {e}", path.display())))
}

fn has_extension(file: &Path, extension: &str) -> bool {
    file.extension().is_some_and(|e| e == extension)
}

/// The files that the rules are for, relative to `root`.
fn files(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let unreadable = |e| Failure::new(format!("cannot list {}: {e}", folder.display()));
        for entry in fs::read_dir(root.join(&folder)).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() && !skipped(&entry.file_name().to_string_lossy()) {
                folders.push(path);
            } else if kind.is_file() && ["rs", "md", "toml"].iter().any(|e| has_extension(&path, e))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Build output and version control.
fn skipped(folder: &str) -> bool {
    folder.starts_with('.') || folder.starts_with("target")
}
