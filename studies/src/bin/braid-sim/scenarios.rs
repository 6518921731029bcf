//! The scenarios that the program finds by themselves.

use std::env;
use std::path::{Path, PathBuf};

use braid_lab::pages::did_you_mean;

use crate::failure::Failure;

/// The folders of scenarios, relative to likely working directories.
const FOLDERS: [&str; 3] = [".", "scenarios", "sim/scenarios"];
/// The folder of an installation, from its prefix.
const INSTALLED: &str = "share/braid/scenarios";

/// The scenario files that are found, by folder, then by name.
pub(crate) fn all() -> Vec<PathBuf> {
    folders().iter().flat_map(|folder| files(folder)).collect()
}

/// Returns the file of a scenario: the path as given, or the one of that name in the known folders,
/// with or without its ending.
///
/// # Errors
/// No folder has a scenario of that name.
pub(crate) fn file(given: &Path) -> Result<PathBuf, Failure> {
    let is_name = given.components().count() == 1;
    if given.exists() || !is_name {
        return Ok(given.to_owned());
    }
    let found = folders().into_iter().map(|folder| folder.join(given));
    let mut found = found.flat_map(|file| [file.with_extension("toml"), file]);
    found.find(|file| file.is_file()).ok_or_else(|| Failure::Usage(unknown(given)))
}

fn unknown(given: &Path) -> String {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = all().iter().map(|file| stem(file)).collect();
    let hint = did_you_mean(&stem(given), names.iter().map(String::as_str));
    let given = given.display();
    format!("no file and no scenario `{given}`; `braid-sim list` shows the scenarios{hint}")
}

fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    let program = env::current_exe().ok();
    let prefix = program.as_deref().and_then(Path::parent).and_then(Path::parent);
    folders.extend(prefix.map(|prefix| prefix.join(INSTALLED)));
    folders
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let mut files: Vec<PathBuf> = paths.filter(is_toml).collect();
    files.sort();
    files
}
