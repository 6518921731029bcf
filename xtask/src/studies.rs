//! `cargo xtask studies`: the papers' studies, run again with the seeds of their pages, whose
//! verdicts they must reach; or the pages, written again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::{Failure, process, programs, tree};

/// The folder of the pages.
const PAGES: &str = "docs/reproduction";
/// The heading of the table by which a page says what wrote it.
const ORIGIN: &str = "| commit | seeds | command |";
/// Processor time that CI has for the studies of a commit, in seconds.
const CI_SECONDS: u32 = 60;
/// Folders whose sources decide what a study measures.
const SOURCES: &[&str] =
    &["Cargo.lock", "Cargo.toml", "cc", "keys", "lab", "lb", "sim", "studies", "transport", "wire"];

/// Which studies to run, and what for.
#[derive(clap::Args)]
pub struct StudiesOptions {
    /// Only these papers, each the name of a page [default: all]
    papers: Vec<String>,
    /// Only the experiments that CI runs with the commit that is checked out
    #[arg(long, conflicts_with_all = ["papers", "write"])]
    of_commit: bool,
    /// Write the pages again, as of the commit that is checked out, instead of comparing them
    #[arg(long)]
    write: bool,
    /// Runs per point of pages that are written
    #[arg(long, default_value_t = 3, requires = "write")]
    seeds: u32,
}

/// An experiment of a study, as `braid-sim reproduce PAPER --experiments` lists it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct Experiment {
    name: String,
    /// Processor time, in seconds.
    cpu_s: u32,
}

/// An experiment with its paper.
type Part = (String, Experiment);

/// Runs the studies.
pub fn run(options: &StudiesOptions) -> Result<(), Failure> {
    let all = papers()?;
    if let Some(unknown) = options.papers.iter().find(|name| !all.contains(name)) {
        let failure = Failure::new(format!("{PAGES} has no page of a paper `{unknown}`"));
        return Err(failure.remedy(format!("one of: {}", all.join(", "))));
    }
    let chosen = if options.papers.is_empty() { &all } else { &options.papers };
    if options.write {
        let commit = commit_of_sources()?;
        let program = programs::build()?.join("braid-sim");
        return chosen.iter().try_for_each(|name| write(&program, name, &commit, options.seeds));
    }
    let program = programs::build()?.join("braid-sim");
    if options.of_commit {
        return check_of_commit(&program, &with_origin(&all)?);
    }
    let chosen = with_origin(chosen)?;
    compare_all(chosen.iter().map(|name| (name.as_str(), Vec::new())), &program)
}

/// The papers whose page says what wrote it. The others cannot be compared with anything, and are
/// named.
fn with_origin(papers: &[String]) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for paper in papers {
        let path = tree::root().join(PAGES).join(format!("{paper}.md"));
        let page = fs::read_to_string(&path).map_err(|e| broken("read", &path, &e))?;
        match page.lines().any(|line| line == ORIGIN) {
            true => found.push(paper.clone()),
            false => println!(
                "LEFT OUT: {PAGES}/{paper}.md does not name its commit and seeds; write it again: \
                 cargo xtask studies --write {paper}"
            ),
        }
    }
    Ok(found)
}

/// The names of the papers that have a page.
fn papers() -> Result<Vec<String>, Failure> {
    let folder = tree::root().join(PAGES);
    let entries = fs::read_dir(&folder)
        .map_err(|e| Failure::new(format!("cannot list {}: {e}", folder.display())))?;
    let names = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.file_stem()?.to_str()?.to_owned();
        (path.extension()? == "md" && name != "README").then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Runs the part of the experiments that the commit's hash selects.
fn check_of_commit(program: &Path, papers: &[String]) -> Result<(), Failure> {
    let mut experiments: Vec<Part> = Vec::new();
    for paper in papers {
        let mut list = Command::new(program);
        list.args(["reproduce", paper, "--experiments", "--json", "-"]);
        let named: Vec<Experiment> = serde_json::from_str(&process::output(&mut list)?)
            .map_err(|e| Failure::new(format!("the experiments of {paper}: {e}")))?;
        experiments.extend(named.into_iter().map(|experiment| (paper.clone(), experiment)));
    }
    let hash = head()?;
    let (of, part) = part(&experiments, &hash)?;
    println!(
        "commit {hash} runs experiments {} to {} of the {} that take up to {CI_SECONDS} s:",
        of.start + 1,
        of.start + part.len(),
        of.end,
    );
    for (paper, experiment) in &part {
        println!("  {paper} {}: {} s of processor time", experiment.name, experiment.cpu_s);
    }
    let of_paper = |paper: &str| {
        let here = part.iter().filter(|(of, _)| of == paper);
        here.map(|(_, experiment)| experiment.name.clone()).collect::<Vec<String>>()
    };
    let chosen = papers.iter().map(|paper| (paper.as_str(), of_paper(paper)));
    compare_all(chosen.filter(|(_, only)| !only.is_empty()), program)
}

/// Returns the experiments that CI runs with a commit: from the one that its hash selects on, those
/// that together take no longer than [`CI_SECONDS`]. The range is from the first of them to the
/// number of those that take no longer alone.
fn part(all: &[Part], hash: &str) -> Result<(std::ops::Range<usize>, Vec<Part>), Failure> {
    let short: Vec<&Part> = all.iter().filter(|(_, of)| of.cpu_s <= CI_SECONDS).collect();
    // Digits that do not select nightly's part.
    let digits = hash.get(8..16).and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let digits = digits.ok_or_else(|| Failure::new(format!("`{hash}` is no hash of a commit")))?;
    if short.is_empty() {
        return Err(Failure::new(format!("no experiment takes up to {CI_SECONDS} s"))
            .remedy("divide an experiment of studies/src"));
    }
    let start = digits % short.len();
    let mut left = CI_SECONDS;
    let in_turn = short[start..].iter().map_while(|of| {
        left = left.checked_sub(of.1.cpu_s)?;
        Some((*of).clone())
    });
    let chosen: Vec<Part> = in_turn.collect();
    Ok((start..short.len(), chosen))
}

/// Compares each study, or these experiments of it, with its page. All of them run, so that one
/// failure does not hide another.
fn compare_all<'a>(
    studies: impl Iterator<Item = (&'a str, Vec<String>)>,
    program: &Path,
) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for (paper, only) in studies {
        let mut command = Command::new(program);
        command.current_dir(tree::root()).args(["reproduce", paper]);
        if !only.is_empty() {
            command.args(["--only", &only.join(",")]);
        }
        command.args(["--check", &format!("{PAGES}/{paper}.md")]);
        if let Err(failure) = process::run(&mut command) {
            eprintln!("{failure}");
            failed.push(paper);
        }
    }
    match failed.as_slice() {
        [] => Ok(()),
        papers => Err(Failure::new(format!("not as on their pages: {}", papers.join(", ")))
            .remedy("above, each claim has both verdicts and the command that replays it")),
    }
}

