//! A page as HTML, and its sections for the search.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// A page.
pub(super) struct HtmlPage {
    file: String,
    body: String,
    pub(super) sections: Vec<Section>,
    /// The images, relative to the folder of the pages.
    pub(super) images: Vec<String>,
}

/// A heading with the text below it.
#[derive(Default, Debug, PartialEq)]
pub(super) struct Section {
    pub(super) link: String,
    pub(super) page: String,
    pub(super) heading: String,
    pub(super) text: String,
}

impl HtmlPage {
    /// Reads the Markdown of a file.
    pub(super) fn new(markdown: &str, file: &str) -> Self {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let mut events: Vec<Event<'_>> = Parser::new_ext(markdown, options).collect();
        let sections = name_headings(&mut events, file);
        let images = follow_links(&mut events, file);
        let mut body = String::new();
        html::push_html(&mut body, events.into_iter());
        HtmlPage { file: file.to_owned(), body, sections, images }
    }

    /// The whole file.
    pub(super) fn html(&self, contents: &str, title: &str) -> String {
        let (up, title) = (up(&self.file), escaped(title));
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title} - Braid</title>\n<link rel=\"stylesheet\" href=\"{up}book.css\">\n\
             </head>\n<body data-root=\"{up}\">\n<nav>\n\
             <input id=\"search\" type=\"search\" placeholder=\"Search ( / )\" \
             aria-label=\"Search\">\n<div id=\"found\"></div>\n<div id=\"contents\">\n{contents}\
             </div>\n</nav>\n<main>\n{}</main>\n<script src=\"{up}index.js\"></script>\n\
             <script src=\"{up}search.js\"></script>\n</body>\n</html>\n",
            self.body
        )
    }
}

/// The file of a page in the book.
pub(super) fn target(file: &str) -> String {
    match file.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.html"),
        None => format!("{}.html", file.strip_suffix(".md").unwrap_or(file)),
    }
}

/// The way from a page to the folder of the book.
pub(super) fn up(file: &str) -> String {
    "../".repeat(file.matches('/').count())
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

/// Gives each heading its anchor, and collects the text below it.
fn name_headings(events: &mut [Event<'_>], file: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let (mut begin, mut page) = (None, String::new());
    for at in 0..events.len() {
        match &events[at] {
            Event::Start(Tag::Heading { .. }) => {
                begin = Some(at);
                sections.push(Section::default());
            }
            Event::End(TagEnd::Heading(_)) => {
                let (Some(section), Some(begin)) = (sections.last_mut(), begin.take()) else {
                    continue;
                };
                section.heading = std::mem::take(&mut section.text).trim().to_owned();
                if page.is_empty() {
                    page.clone_from(&section.heading);
                }
                let anchor = anchor(&section.heading, &names);
                section.link = format!("{}#{anchor}", target(file));
                section.page.clone_from(&page);
                if let Event::Start(Tag::Heading { id, .. }) = &mut events[begin] {
                    *id = Some(CowStr::from(anchor.clone()));
                }
                names.push(anchor);
            }
            Event::Text(text) | Event::Code(text) => {
                let Some(section) = sections.last_mut() else { continue };
                section.text.push_str(text);
            }
            // Words of different cells and lines are different words.
            Event::SoftBreak | Event::HardBreak | Event::End(_) => {
                let Some(section) = sections.last_mut() else { continue };
                section.text.push(' ');
            }
            _ => {}
        }
    }
    sections
}

/// The name of a heading, as on GitHub: small letters, hyphens for blanks, no other signs; a second
/// one of a name ends in `-1`.
fn anchor(heading: &str, before: &[String]) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
    match before.iter().filter(|other| **other == name).count() {
        0 => name,
        count => format!("{name}-{count}"),
    }
}

/// Turns links to pages into links to files of the book, and links to other files of the sources
/// into their names. Returns the images.
fn follow_links(events: &mut Vec<Event<'_>>, file: &str) -> Vec<String> {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut images = Vec::new();
    let mut is_kept = Vec::new();
    events.retain_mut(|event| match event {
        Event::Start(Tag::Link { dest_url, .. }) => {
            let followed = follow(dest_url, folder);
            is_kept.push(followed.is_some());
            followed.map(|link| *dest_url = link.into()).is_some()
        }
        Event::End(TagEnd::Link) => is_kept.pop().unwrap_or(true),
        Event::Start(Tag::Image { dest_url, .. }) => {
            images.extend(resolved(dest_url, folder));
            true
        }
        _ => true,
    });
    images
}

/// The link in the book; none to what is not in it.
fn follow(link: &str, folder: &str) -> Option<String> {
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, format!("#{anchor}")),
        None => (link, String::new()),
    };
    if path.is_empty() || path.contains(':') {
        return Some(link.to_owned());
    }
    let is_page = resolved(path, folder).is_some() && path.ends_with(".md");
    // A table of contents stands beside each page.
    (is_page && !path.ends_with("SUMMARY.md")).then(|| target(path) + &anchor)
}

/// The file of a relative link, from the folder of the pages; none if it leads out of it.
fn resolved(link: &str, folder: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()?),
            "." | "" => {}
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKDOWN: &str = "# A `page`\n\nSee [b](b.md#x), [c](../README.md), [d](../../src/d.rs) \
                            and <https://e.org>.\n\n## Same\n\n![i](i.svg)\n\n## Same\n\n| x | y |\n\
                            |---|---|\n| 1 < 2 | `z` |\n";

    #[test]
    fn links_lead_to_files_of_the_book() {
        let page = HtmlPage::new(MARKDOWN, "x/a.md");
        for part in [
            "<h1 id=\"a-page\">",
            "<a href=\"b.html#x\">b</a>",
            "<a href=\"../index.html\">c</a>",
            ", d",
            "<a href=\"https://e.org\">",
            "<h2 id=\"same-1\">",
        ] {
            assert!(page.body.contains(part), "{part} is not in {}", page.body);
        }
        assert!(!page.body.contains("d.rs"), "{}", page.body);
        assert_eq!(page.images, ["x/i.svg"]);
        let html = page.html("", "A & B");
        assert!(html.contains("<title>A &amp; B - Braid</title>"));
        assert!(html.contains("href=\"../book.css\""));
    }

    #[test]
    fn sections_are_found_by_their_text() {
        let page = HtmlPage::new(MARKDOWN, "x/a.md");
        let links: Vec<_> = page.sections.iter().map(|section| section.link.as_str()).collect();
        assert_eq!(links, ["x/a.html#a-page", "x/a.html#same", "x/a.html#same-1"]);
        assert!(page.sections.iter().all(|section| section.page == "A page"));
        assert!(page.sections[2].text.contains("1 < 2 z"), "{:?}", page.sections[2]);
    }
}
