//! Man pages: section 3 from the comments of `braid.h`, and the check that nothing lacks one.

mod header;
mod pages;
mod roff;

use std::fs;
use std::path::Path;

use crate::files::{cannot, read};
use crate::{Failure, tree};

use header::items;
use pages::pages;

/// The header that the pages describe, from the root of the tree.
const HEADER: &str = "ffi/include/braid.h";
/// The page that lists the others, and the rules that hold for all functions.
const OVERVIEW: &str = "braid";

/// Writes the pages of the C API below a prefix: one for each group of functions, and an alias for
/// each function and type.
pub(super) fn of_library(prefix: &Path, version: &str) -> Result<(), Failure> {
    let header = read(&tree::root().join(HEADER))?;
    let folder = prefix.join("share/man/man3");
    fs::create_dir_all(&folder).map_err(|e| cannot("make", &folder, &e))?;
    for (name, text) in files(&header, version)? {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|e| cannot("write", &path, &e))?;
    }
    Ok(())
}

/// The names and texts of all pages.
fn files(header: &str, version: &str) -> Result<Vec<(String, String)>, Failure> {
    let (prologue, items) = header::parts(header)?;
    let pages = pages(&items)?;
    let mut files =
        vec![(format!("{OVERVIEW}.3"), roff::overview(OVERVIEW, &prologue, &pages, version))];
    for page in &pages {
        files.push((format!("{}.3", page.name), roff::page(page, version)));
        let alias = format!(".so man3/{}.3\n", page.name);
        let others = page.names().filter(|name| *name != page.name);
        files.extend(others.map(|name| (format!("{name}.3"), alias.clone())));
    }
    Ok(files)
}

/// Fails if a program or a C function of an installation has no page.
pub(crate) fn check(prefix: &Path) -> Result<(), Failure> {
    let man = prefix.join("share/man");
    let header = prefix.join("include/braid.h");
    let items = items(&read(&header)?)?;
    let functions = items.iter().filter(|item| item.is_function());
    let mut pages: Vec<_> = functions.map(|item| format!("man3/{}.3", item.name)).collect();
    let programs = prefix.join("bin");
    if programs.is_dir() {
        for entry in fs::read_dir(&programs).map_err(|e| cannot("list", &programs, &e))? {
            let name = entry.map_err(|e| cannot("list", &programs, &e))?.file_name();
            let name = name.to_string_lossy();
            // The prefix may have programs of others.
            if name.starts_with("braid") {
                pages.push(format!("man1/{name}.1"));
            }
        }
    }
    match pages.iter().find(|page| !man.join(page).is_file()) {
        Some(missing) => Err(Failure::new(format!("there is no {}", man.join(missing).display()))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn header() -> String {
        read(&tree::root().join(HEADER)).unwrap()
    }

    #[test]
    fn every_function_of_the_header_has_one_page() {
        let files = files(&header(), "0.1.0").unwrap();
        let names: BTreeSet<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), files.len(), "a page is written twice");
        let items = items(&header()).unwrap();
        let functions: Vec<_> = items.iter().filter(|item| item.is_function()).collect();
        assert!(functions.len() > 100, "only {} functions were found", functions.len());
        for function in functions {
            assert!(names.contains(format!("{}.3", function.name).as_str()), "{}", function.name);
        }
    }

    #[test]
    fn a_missing_page_is_an_error() {
        let prefix = std::env::temp_dir().join(format!("braid-manual-{}", std::process::id()));
        fs::create_dir_all(prefix.join("include")).unwrap();
        fs::create_dir_all(prefix.join("bin")).unwrap();
        fs::write(prefix.join("include/braid.h"), header()).unwrap();
        assert!(check(&prefix).is_err());
        of_library(&prefix, "0.1.0").unwrap();
        let complete = check(&prefix);
        fs::write(prefix.join("bin/braid-new"), "").unwrap();
        let incomplete = check(&prefix);
        fs::remove_dir_all(&prefix).unwrap();
        assert!(complete.is_ok(), "{complete:?}");
        assert!(incomplete.unwrap_err().to_string().contains("man1/braid-new.1"));
    }
}