/// Writes the page of a paper, and its plots.
fn write(program: &Path, paper: &str, commit: &str, seeds: u32) -> Result<(), Failure> {
    let output = tree::target()?.join("studies").join(paper);
    let mut command = Command::new(program);
    command
        .args(["reproduce", paper, "--seeds", &seeds.to_string(), "--commit", commit, "--out"])
        .arg(&output);
    process::run(&mut command)?;
    let pages = tree::root().join(PAGES);
    let is_plot = |name: &str| name.starts_with(&format!("{paper}-")) && name.ends_with(".svg");
    for old in files(&pages)?.filter(|path| named(path).is_some_and(is_plot)) {
        fs::remove_file(&old).map_err(|e| broken("remove", &old, &e))?;
    }
    let page = format!("{paper}.md");
    for new in files(&output)? {
        let Some(name) = named(&new).filter(|name| is_plot(name) || *name == page) else {
            continue;
        };
        fs::copy(&new, pages.join(name)).map_err(|e| broken("copy", &new, &e))?;
    }
    Ok(())
}

fn files(folder: &Path) -> Result<impl Iterator<Item = PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|e| broken("list", folder, &e))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())))
}

fn named(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn broken(verb: &str, path: &Path, why: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {}: {why}", path.display()))
}

/// The commit that is checked out. A page has to name the commit of its program, so the sources of
/// the studies must not have changed since.
fn commit_of_sources() -> Result<String, Failure> {
    let mut git = Command::new("git");
    git.current_dir(tree::root()).args(["status", "--porcelain", "--"]).args(SOURCES);
    match process::output(&mut git)?.trim_end() {
        "" => head(),
        changes => Err(Failure::new(format!("changes that no commit has:\n{changes}"))
            .remedy("commit them first: a page names the commit that it was made at")),
    }
}

fn head() -> Result<String, Failure> {
    let mut git = Command::new("git");
    git.current_dir(tree::root()).args(["rev-parse", "HEAD"]);
    Ok(process::output(&mut git)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiments(seconds: &[u32]) -> Vec<Part> {
        let one = |(index, cpu_s): (usize, &u32)| {
            ("paper".to_owned(), Experiment { name: format!("e{index}"), cpu_s: *cpu_s })
        };
        seconds.iter().enumerate().map(one).collect()
    }

    fn names(seconds: &[u32], start: usize) -> Vec<String> {
        let hash = format!("{:08x}{start:08x}89abcdef", 7);
        let (_, part) = part(&experiments(seconds), &hash).expect("a hash");
        part.into_iter().map(|(_, experiment)| experiment.name).collect()
    }

    #[test]
    fn every_short_experiment_has_its_turn_within_the_time() {
        let seconds = [30, 500, 30, 10, 61, 60];
        assert_eq!(names(&seconds, 0), ["e0", "e2"]);
        assert_eq!(names(&seconds, 1), ["e2", "e3"]);
        assert_eq!(names(&seconds, 2), ["e3"]);
        assert_eq!(names(&seconds, 3), ["e5"]);
        assert_eq!(names(&seconds, 4), ["e0", "e2"]);
    }

    #[test]
    fn what_selects_nothing_is_refused() {
        assert!(part(&experiments(&[61]), "0123456789abcdef").is_err());
        assert!(part(&experiments(&[1]), "01234567").is_err());
    }

    #[test]
    fn every_page_names_its_origin_and_is_compared() {
        let papers = papers().expect("the folder is there");
        assert_eq!(with_origin(&papers).expect("pages"), papers);
    }

    #[test]
    fn every_paper_has_a_page() {
        let papers = papers().expect("the folder is there");
        assert_eq!(papers, ["mcc", "ofan", "pro", "rails", "themis"]);
    }
}
