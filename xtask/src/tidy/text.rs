//! Rules that need no parser: lengths, blanks, markers.

use std::path::Path;

use super::{Breach, has_extension};

/// Columns of a comment in a TOML file; `comments` checks those of Rust files.
const MAX_COLUMNS: usize = 100;

/// Lines of a source file.
const MAX_LINES: usize = 600;

/// Put together so that this file does not hold what it forbids.
const MARKERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Checks the lines of any text file.
pub(super) fn check(file: &Path, text: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut found = |rule: &str| breaches.push(Breach::new(file, index + 1, rule));
        if line.ends_with([' ', '\t', '\r']) {
            found("blanks at the end of the line");
        }
        if line.trim_end().contains('\t') {
            found("a tab: indent with spaces");
        }
        let is_comment = has_extension(file, "toml") && line.trim_start().starts_with('#');
        if is_comment && line.chars().count() > MAX_COLUMNS {
            found(&format!("a comment is wider than {MAX_COLUMNS} columns: wrap it"));
        }
        if let Some(marker) = MARKERS.iter().find(|marker| has_word(line, marker)) {
            found(&format!("{marker}: do it now, or describe it in an issue"));
        }
    }
    let lines = text.lines().count();
    if has_extension(file, "rs") && lines > MAX_LINES {
        let rule = format!("{lines} lines, at most {MAX_LINES}: one idea per file");
        breaches.push(Breach::new(file, 0, rule));
    }
    breaches
}

fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(inside) && !line[at + word.len()..].starts_with(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(name: &str, text: &str) -> Vec<(usize, String)> {
        check(Path::new(name), text).into_iter().map(|b| (b.line, b.rule)).collect()
    }

    #[test]
    fn clean_text_passes() {
        assert!(rules("a.rs", "fn main() {}\n").is_empty());
        assert!(rules("a.md", &"a line\n".repeat(MAX_LINES + 1)).is_empty());
    }

    #[test]
    fn long_files_fail() {
        assert!(rules("a.rs", &"\n".repeat(MAX_LINES)).is_empty());
        assert!(rules("a.rs", &"\n".repeat(MAX_LINES + 1))[0].1.contains("601 lines"));
    }

    #[test]
    fn wide_comments_fail_in_toml() {
        let wide = "x".repeat(MAX_COLUMNS);
        assert!(rules("a.toml", &format!("# {wide}\n"))[0].1.contains("wider than 100"));
        assert!(rules("a.toml", &format!("a = \"{wide}\"\n")).is_empty());
    }

    #[test]
    fn blanks_and_tabs_fail() {
        assert_eq!(rules("a.toml", "a\nb \n")[0].0, 2);
        assert!(rules("a.md", "\tx\n")[0].1.contains("tab"));
        assert_eq!(rules("a.md", "x\r\n").len(), 0, "lines() takes a whole CRLF");
    }

    #[test]
    fn markers_fail_as_words_only() {
        for marker in MARKERS {
            assert_eq!(rules("a.rs", &format!("// {marker}: later\n")).len(), 1);
            assert_eq!(rules("a.rs", &format!("// {marker}TENANCE\n")).len(), 0);
        }
    }
}
