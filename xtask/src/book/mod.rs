//! `cargo xtask book`: the pages of `docs/` as HTML with a search, for a browser without a server.
//!
//! The table of contents is `docs/SUMMARY.md`, in the format of mdBook.

mod page;
mod summary;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use page::{HtmlPage, Section};
use summary::Entry;

use crate::files::{cannot, read, write};
use crate::{Failure, tree};

/// The folder of the pages, and their table of contents there.
const DOCS: &str = "docs";
const SUMMARY: &str = "SUMMARY.md";
/// The files that all pages need.
const SHARED: [(&str, &str); 2] =
    [("book.css", include_str!("book.css")), ("search.js", include_str!("search.js"))];
/// The index of the search: a script, because a browser reads no other files without a server.
const INDEX: &str = "index.js";

/// The destination.
#[derive(clap::Args)]
pub struct BookOptions {
    /// The folder for the book [default: target/xtask/book]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the book.
pub fn run(options: &BookOptions) -> Result<(), Failure> {
    let out = match &options.out {
        Some(folder) => folder.clone(),
        None => tree::target()?.join("xtask/book"),
    };
    let pages = into(&out)?;
    println!("{pages} pages: {}", out.join("index.html").display());
    Ok(())
}

/// Writes the book into a folder, which need not exist. Returns the number of pages.
pub(crate) fn into(folder: &Path) -> Result<usize, Failure> {
    let docs = tree::root().join(DOCS);
    let entries = summary::entries(&read(&docs.join(SUMMARY))?);
    complete(&entries, &docs)?;
    let (mut sections, mut images) = (Vec::new(), BTreeSet::new());
    for entry in entries.iter().filter(|entry| !entry.file.is_empty()) {
        let page = HtmlPage::new(&read(&docs.join(&entry.file))?, &entry.file);
        let text = page.html(&summary::contents(&entries, &entry.file), &entry.title);
        write(&folder.join(page::target(&entry.file)), &text)?;
        images.extend(page.images);
        sections.extend(page.sections);
    }
    for image in images {
        let bytes =
            fs::read(docs.join(&image)).map_err(|e| cannot("read", &docs.join(&image), &e))?;
        write(&folder.join(&image), bytes)?;
    }
    for (name, text) in SHARED {
        write(&folder.join(name), text)?;
    }
    write(&folder.join(INDEX), index(&sections))?;
    Ok(entries.iter().filter(|entry| !entry.file.is_empty()).count())
}

/// Fails unless the table of contents has every page once.
fn complete(entries: &[Entry], docs: &Path) -> Result<(), Failure> {
    let mut listed: Vec<&str> = entries.iter().map(|entry| entry.file.as_str()).collect();
    listed.retain(|file| !file.is_empty());
    listed.sort_unstable();
    let mut found = Vec::new();
    markdown(docs, docs, &mut found)?;
    found.retain(|file| file != SUMMARY);
    found.sort_unstable();
    match listed == found {
        true => Ok(()),
        false => {
            let odd = |file: &&String| listed.iter().filter(|other| other == file).count() != 1;
            let odd: Vec<&String> = found.iter().filter(odd).collect();
            Err(Failure::new(format!(
                "{DOCS}/{SUMMARY} lists {} pages, and there are {}; not once: {odd:?}",
                listed.len(),
                found.len()
            ))
            .remedy(format!("list every page of {DOCS} once in {DOCS}/{SUMMARY}")))
        }
    }
}

/// The Markdown files below a folder, relative to `root`.
fn markdown(root: &Path, folder: &Path, found: &mut Vec<String>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(|e| cannot("list", folder, &e))? {
        let path = entry.map_err(|e| cannot("list", folder, &e))?.path();
        let name = path.strip_prefix(root).unwrap_or(&path);
        if path.is_dir() {
            markdown(root, &path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(name.display().to_string());
        }
    }
    Ok(())
}

fn index(sections: &[Section]) -> String {
    let rows: Vec<_> = sections
        .iter()
        .map(|section| [&section.link, &section.page, &section.heading, &section.text])
        .collect();
    let rows = serde_json::to_string(&rows).expect("texts have a JSON form");
    // A script must not end inside of a text.
    format!("const INDEX = {};\n", rows.replace("</", "<\\/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_has_every_page_and_every_link_leads_to_a_file() {
        let folder = std::env::temp_dir().join(format!("braid-book-{}", std::process::id()));
        let pages = into(&folder).unwrap();
        let mut broken = Vec::new();
        let mut names = Vec::new();
        html(&folder, &mut names);
        for name in &names {
            let text = fs::read_to_string(name).unwrap();
            for link in text.split(" href=\"").chain(text.split(" src=\"")).skip(1) {
                let link = link.split('"').next().unwrap().split('#').next().unwrap();
                let target = name.parent().unwrap().join(link);
                if !link.contains(':')
                    && !link.is_empty()
                    && !link.contains('<')
                    && !target.exists()
                {
                    broken.push(format!("{}: {link}", name.display()));
                }
            }
        }
        let index = fs::read_to_string(folder.join(INDEX)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(pages > 40 && names.len() == pages, "{pages} pages, {} files", names.len());
        assert!(broken.is_empty(), "{broken:#?}");
        assert!(index.contains("spraying.html#loss-recovery---loss-recovery"), "no such section");
    }

    fn html(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => html(&path, found),
                false if path.extension().is_some_and(|end| end == "html") => found.push(path),
                false => {}
            }
        }
    }
}
