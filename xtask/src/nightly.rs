//! `cargo xtask nightly`: long checks, in parts. CI runs one of the shorter
//! parts with each commit, after all else.

use std::process::Command;
use std::time::Instant;

use crate::lanes::{Lane, Step, end, run_lanes};
use crate::{Failure, process, tree};

/// The parts that CI runs, one with each commit. Each takes minutes at most.
pub(crate) const PARTS: &[Step] = &[
    // `cargo test` runs the first seeds.
    Step::nightly("soak", &["xtask", "soak", "--first", "10000", "--seeds", "20000"]),
    Step::nightly(
        "attempts",
        &["xtask", "soak", "--of", "connections", "--first", "10000", "--seeds", "2000"],
    ),
    Step::nightly("flood", &["xtask", "flood"]),
    Step::nightly("thread", &["xtask", "sanitize", "--only", "thread"]),
    Step::nightly("fuzz", &["xtask", "fuzz", "--seconds", "10"]),
    Step::nightly("softroce", &["xtask", "softroce"]),
];

/// Parts that no commit selects, because they take long or need more of the network. CI runs some
/// experiments of the studies with each commit.
pub(crate) const OUTSIDE_CI: &[Step] = &[
    Step::nightly("first-contact", &["xtask", "first-contact"]),
    Step::nightly("mcc", &["xtask", "studies", "mcc"]),
    Step::nightly("ofan", &["xtask", "studies", "ofan"]),
    Step::nightly("pro", &["xtask", "studies", "pro"]),
    Step::nightly("rails", &["xtask", "studies", "rails"]),
    Step::nightly("themis", &["xtask", "studies", "themis"]),
];

/// All parts, the shorter ones first.
fn all() -> impl Iterator<Item = &'static Step> {
    PARTS.iter().chain(OUTSIDE_CI)
}

/// Which parts to run.
#[derive(clap::Args)]
pub struct NightlyOptions {
    /// Only these parts [default: all]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(all().map(|part| part.name)))]
    parts: Vec<String>,
    /// Only the part that CI runs with the commit that is checked out
    #[arg(long, conflicts_with = "parts")]
    of_commit: bool,
}

/// Runs the parts up to the first that fails.
pub fn run(options: &NightlyOptions) -> Result<(), Failure> {
    let start = Instant::now();
    let steps = match options.of_commit {
        true => vec![*part_of_this_commit()?],
        false => {
            let is_chosen = |part: &&Step| {
                options.parts.is_empty() || options.parts.iter().any(|name| name == part.name)
            };
            all().filter(is_chosen).copied().collect()
        }
    };
    end(&run_lanes(&[Lane::alone(steps)], &tree::target()?), &[], start.elapsed())
}

/// The part that CI runs with the commit that is checked out: the commit's hash selects it, so that
/// a run can be repeated and all parts have their turns.
pub(crate) fn part_of_this_commit() -> Result<&'static Step, Failure> {
    let mut git = Command::new("git");
    git.current_dir(tree::root()).args(["rev-parse", "HEAD"]);
    let hash = process::output(&mut git).map_err(|failure| {
        failure.remedy("the commit selects a part of `cargo xtask nightly`: run it in a clone")
    })?;
    part_of(hash.trim())
}

fn part_of(hash: &str) -> Result<&'static Step, Failure> {
    let digits = hash.get(..8).and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let digits = digits.ok_or_else(|| Failure::new(format!("`{hash}` is no hash of a commit")))?;
    Ok(&PARTS[digits % PARTS.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_select_every_part() {
        for (index, part) in PARTS.iter().enumerate() {
            let hash = format!("{:08x}0123456789abcdef", index + 3 * PARTS.len());
            assert_eq!(part_of(&hash).expect("a hash").name, part.name);
        }
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        for text in ["", "0123", "HEAD0000", "ä1234567"] {
            assert!(part_of(text).is_err(), "{text}");
        }
    }
}
