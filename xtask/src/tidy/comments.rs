//! Rules about comments: width, first word, length of sentences.

use std::ops::Range;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use super::Breach;
use super::budgets::{Findings, Rule};

/// Columns of a line that holds a comment.
const MAX_COLUMNS: usize = 100;
/// Words of a sentence.
const MAX_WORDS: usize = 30;
/// Words that do not open a doc comment.
const OPENINGS: &[&str] = &["What", "Who", "Whom", "Whose", "How", "Of", "It"];

/// Checks the comments of one Rust file of the crate in `folder`.
pub(super) fn check(
    file: &Path,
    folder: &str,
    text: &str,
    tokens: &TokenStream,
    found: &mut Findings,
) {
    let comments = comments(text, tokens);
    let lines: Vec<&str> = text.lines().collect();
    for comment in &comments {
        if is_too_wide(lines[comment.line - 1], comment.text) {
            let rule = format!("a comment is wider than {MAX_COLUMNS} columns: wrap it");
            found.add(Rule::WideComments, folder, Breach::new(file, comment.line, rule));
        }
    }
    for block in blocks(&comments) {
        if block[0].is_doc
            && let Some(word) = opening(block[0].text)
        {
            let rule = format!("a doc comment starts with `{word}`: start with a noun or a verb");
            found.add(Rule::CommentOpenings, folder, Breach::new(file, block[0].line, rule));
        }
        for (line, words) in sentences(block).into_iter().filter(|(_, words)| *words > MAX_WORDS) {
            let rule = format!("a sentence of {words} words, at most {MAX_WORDS}: split it");
            found.add(Rule::LongSentences, folder, Breach::new(file, line, rule));
        }
    }
}

/// One line of a comment.
struct Comment<'a> {
    /// Line of the file, from 1.
    line: usize,
    is_doc: bool,
    /// Text after the marker.
    text: &'a str,
    /// Code stands before the comment on its line.
    is_trailing: bool,
}

fn is_too_wide(line: &str, comment: &str) -> bool {
    let is_table = comment.trim_start().starts_with('|');
    // A link cannot be wrapped.
    let is_one_word = comment.split_whitespace().any(|word| word.chars().count() > 80);
    line.chars().count() > MAX_COLUMNS && !is_table && !is_one_word
}

/// The word of [`OPENINGS`] that `text` starts with.
fn opening(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let end = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    OPENINGS.iter().find(|word| **word == &text[..end]).copied()
}

/// All comments in the order of the file. Text of literals is no comment.
fn comments<'a>(text: &'a str, tokens: &TokenStream) -> Vec<Comment<'a>> {
    let mut literals = Vec::new();
    collect_literals(text, tokens.clone(), &mut literals);
    let mut literals = literals.into_iter().peekable();
    let mut found = Vec::new();
    let (mut at, mut line, mut line_start) = (0, 1, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        while literals.next_if(|literal| literal.end <= at).is_some() {}
        let end = match (&bytes[at..], literals.peek()) {
            (_, Some(literal)) if literal.start == at => literal.end,
            ([b'/', b'/', ..], _) => text[at..].find('\n').map_or(text.len(), |end| at + end),
            ([b'/', b'*', ..], _) => text[at..].find("*/").map_or(text.len(), |end| at + end + 2),
            _ => at + 1,
        };
        if bytes[at] == b'/' && end > at + 1 {
            let is_trailing = !text[line_start..at].trim().is_empty();
            found.extend(comment_lines(&text[at..end], line, is_trailing));
        }
        let newlines = text.as_bytes()[at..end].iter().filter(|byte| **byte == b'\n').count();
        if newlines > 0 {
            line += newlines;
            line_start = at + text[at..end].rfind('\n').unwrap_or(0) + 1;
        }
        at = end;
    }
    found
}

fn comment_lines(text: &str, first: usize, is_trailing: bool) -> Vec<Comment<'_>> {
    let is_doc = ["///", "//!", "/**", "/*!"].iter().any(|marker| text.starts_with(marker));
    let text = text.trim_start_matches('/').trim_end_matches("*/");
    // A marker without text is an empty line of its comment.
    let lines = text.lines().chain(text.is_empty().then_some("")).zip(first..);
    let stripped =
        lines.map(|(line, number)| (line.trim_start().trim_start_matches(['!', '*']), number));
    stripped.map(|(text, line)| Comment { line, is_doc, text, is_trailing }).collect()
}

