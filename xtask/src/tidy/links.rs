//! Every link between files of the repository leads somewhere: to a file that is there, and to a
//! heading in it. And links lead from `docs/README.md` to every page of the documentation.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{Breach, has_extension};

/// Checks all links of the Markdown files among `files`, which are relative to `root`.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> Vec<Breach> {
    let mut anchors = HashMap::new();
    let mut breaches = Vec::new();
    for file in files.iter().filter(|file| has_extension(file, "md")) {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        for (line, link) in links(&text) {
            if let Err(rule) = follow(root, file, &link, &mut anchors) {
                breaches.push(Breach::new(file, line, rule));
            }
        }
    }
    let reached = reached(root, Path::new(START));
    let pages = files.iter().filter(|file| has_extension(file, "md") && file.starts_with("docs"));
    let lost = pages.filter(|page| !reached.contains(*page));
    breaches
        .extend(lost.map(|page| Breach::new(page, 0, format!("no link leads here from {START}"))));
    breaches
}

/// Where readers begin.
const START: &str = "docs/README.md";

/// All pages that links lead to, from page to page.
fn reached(root: &Path, start: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut next) = (BTreeSet::new(), vec![start.to_owned()]);
    while let Some(page) = next.pop() {
        if !has_extension(&page, "md") || !found.insert(page.clone()) {
            continue;
        }
        let text = fs::read_to_string(root.join(&page)).unwrap_or_default();
        let folder = page.parent().unwrap_or(Path::new("")).to_owned();
        let paths = links(&text).into_iter().filter_map(|(_, link)| {
            let path =
                link.split('#').next().filter(|path| !path.is_empty() && !path.contains(':'))?;
            resolved(&folder.join(path))
        });
        next.extend(paths);
    }
    found
}

type Anchors = HashMap<PathBuf, Vec<String>>;

fn follow(root: &Path, from: &Path, link: &str, known: &mut Anchors) -> Result<(), String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    if path.contains(':') {
        return Ok(());
    }
    let target = match path {
        "" => from.to_owned(),
        _ => resolved(&from.parent().unwrap_or(Path::new("")).join(path))
            .ok_or_else(|| format!("the link `{link}` leads out of the repository"))?,
    };
    if !root.join(&target).exists() {
        return Err(format!("the link `{link}` leads nowhere: there is no {}", target.display()));
    }
    if anchor.is_empty() || !has_extension(&target, "md") {
        return Ok(());
    }
    let headings = known
        .entry(target.clone())
        .or_insert_with(|| anchors(&fs::read_to_string(root.join(&target)).unwrap_or_default()));
    match headings.iter().any(|heading| heading == anchor) {
        true => Ok(()),
        false => Err(format!(
            "the link `{link}` leads nowhere: no heading of {} is called so",
            target.display()
        )),
    }
}

/// Without `.` and `..`; none if it leads out.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => found.push(name),
            Component::ParentDir if found.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(found)
}

/// Lines outside of blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((number, line))
    })
}

/// The targets of `[text](target)` and `![text](target)`, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            if let Some((target, _)) = rest.split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// Removes code in backticks, which contains no links.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// As GitHub and mdBook name headings: small letters, hyphens for blanks, no other signs; a second
/// one of a name ends in `-1`.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = found.iter().filter(|other| **other == name).count();
        found.push(if before == 0 { name } else { format!("{name}-{before}") });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "see [a](a.md#x) and ![b](b.svg)\n```\n[c](c.md)\n```\n`[d](d.md)` [e](#f)\n";
        let wanted = [(1, "a.md#x"), (1, "b.svg"), (5, "#f")];
        assert_eq!(links(text), wanted.map(|(line, link)| (line, link.to_owned())));
    }

    #[test]
    fn headings_are_named_as_on_the_web() {
        let text =
            "# How fast, on Soft-RoCE?\n## `--json` and keys\n## Same\n```\n# no\n```\n## Same\n";
        assert_eq!(anchors(text), ["how-fast-on-soft-roce", "--json-and-keys", "same", "same-1"]);
    }

    #[test]
    fn links_are_followed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut known = Anchors::new();
        let mut follow = |link: &str| follow(&root, Path::new("docs/wire.md"), link, &mut known);
        assert_eq!(follow("https://example.org/x"), Ok(()));
        assert_eq!(follow("../README.md"), Ok(()));
        assert_eq!(follow("../CONTRIBUTING.md#the-layers"), Ok(()));
        for broken in ["nothing.md", "../../README.md", "../CONTRIBUTING.md#nothing", "#nothing"] {
            assert!(follow(broken).is_err(), "{broken}");
        }
    }
}
