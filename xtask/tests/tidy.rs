//! `tidy` finds a sample of each violation in a tree made for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::tidy::{self, Report};

/// A fresh tree with a crate `lb` of the given files.
fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&root);
    for (file, text) in
        [("lb/Cargo.toml", "[package]\n"), ("docs/README.md", "# Docs\n")].iter().chain(files)
    {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }
    root
}

fn check(root: &Path) -> Report {
    tidy::check(root).expect("a readable tree")
}

fn git(root: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    let mut command = Command::new("git");
    let date = "2026-12-01T00:00:00Z";
    command.env("GIT_AUTHOR_DATE", date).env("GIT_COMMITTER_DATE", date);
    let status = command.arg("-C").arg(root).args(identity).args(arguments).status();
    assert!(status.expect("git runs").success(), "git {arguments:?}");
}

#[test]
fn each_violation_is_found() {
    let words = "word ".repeat(31);
    let names = ["a", "b", "c", "d", "e"];
    let mods: String = names.iter().map(|name| format!("mod {name};\n")).collect();
    let root =
        format!("//! A crate.\n#![forbid(unsafe_code)]\n{mods}struct Root;\nstruct Twice;\n");
    let fields: String = (0..15).map(|n| format!("    f{n}: u8,\n")).collect();
    let shapes = format!(
        "/// What it is.\nstruct Twice;\n// {words}\nstruct Big {{\n{fields}}}\n\
         fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) {{}}\nuse crate::Root;\n\
         fn unfinished() {{ unsafe {{}} dbg!() }}\n#[ignore]\nfn test() {{}}\n"
    );
    let mut files = vec![("lb/src/lib.rs".to_owned(), root)];
    for (name, next) in names.iter().zip(names.iter().cycle().skip(1)) {
        let import = format!("use crate::{next}::In{};\npub struct In{name};\n", next);
        files.push((format!("lb/src/{name}.rs"), import));
    }
    files.push(("lb/src/shapes.rs".to_owned(), shapes));
    files.push(("lb/src/utils.rs".to_owned(), "\n".repeat(601)));
    files.push(("docs/lost.md".to_owned(), "[link](nowhere.md) \n".to_owned()));
    // The module tree reaches the file with the shapes, too.
    files[0].1.push_str("mod shapes;\n");
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let root = tree("violations", &files);
    git(&root, &["init", "-q"]);
    git(&root, &["commit", "-q", "--allow-empty", "-m", "Read once more"]);
    let breaches: Vec<String> = check(&root).breaches.iter().map(ToString::to_string).collect();
    let found = breaches.join("\n");
    for wanted in [
        "lb/src/shapes.rs:3: a comment is wider than 100 columns",
        "lb/src/shapes.rs:1: a doc comment starts with `What`",
        "lb/src/shapes.rs:3: a sentence of 31 words",
        "lb/src/shapes.rs:2: the crate has a type `Twice` in lb/src/lib.rs",
        "`f` has 7 parameters",
        "`Big` has 15 fields",
        "lb/src/shapes.rs:22: imports from a parent module",
        "lb: 5 files import each other",
        "lb/src/utils.rs: 601 lines",
        "lb/src/utils.rs: `utils` says nothing",
        "unsafe code may stand in",
        "dbg!: finish it",
        "an ignored test",
        "docs/lost.md:1: the link `nowhere.md` leads nowhere",
        "docs/lost.md:1: blanks at the end",
        "docs/lost.md: no link leads here",
        "wire/src/lib.rs: lacks #![forbid(unsafe_code)]",
        "the subject `Read once more` does not have the form",
    ] {
        assert!(found.contains(wanted), "not found: {wanted}\n{found}");
    }
}

#[test]
fn a_budget_permits_findings_up_to_its_number() {
    let source = "//! A crate.\n#![forbid(unsafe_code)]\n/// How it works.\nstruct A;\n";
    let budget = |number| format!("[budgets.comment-openings]\nlb = {number}\n");
    for (number, breaches, notes) in [(0, 1, 0), (1, 0, 0), (2, 0, 1)] {
        let budget = budget(number);
        let files = [("lb/src/lib.rs", source), ("xtask/tidy.toml", budget.as_str())];
        let report = check(&tree(&format!("budget-{number}"), &files));
        let openings = report.breaches.iter().filter(|breach| breach.rule.contains("`How`"));
        assert_eq!(openings.count(), breaches, "budget {number}");
        let lower = report.notes.iter().filter(|note| note.contains("lower the budget to 1"));
        assert_eq!(lower.count(), notes, "budget {number}");
    }
}

#[test]
fn a_tree_without_history_says_that_its_subjects_were_not_checked() {
    let notes = check(&tree("no-history", &[])).notes;
    assert_eq!(notes, ["the subjects of the commits were not checked: there is no .git"]);
}

#[test]
fn a_shallow_clone_says_that_its_subjects_were_not_checked() {
    let root = tree("shallow", &[]);
    git(&root, &["init", "-q", "deep"]);
    for subject in ["Old", "New"] {
        git(&root, &["-C", "deep", "commit", "-q", "--allow-empty", "-m", subject]);
    }
    let from = format!("file://{}", root.join("deep").display());
    git(&root, &["clone", "-q", "--depth", "1", &from, "clone"]);
    let report = check(&root.join("clone"));
    assert!(report.notes[0].contains("the clone is shallow"), "{:?}", report.notes);
    assert!(!report.breaches.iter().any(|breach| breach.rule.contains("subject")));
}
