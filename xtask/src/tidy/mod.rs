//! `cargo xtask tidy`: style as a test, in the manner of TigerBeetle's `tidy.zig`.

mod arrows;
mod budgets;
mod comments;
mod commits;
mod layout;
mod links;
mod modules;
mod shape;
mod source;
mod text;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;

use crate::{Failure, layers, tree};

pub use budgets::Report;
use budgets::{Budgets, Findings};
use modules::Sources;
use shape::Shapes;

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

/// Checks the whole repository; prints every breach and every note.
pub fn run() -> Result<(), Failure> {
    let report = check(tree::root())?;
    report.notes.iter().for_each(|note| println!("note: {note}"));
    let mut breaches: Vec<String> = report.breaches.iter().map(Breach::to_string).collect();
    breaches.extend(layers::check(&layers::crates()?));
    if breaches.is_empty() {
        return Ok(());
    }
    breaches.iter().for_each(|breach| println!("{breach}"));
    Err(Failure::new(format!("tidy: {} breaches of the conventions, see above", breaches.len()))
        .remedy("CONTRIBUTING.md says what the rules are for"))
}

/// Checks the tree under `root`, without the layers.
pub fn check(root: &Path) -> Result<Report, Failure> {
    let budgets = Budgets::read(root)?;
    let files = files(root)?;
    let folders = crate_folders(&files);
    let (mut findings, mut sources) = (Findings::default(), Sources::new());
    let mut report = commits::check(root)?;
    let mut shapes = Shapes::new(&budgets);
    report.breaches.extend(layout::check_forbids(root));
    for file in &files {
        let text = read(&root.join(file))?;
        report.breaches.extend(text::check(file, &text));
        if has_extension(file, "rs") {
            report.breaches.extend(layout::check_names(file));
            match text.parse::<TokenStream>() {
                Ok(tokens) => {
                    report.breaches.extend(source::check(file, &tokens));
                    let folder = folder_of(file, &folders);
                    comments::check(file, &folder, &text, &tokens, &mut findings);
                    let syntax = syn::parse2(tokens)
                        .map_err(|e| Failure::new(format!("{}: {e}", file.display())))?;
                    shapes.check(file, &folder, &syntax, &mut findings);
                    sources.insert(file.clone(), syntax);
                }
                Err(e) => report.breaches.push(Breach::new(
                    file,
                    e.span().start().line,
                    format!("is not Rust: {e}"),
                )),
            }
        }
    }
    for folder in &folders {
        let is_ordered = budgets.ordered_crates.iter().any(|ordered| Path::new(ordered) == folder);
        arrows::check(folder, is_ordered, &sources, &mut findings);
    }
    report.notes.extend(shapes.finish());
    report.breaches.extend(links::check(root, &files));
    report.add(findings.judge(&budgets, &folders));
    Ok(report)
}

/// Folders with a Cargo.toml.
fn crate_folders(files: &[PathBuf]) -> Vec<PathBuf> {
    let manifests = files.iter().filter(|file| file.ends_with("Cargo.toml"));
    manifests.filter_map(|manifest| manifest.parent()).map(Path::to_owned).collect()
}

/// The folder of the crate that a file belongs to.
fn folder_of(file: &Path, folders: &[PathBuf]) -> String {
    let around = file.ancestors().skip(1);
    let mut own = around.filter(|folder| folders.iter().any(|known| known == folder));
    own.next().map(|folder| folder.display().to_string()).unwrap_or_default()
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
