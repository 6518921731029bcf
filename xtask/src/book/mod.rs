//! `cargo xtask book`: the pages of `docs/` as a book of mdBook, with a search, for a browser
//! without a server.

mod links;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mdbook_driver::MDBook;
use mdbook_driver::book::BookItem;
use mdbook_driver::config::Config;

use crate::files::cannot;
use crate::{Failure, tree};

/// The folder of the pages, and their table of contents there.
const DOCS: &str = "docs";
const SUMMARY: &str = "SUMMARY.md";
/// A file that every book has.
const MARK: &str = "toc.html";

/// The destination.
#[derive(clap::Args)]
pub struct BookOptions {
    /// The folder for the book, empty or with an older book [default: target/xtask/book]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the book.
pub fn run(options: &BookOptions) -> Result<(), Failure> {
    let out = match &options.out {
        Some(folder) => folder.clone(),
        None => tree::target()?.join("xtask/book"),
    };
    let is_used = fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some());
    if is_used && !out.join(MARK).exists() {
        return Err(Failure::new(format!("{} has files that are no book", out.display()))
            .remedy("name another folder with --out: all files in it would be removed"));
    }
    let pages = into(&out)?;
    println!("{pages} pages: {}", out.join("index.html").display());
    Ok(())
}

/// Writes the book into a folder, which need not exist, and removes what else is there. Returns the
/// number of pages.
pub(crate) fn into(folder: &Path) -> Result<usize, Failure> {
    let failed = |e| Failure::new(format!("mdBook on {DOCS}: {e:#}"));
    let docs = tree::root().join(DOCS);
    let mut files = BTreeSet::new();
    list(&docs, &docs, &mut files)?;
    files.remove(Path::new(SUMMARY));
    let mut book = MDBook::load_with_config(tree::root(), config(folder)?).map_err(failed)?;
    let listed = book.iter().filter_map(|item| match item {
        BookItem::Chapter(chapter) => chapter.source_path.clone(),
        _ => None,
    });
    let pages = complete(listed.collect(), &files)?;
    book.book.for_each_mut(|item| {
        if let BookItem::Chapter(chapter) = item
            && let Some(source) = &chapter.source_path
        {
            let folder = source.parent().unwrap_or(Path::new(""));
            chapter.content = links::of_book(&chapter.content, folder, &files);
        }
    });
    book.build().map_err(failed)?;
    Ok(pages)
}

fn config(folder: &Path) -> Result<Config, Failure> {
    let mut config = Config::default();
    config.book.title = Some("Braid".to_owned());
    config.book.src = DOCS.into();
    config.build.build_dir = std::path::absolute(folder).map_err(|e| cannot("find", folder, &e))?;
    config.build.create_missing = false;
    let html = [("print.enable", false), ("no-section-label", true), ("fold.enable", true)];
    for (key, value) in html {
        config.set(format!("output.html.{key}"), value).expect("truth values have a TOML form");
    }
    Ok(config)
}

/// Fails unless the table of contents has every page once. Returns the number of pages.
fn complete(mut listed: Vec<PathBuf>, files: &BTreeSet<PathBuf>) -> Result<usize, Failure> {
    listed.sort_unstable();
    let pages: Vec<&PathBuf> =
        files.iter().filter(|file| file.extension().is_some_and(|end| end == "md")).collect();
    if listed.iter().eq(pages.iter().copied()) {
        return Ok(pages.len());
    }
    let odd = |page: &&&PathBuf| listed.iter().filter(|other| other == *page).count() != 1;
    let odd: Vec<_> = pages.iter().filter(odd).collect();
    Err(Failure::new(format!(
        "{DOCS}/{SUMMARY} lists {} pages, and there are {}; not once: {odd:?}",
        listed.len(),
        pages.len()
    ))
    .remedy(format!("list every page of {DOCS} once in {DOCS}/{SUMMARY}")))
}

/// Finds the files below a folder, relative to `root`.
fn list(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(|e| cannot("list", folder, &e))? {
        let path = entry.map_err(|e| cannot("list", folder, &e))?.path();
        if path.is_dir() {
            list(root, &path, found)?;
        } else {
            found.insert(path.strip_prefix(root).unwrap_or(&path).to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::read;

    #[test]
    fn the_book_has_every_page_and_every_link_leads_to_a_place() {
        let folder = std::env::temp_dir().join(format!("braid-book-{}", std::process::id()));
        let pages = into(&folder).unwrap();
        let mut files = BTreeSet::new();
        list(&folder, &folder, &mut files).unwrap();
        let html = |file: &Path| read(&folder.join(file)).unwrap();
        let mut broken = Vec::new();
        for name in files.iter().filter(|file| file.extension().is_some_and(|end| end == "html")) {
            let text = html(name);
            let main = text.split("<main>").nth(1).unwrap_or("");
            let links =
                [" href=\"", " src=\""].into_iter().flat_map(|name| main.split(name).skip(1));
            for link in links.map(|rest| rest.split('"').next().unwrap()) {
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                if path.contains(':') || path.starts_with('<') {
                    continue;
                }
                let target = match path {
                    "" => Some(name.clone()),
                    path => links::resolved(&name.parent().unwrap().join(path)),
                };
                let is_there = target.is_some_and(|target| {
                    files.contains(&target)
                        && (anchor.is_empty()
                            || html(&target).contains(&format!("id=\"{anchor}\"")))
                });
                if !is_there {
                    broken.push(format!("{}: {link}", name.display()));
                }
            }
        }
        let has_search = files.iter().any(|file| file.to_string_lossy().starts_with("searchindex"));
        fs::remove_dir_all(&folder).unwrap();
        assert!(pages > 40, "{pages} pages");
        assert!(has_search, "no search among {files:?}");
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn a_folder_of_other_files_is_left_alone() {
        let folder = std::env::temp_dir().join(format!("braid-no-book-{}", std::process::id()));
        crate::files::write(&folder.join("kept"), "").unwrap();
        let refused = run(&BookOptions { out: Some(folder.clone()) });
        let is_kept = folder.join("kept").exists();
        fs::remove_dir_all(&folder).unwrap();
        assert!(refused.unwrap_err().to_string().contains("that are no book"));
        assert!(is_kept);
    }
}