/// Byte ranges of the literals of a file, without its doc comments.
fn collect_literals(text: &str, tokens: TokenStream, found: &mut Vec<Range<usize>>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect_literals(text, group.stream(), found),
            TokenTree::Literal(literal) => {
                let range = literal.span().byte_range();
                if !text[range.clone()].starts_with('/') {
                    found.push(range);
                }
            }
            _ => {}
        }
    }
}

/// Splits comments into runs of adjacent lines of one kind.
fn blocks<'a, 'b>(comments: &'b [Comment<'a>]) -> impl Iterator<Item = &'b [Comment<'a>]> {
    comments.chunk_by(|one, next| {
        let is_adjacent = one.line + 1 == next.line && !next.is_trailing;
        is_adjacent && one.is_doc == next.is_doc
    })
}

/// The line and the number of words of each sentence. Code, tables and headings are left out.
fn sentences(block: &[Comment<'_>]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let (mut line, mut words, mut is_code) = (0, 0, false);
    for comment in block {
        let text = comment.text.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        let is_prose = !is_code && !is_fence && !text.is_empty() && !text.starts_with(['|', '#']);
        if (!is_prose || is_list_item(text)) && words > 0 {
            found.push((line, std::mem::take(&mut words)));
        }
        for word in text.split_whitespace().filter(|_| is_prose) {
            if words == 0 {
                line = comment.line;
            }
            words += usize::from(word.contains(char::is_alphanumeric));
            if ends_sentence(word) {
                found.push((line, std::mem::take(&mut words)));
            }
        }
    }
    found.push((line, words));
    found
}

fn is_list_item(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|mark| text.starts_with(mark))
        || digits.len() < text.len() && (digits.starts_with(". ") || digits.starts_with(") "))
}

fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(['"', ')', '*', '_', '`', '”']);
    word.ends_with(['.', '!', '?']) && !matches!(word.trim_start_matches('('), "e.g." | "i.e.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        let mut findings = Findings::default();
        let tokens = text.parse().expect("Rust");
        check(Path::new("lb/src/a.rs"), "lb", text, &tokens, &mut findings);
        let report = findings.judge(&Default::default(), &["lb".into()]);
        report.breaches.into_iter().map(|breach| (breach.line, breach.rule)).collect()
    }

    #[test]
    fn wide_comments_fail() {
        let wide = "word ".repeat(20);
        for text in [
            format!("// {wide}\n"),
            format!("fn f() {{}} // {wide}\n"),
            format!("/// {wide}\nfn f() {{}}\n"),
        ] {
            assert!(found(&text)[0].1.contains("wider than 100"), "{text}");
        }
        assert!(found(&format!("const A: &str = \"// {wide}\";\n")).is_empty());
        assert!(found(&format!("// https://example.org/{}\n", "x".repeat(90))).is_empty());
        assert!(found(&format!("//! | {wide} |\n")).is_empty());
    }

    #[test]
    fn openings_fail_in_doc_comments() {
        for word in OPENINGS {
            let text = format!("const A: char = '\"';\n/// {word} is sent.\nfn f() {{}}\n");
            let found = found(&text);
            assert_eq!(found.len(), 1, "{word}");
            assert_eq!(found[0].0, 2);
        }
        assert!(found("//! Items.\n//! It goes on.\n").is_empty());
        assert!(found("/// Whatever is sent.\nfn f() {} // It is.\n").is_empty());
        assert_eq!(found("//! It\nmacro_rules! a { () => { /// How\n } }\n").len(), 2);
    }

    #[test]
    fn long_sentences_fail() {
        let long = "word ".repeat(16);
        let found_line = found(&format!("fn f() {{}}\n// Short. {long}\n// {long}e.g. this.\n"));
        assert_eq!(found_line.len(), 1);
        assert_eq!(found_line[0].0, 2);
        assert!(found_line[0].1.contains("34 words"), "{found_line:?}");
        assert!(found(&format!("// {long}\n\n// {long}\n")).is_empty());
        assert!(found(&format!("// {long}.\n// {long}.\n")).is_empty());
        assert!(found(&format!("//! - {long}\n//! - {long}\n")).is_empty());
        assert!(found(&format!("//! ```\n//! {long}\n//! {long}\n//! ```\n")).is_empty());
    }
}
