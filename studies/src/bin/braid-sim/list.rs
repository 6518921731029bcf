//! `braid-sim list`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use braid_sim::report::wrapped;
use braid_sim::scenario::{MODELS, SWITCH_POLICIES, Scenario};
use braid_studies::PAPERS;

/// Where the examples lie in the sources, seen from the places where people stand.
const FOLDERS: [&str; 3] = [".", "scenarios", "sim/scenarios"];

/// Prints what there is to choose from.
pub(crate) fn list() -> ExitCode {
    println!("scenarios (braid-sim run FILE):");
    let files = FOLDERS.iter().flat_map(|folder| scenarios_in(Path::new(folder)));
    let found: Vec<(String, String)> = files
        .filter_map(|file| {
            let scenario = Scenario::read(&file).ok()?;
            Some((file.display().to_string(), scenario.about))
        })
        .collect();
    print_lines(found.iter().map(|(name, about)| (name.as_str(), about.as_str())));
    if found.is_empty() {
        println!("  none here; the examples are in sim/scenarios of Braid's sources");
    }
    println!("models (`model = ..`, matrix --model ..):");
    print_lines(MODELS.iter().map(|(name, about, _)| (*name, *about)));
    println!("switch policies (`switch = ..`, matrix --switch ..):");
    print_lines(SWITCH_POLICIES.iter().copied());
    let names = |names: Vec<&str>| println!("  {}", names.join(", "));
    println!("path policies (`lb = ..`, matrix --lb ..):");
    names(braid_lb::policy_names().collect());
    println!("loss recoveries (`recovery = ..`):");
    let recoveries = braid_transport::LossRecovery::all().map(|recovery| recovery.name());
    names(recoveries.chain(["ideal"]).collect());
    println!("congestion controls (`cc = ..`):");
    names(braid_cc::controller_names().collect());
    println!("papers (braid-sim reproduce ..):");
    names(PAPERS.iter().map(|paper| paper.name).collect());
    ExitCode::SUCCESS
}

fn scenarios_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let mut files: Vec<PathBuf> = paths.filter(is_toml).collect();
    files.sort();
    files
}

fn print_lines<'a>(lines: impl Iterator<Item = (&'a str, &'a str)> + Clone) {
    let width = lines.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.for_each(|(name, about)| println!("  {name:<width$}  {}", wrapped(about, width + 4)));
}
