//! Rules about Rust code, judged on tokens so that comments and strings may say anything.

use std::path::Path;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

use super::Breach;
use super::layout::is_empty_name;

/// Where unsafe code may stand.
const UNSAFE_ALLOWED: &[&str] =
    &["engine", "verbs-shim", "ffi", "ibverbs", "nccl", "nixl", "python", "bench/src/peer"];

/// Macros that stand for code that is not there.
const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];

/// Checks the tokens of one file.
pub(super) fn check(file: &Path, tokens: &TokenStream) -> Vec<Breach> {
    let mut walk = SourceVisitor { file, breaches: Vec::new() };
    walk.stream(tokens.clone());
    walk.breaches
}

struct SourceVisitor<'a> {
    file: &'a Path,
    breaches: Vec<Breach>,
}

impl SourceVisitor<'_> {
    fn stream(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let next = tokens.get(index + 1);
            match token {
                TokenTree::Ident(word) => self.word(word, next),
                TokenTree::Punct(mark) if mark.as_char() == '#' => self.attribute(next),
                TokenTree::Group(group) => self.stream(group.stream()),
                _ => {}
            }
        }
    }

    fn word(&mut self, word: &Ident, next: Option<&TokenTree>) {
        let name = word.to_string();
        let line = word.span().start().line;
        let called = matches!(next, Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
        if called && UNFINISHED.contains(&name.as_str()) {
            self.found(line, format!("{name}!: finish it, or leave it out"));
        }
        if name == "unsafe" && !UNSAFE_ALLOWED.iter().any(|place| self.file.starts_with(place)) {
            let places = UNSAFE_ALLOWED.join(", ");
            self.found(line, format!("unsafe code may stand in {places} only"));
        }
        if let ("mod", Some(TokenTree::Ident(module))) = (name.as_str(), next)
            && is_empty_name(&module.to_string())
        {
            self.found(line, format!("`mod {module}` says nothing: name what it does"));
        }
    }

    fn attribute(&mut self, next: Option<&TokenTree>) {
        match next {
            Some(TokenTree::Group(group)) if ignores(group) => {
                let line = group.span_open().start().line;
                self.found(line, "an ignored test guards nothing: repair it or remove it");
            }
            _ => {}
        }
    }

    fn found(&mut self, line: usize, rule: impl Into<String>) {
        self.breaches.push(Breach::new(self.file, line, rule));
    }
}

/// `[ignore]`, `[ignore = ".."]` and `[cfg_attr(.., ignore)]`; what Miri cannot run it may skip.
fn ignores(attribute: &Group) -> bool {
    if attribute.delimiter() != Delimiter::Bracket {
        return false;
    }
    let words = words(attribute.stream());
    match words.first().map(String::as_str) {
        Some("ignore") => true,
        Some("cfg_attr") => words[1..].contains(&"ignore".into()) && words[1] != "miri",
        _ => false,
    }
}

fn words(tokens: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(word) => found.push(word.to_string()),
            TokenTree::Group(group) => found.extend(words(group.stream())),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(name: &str, text: &str) -> Vec<(usize, String)> {
        let tokens = text.parse().expect("Rust");
        check(Path::new(name), &tokens).into_iter().map(|b| (b.line, b.rule)).collect()
    }

    #[test]
    fn unsafe_code_has_its_places() {
        let text = "fn f() {\n    unsafe { g() }\n}\n";
        for name in ["wire/src/a.rs", "bench/src/main.rs", "xtask/src/a.rs", "enginex/src/a.rs"] {
            let rules = rules(name, text);
            assert_eq!(rules.len(), 1, "{name}");
            assert_eq!(rules[0].0, 2);
        }
        for name in ["engine/src/a.rs", "bench/src/peer/udp.rs", "ffi/src/lib.rs"] {
            assert!(rules(name, text).is_empty(), "{name}");
        }
        assert_eq!(rules("lb/src/a.rs", "#[unsafe(no_mangle)] fn f() {}").len(), 1);
    }

    #[test]
    fn comments_and_strings_may_say_anything() {
        let text = "#![forbid(unsafe_code)]\n// unsafe dbg!(1)\nconst A: &str = r#\"unsafe\"#;\n";
        assert!(rules("wire/src/a.rs", text).is_empty());
    }

    #[test]
    fn unfinished_code_fails_inside_macros_too() {
        let unfinished = UNFINISHED.iter().map(|name| format!("vec![{name}!()];\n"));
        let text = unfinished.collect::<String>();
        let lines: Vec<usize> = rules("a.rs", &text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 2, 3]);
    }

    #[test]
    fn empty_module_names_fail() {
        assert_eq!(rules("a.rs", "mod a;\npub(crate) mod utils { }\n")[0].0, 2);
        assert!(rules("a.rs", "use crossbeam_utils::CachePadded;").is_empty());
    }

    #[test]
    fn ignored_tests_fail() {
        for attribute in ["#[ignore]", "#[ignore = \"slow\"]", "#[cfg_attr(debug, ignore)]"] {
            assert_eq!(rules("a.rs", &format!("{attribute}\nfn f() {{}}")).len(), 1, "{attribute}");
        }
        assert!(rules("a.rs", "#[cfg_attr(miri, ignore)]\nfn f() {}").is_empty());
        assert!(rules("a.rs", "let ignore = [ignore];").is_empty());
    }
}
