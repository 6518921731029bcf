//! Links of a page that lead out of the book. The pages link to the sources, which a book that is
//! installed does not have.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Puts the text of a link in the place of each link out of the book. Links to `README.md` lead to
/// `index.md`, as mdBook renames it. `files` are those of the book, relative to the folder of its
/// pages, and so is `folder`, the one of this page.
pub(super) fn of_book(markdown: &str, folder: &Path, files: &BTreeSet<PathBuf>) -> String {
    let mut book = String::with_capacity(markdown.len());
    let mut end = 0;
    for Link { target, whole, text } in links(markdown) {
        book.push_str(&markdown[end..whole.start]);
        end = whole.end;
        if leads_out(&target, folder, files) {
            book.push_str(&markdown[text]);
        } else {
            book.push_str(&markdown[whole.start..text.end]);
            let target = &markdown[text.end..whole.end];
            book.push_str(&target.replacen("README.md", "index.md", 1));
        }
    }
    book.push_str(&markdown[end..]);
    book
}

fn leads_out(link: &str, folder: &Path, files: &BTreeSet<PathBuf>) -> bool {
    let path = link.split('#').next().unwrap_or(link);
    if path.is_empty() || path.contains(':') {
        return false;
    }
    resolved(&folder.join(path)).is_none_or(|file| !files.contains(&file))
}

/// A link and its text, as ranges of the Markdown.
struct Link {
    target: String,
    whole: Range<usize>,
    text: Range<usize>,
}

fn links(markdown: &str) -> Vec<Link> {
    let mut links = Vec::new();
    let mut open: Option<Link> = None;
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    for (event, range) in Parser::new_ext(markdown, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Link { dest_url, .. }) => {
                let text = range.start..range.start;
                open = Some(Link { target: dest_url.into_string(), whole: range, text });
            }
            Event::End(TagEnd::Link) => links.extend(open.take()),
            _ => {
                let Some(link) = &mut open else { continue };
                if link.text.start == link.whole.start {
                    link.text.start = range.start;
                }
                link.text.end = range.end;
            }
        }
    }
    links
}

/// The path without `..` and `.`; none if it leads out of the folder of the pages.
pub(super) fn resolved(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => resolved.pop().then_some(())?,
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_become_their_text_and_others_lead_to_its_pages() {
        let files = BTreeSet::from(["x/b.md", "README.md"].map(PathBuf::from));
        let page = |markdown| of_book(markdown, Path::new("x"), &files);
        let kept =
            "See [b](b.md#x), [README.md](../README.md#c), [top](#top) and <https://e.org>.\n";
        let named = kept.replace("../README.md", "../index.md");
        assert_eq!(page(kept), named);
        let outer = "[`d`, *e*](../../src/d.rs), ![i](gone.svg)\n\n| [f](f.md) | z |\n|---|---|\n";
        let expected = "`d`, *e*, ![i](gone.svg)\n\n| f | z |\n|---|---|\n";
        assert_eq!(page(outer), expected);
    }
}
