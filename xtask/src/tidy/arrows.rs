//! Rules about imports between the modules of a crate: they point downward and form no large
//! circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Breach;
use super::budgets::{Findings, Rule};
use super::modules::{Modules, Sources};

/// Checks the library of the crate in `folder`, or its program if there is no library.
///
/// If the crate `is_ordered`, its root declares the modules in their order, the lowest first.
pub(super) fn check(folder: &Path, is_ordered: bool, sources: &Sources, found: &mut Findings) {
    let roots = ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root));
    let Some(root) = roots.iter().find(|root| sources.contains_key(*root)) else { return };
    let modules = Modules::read(sources, root);
    let name = folder.to_string_lossy();
    let mut files = Files::default();
    for (from, module) in modules.all().iter().enumerate() {
        for import in &module.imports {
            let Some(to) = modules.target(from, import) else { continue };
            let named = modules.named(from, import).unwrap_or(to);
            if let Some(rule) = upward(&modules, Arrow { from, named, to }, is_ordered) {
                let breach = Breach::new(&module.file, import.line, rule);
                found.add(Rule::UpwardImports, &name, breach);
            }
            let target = &modules.all()[to].file;
            // A module that re-exports from below does not depend on it.
            let is_facade = import.is_reexport && is_inside(&modules, to, from);
            if *target != module.file && !is_facade {
                files.entry(module.file.clone()).or_default().insert(target.clone());
            }
        }
    }
    let circle = largest_circle(&files);
    if circle.len() > 1 {
        let inside: Vec<String> = circle.iter().map(|file| file.display().to_string()).collect();
        let rule = format!("{} files import each other: {}", circle.len(), inside.join(", "));
        found.set(Rule::Circle, &name, circle.len(), Breach::new(folder, 0, rule));
    }
}

/// Files, each with those that it imports from.
type Files = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// One module imports from another.
#[derive(Clone, Copy)]
struct Arrow {
    from: usize,
    /// The module that the import's path names.
    named: usize,
    /// The module that defines the item, which `named` may re-export.
    to: usize,
}

fn is_inside(modules: &Modules, inner: usize, outer: usize) -> bool {
    branch(modules, inner).contains(&outer)
}

/// The module and those around it, the root last.
fn branch(modules: &Modules, module: usize) -> Vec<usize> {
    std::iter::successors(Some(module), |module| modules.all()[*module].parent).collect()
}

/// The reason why an arrow points upward.
fn upward(modules: &Modules, arrow: Arrow, is_ordered: bool) -> Option<String> {
    const ROOT: usize = 0;
    let Arrow { from, named, to } = arrow;
    // The root re-exports what a crate offers; any other parent module is a place of its own.
    let parent = if named == ROOT { to } else { named };
    if parent != from && is_inside(modules, from, parent) {
        return Some("imports from a parent module: move the item to a module below".to_owned());
    }
    let order = &modules.all()[ROOT].children;
    // The place in the root's order of the module that holds this one.
    let place = |module| {
        let path = branch(modules, module);
        let top = path.iter().rev().nth(1)?;
        order.iter().position(|(_, child)| child == top)
    };
    let (from, to) = (place(from)?, place(to)?);
    (is_ordered && to > from).then(|| {
        let [from, to] = [from, to].map(|place| &order[place].0);
        format!("imports from `{to}`, which is above `{from}` in the order of the crate's root")
    })
}

/// The largest set of files of which each leads to each other one.
fn largest_circle(files: &Files) -> BTreeSet<&PathBuf> {
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        files.keys().map(|file| (file, reached(files, file))).collect();
    let circle = |file: &&PathBuf| -> BTreeSet<&PathBuf> {
        let leads_back =
            |other: &&PathBuf| reached.get(other).is_some_and(|all| all.contains(file));
        reached[file].iter().copied().filter(leads_back).collect()
    };
    reached.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

fn reached<'a>(files: &'a Files, start: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let (mut found, mut next) = (BTreeSet::new(), vec![start]);
    while let Some(file) = next.pop() {
        for to in files.get(file).into_iter().flatten() {
            if found.insert(to) {
                next.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(is_ordered: bool, files: &[(&str, &str)]) -> Vec<(String, String)> {
        let parse = |text| syn::parse_file(text).expect("Rust");
        let sources: Sources = files
            .iter()
            .map(|(file, text)| (Path::new("lb/src").join(file), parse(text)))
            .collect();
        let mut findings = Findings::default();
        check(Path::new("lb"), is_ordered, &sources, &mut findings);
        let report = findings.judge(&Default::default(), &["lb".into()]);
        let breach = |b: super::Breach| (b.file.display().to_string(), b.rule);
        report.breaches.into_iter().map(breach).collect()
    }

    #[test]
    fn imports_from_a_parent_point_upward() {
        let root = ("lib.rs", "mod a;\nstruct Root;");
        for import in ["crate::Root", "super::Root", "super::*"] {
            let found = found(false, &[root, ("a.rs", &format!("use {import};"))]);
            assert_eq!(found.len(), 1, "{import}");
            assert_eq!(found[0].0, "lb/src/a.rs");
            assert!(found[0].1.contains("parent module"));
        }
        let inner = ("a/mod.rs", "mod b { use super::super::Root; }");
        assert_eq!(found(false, &[root, inner]).len(), 1);
        let test = ("a.rs", "#[cfg(test)]\nmod tests { use crate::Root; }");
        assert!(found(false, &[root, test]).is_empty());
    }

    #[test]
    fn imports_from_a_later_module_point_upward() {
        let root = ("lib.rs", "mod low;\nmod high;\npub use high::High;");
        let high = ("high.rs", "use crate::low::Low;\npub struct High;");
        for import in ["crate::high::High", "crate::High", "super::High", "crate::high"] {
            let low = format!("pub struct Low;\nfn f() {{ use {import}; }}");
            let files = [root, high, ("low.rs", &low)];
            let breaches = found(true, &files);
            assert_eq!(breaches.len(), 1, "{import}");
            assert!(breaches[0].1.contains("`high`, which is above `low`"));
            assert!(found(false, &files).is_empty());
        }
    }

    #[test]
    fn a_circle_has_at_most_four_files() {
        let names = ["a", "b", "c", "d", "e"];
        for size in [4, 5] {
            let file = |n: usize| {
                (
                    format!("{}.rs", names[n]),
                    format!("use crate::{}::T;\npub struct T;", names[(n + 1) % size]),
                )
            };
            let mut files: Vec<(String, String)> = (0..size).map(file).collect();
            files.push((
                "lib.rs".into(),
                names[..size].iter().map(|name| format!("mod {name};\n")).collect(),
            ));
            let files: Vec<(&str, &str)> =
                files.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
            let found = found(false, &files);
            assert_eq!(found.len(), usize::from(size == 5));
            assert!(found.iter().all(|(_, rule)| rule.starts_with("5 files import each other")));
        }
    }
}
