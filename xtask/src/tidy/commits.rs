//! Rules about the subjects of commits.

use std::path::Path;
use std::process::Command;

use super::Breach;
use super::budgets::Report;
use crate::Failure;

/// The author's time of the first commit that the rules are for, 2026-11-27 02:12:18 UTC. A rebase
/// keeps that time, so a hash would not do.
const START: u64 = 1_795_745_538;
/// Characters of a subject.
const MAX_CHARS: usize = 72;
/// Words that no imperative starts with.
const NO_VERBS: &[&str] = &[
    "a", "all", "an", "as", "each", "every", "he", "how", "if", "in", "is", "it", "more", "no",
    "not", "of", "on", "one", "some", "that", "the", "there", "they", "this", "two", "we", "what",
    "when", "where", "which", "who", "why",
];
/// Verbs that end like another form of a verb.
const IMPERATIVES: &[&str] = &[
    "alias", "bias", "bring", "embed", "exceed", "feed", "focus", "need", "proceed", "seed",
    "shed", "speed",
];

/// Checks the subjects of all commits since [`START`], without merges.
pub(super) fn check(root: &Path) -> Result<Report, Failure> {
    let unchecked = |why: &str| {
        let notes = vec![format!("the subjects of the commits were not checked: {why}")];
        Ok(Report { notes, ..Report::default() })
    };
    if !root.join(".git").exists() {
        return unchecked("there is no .git");
    }
    match git(root, &["rev-parse", "--is-shallow-repository"]) {
        Ok(shallow) if shallow.trim() == "true" => {
            return unchecked("the clone is shallow, `git fetch --unshallow` completes it");
        }
        Ok(_) => {}
        Err(why) => return unchecked(&why),
    }
    let since = format!("--since={START}");
    let log = git(root, &["log", "--no-merges", "--format=%at %h %s", &since])
        .map_err(|why| Failure::new(format!("git log: {why}")))?;
    let breaches = log.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ' ');
        let (time, hash) = (parts.next()?.parse::<u64>().ok()?, parts.next()?);
        let rule = judge(parts.next().unwrap_or(""))?;
        (time >= START).then(|| Breach::new(Path::new(&format!("commit {hash}")), 0, rule))
    });
    Ok(Report { breaches: breaches.collect(), notes: Vec::new() })
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .map_err(|e| format!("cannot run git: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// The rule that a subject breaks.
fn judge(subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if length > MAX_CHARS {
        return Some(format!("the subject has {length} characters, at most {MAX_CHARS}"));
    }
    let is_area = |area: &str| {
        let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/.".contains(c);
        !area.is_empty() && area.chars().all(inside)
    };
    let verb = subject.split_once(": ").and_then(|(areas, rest)| {
        let verb = rest.split(' ').next().filter(|verb| !verb.is_empty())?;
        areas.split(", ").all(is_area).then_some(verb)
    });
    match verb {
        None => Some(format!("the subject `{subject}` does not have the form `area: imperative`")),
        Some(verb) if !is_imperative(verb) => {
            Some(format!("`{verb}` in the subject `{subject}` is not an imperative"))
        }
        Some(_) => None,
    }
}

/// Whether a word may be an imperative, judged by its form.
fn is_imperative(word: &str) -> bool {
    let is_other_form = ["ed", "ing"].iter().any(|end| word.ends_with(end))
        || word.ends_with('s') && !word.ends_with("ss");
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && !NO_VERBS.contains(&word)
        && (!is_other_form || IMPERATIVES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_name_the_area_and_are_imperative() {
        for good in [
            "engine: wait for a new thread to start",
            "bench, e2e: use lab::Program for child processes",
            "docs/wire: bring the table up to date",
            "lb: pass the path set",
        ] {
            assert_eq!(judge(good), None, "{good}");
        }
        for bad in [
            "Read once more: one piece of code where two did the same",
            "engine wait for a thread",
            "engine:wait for a thread",
            "engine: waited for a thread",
            "engine: waits for a thread",
            "engine: waiting for a thread",
            "engine: the thread starts first",
            "engine: Wait for a thread",
            "engine: ",
            "",
        ] {
            assert!(judge(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn subjects_are_short() {
        let subject = format!("lb: add {}", "x".repeat(MAX_CHARS - 8));
        assert_eq!(judge(&subject), None);
        assert!(judge(&format!("{subject}x")).is_some_and(|rule| rule.contains("73 characters")));
    }

    #[test]
    fn a_tree_without_git_is_a_note() {
        let report = check(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a report");
        assert!(report.breaches.is_empty());
        assert!(report.notes[0].contains("there is no .git"));
    }
}
