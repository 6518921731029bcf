//! The table of contents, in the format of mdBook.

use crate::book::page::{escaped, target, up};

/// A page, or the heading of a part if there is no file.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) title: String,
    /// The file, relative to the folder of the pages.
    pub(super) file: String,
    is_nested: bool,
}

/// Reads `# Part`, `- [Title](file.md)` and `[Title](file.md)`.
pub(super) fn entries(text: &str) -> Vec<Entry> {
    // The first line is the heading of the table itself.
    let lines = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let entry = |line: &str| {
        if let Some(part) = line.strip_prefix("# ") {
            let title = part.to_owned();
            return Some(Entry { title, file: String::new(), is_nested: false });
        }
        let (title, file) = line.split_once('[')?.1.split_once("](")?;
        let (title, file) = (title.to_owned(), file.split(')').next()?.to_owned());
        Some(Entry { title, file, is_nested: line.starts_with(' ') })
    };
    lines.filter_map(entry).collect()
}

/// The table as HTML, for the page `of`.
pub(super) fn contents(entries: &[Entry], of: &str) -> String {
    let mut html = String::new();
    for entry in entries {
        let title = escaped(&entry.title);
        html.push_str(&match (entry.file.as_str(), entry.is_nested) {
            ("", _) => format!("<h2>{title}</h2>\n"),
            (file, _) if file == of => format!("<p class=\"here\">{title}</p>\n"),
            (file, nested) => {
                let class = if nested { " class=\"nested\"" } else { "" };
                format!("<p{class}><a href=\"{}{}\">{title}</a></p>\n", up(of), target(file))
            }
        });
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_pages_are_read() {
        let text =
            "# Summary\n\n[Start](README.md)\n\n# Part\n\n- [A](a.md)\n  - [B & C](x/b.md)\n";
        let entries = entries(text);
        let read: Vec<_> = entries.iter().map(|e| (&*e.title, &*e.file, e.is_nested)).collect();
        let wanted = [
            ("Start", "README.md", false),
            ("Part", "", false),
            ("A", "a.md", false),
            ("B & C", "x/b.md", true),
        ];
        assert_eq!(read, wanted);
        let html = contents(&entries, "x/b.md");
        assert!(html.contains("<a href=\"../index.html\">Start</a>"), "{html}");
        assert!(html.contains("<p class=\"here\">B &amp; C</p>"), "{html}");
    }
}
