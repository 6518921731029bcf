//! docs/logs.md lists every event that the sources can log, and no other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use xtask::tree;

/// Folders whose crates log, and what their targets begin with.
const CRATES: [(&str, &str); 14] = [
    ("engine/src", "braid"),
    ("verbs-shim/src", "braid_verbs"),
    ("ibverbs/src", "braid_ibverbs"),
    ("keys/src", "braid_keys"),
    ("nccl/src", "nccl_net_braid"),
    ("nixl/src", "plugin_BRAID"),
    ("sim/src", "braid_sim"),
    ("studies/src", "braid_studies"),
    ("bench/src", "braid_perf"),
    ("ffi/src", "braid_ffi"),
    ("transport/src", "braid_transport"),
    ("lb/src", "braid_lb"),
    ("cc/src", "braid_cc"),
    ("wire/src", "braid_wire"),
];
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Target, level, message, fields.
type Event = [String; 4];

#[test]
fn every_event_is_listed() {
    let mut said = BTreeSet::new();
    for (folder, name) in CRATES {
        let root = tree::root().join(folder);
        for file in sources(&root) {
            let text = fs::read_to_string(&file).unwrap();
            let tokens: TokenStream = text.parse().unwrap();
            let target = target(name, file.strip_prefix(&root).unwrap());
            find(&target, tokens, &mut said);
        }
    }
    assert!(said.len() > 40, "only {said:?}");
    let logging: BTreeSet<&str> =
        said.iter().filter_map(|[target, ..]| target.split("::").next()).collect();
    assert_eq!(logging, BTreeSet::from(braid_log::CRATES), "the targets that a filter may name");
    let page = fs::read_to_string(tree::root().join("docs/logs.md")).unwrap();
    let listed: BTreeSet<Event> = page.lines().filter_map(listed).collect();
    let missing: Vec<_> = said.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&said).collect();
    assert!(missing.is_empty(), "docs/logs.md does not list {missing:#?}");
    assert!(gone.is_empty(), "docs/logs.md lists what nothing logs: {gone:#?}");
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The module of a file, which is what `tracing` calls its events' target.
fn target(name: &str, file: &Path) -> String {
    let parts = file.with_extension("");
    let parts = parts.iter().map(|part| part.to_str().unwrap());
    let inside = parts.filter(|part| !["lib", "main", "mod"].contains(part));
    std::iter::once(name).chain(inside).collect::<Vec<_>>().join("::")
}

/// `tracing::LEVEL!(..)`, wherever it stands.
fn find(target: &str, tokens: TokenStream, said: &mut BTreeSet<Event>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        find(target, group.stream(), said);
        let before: Vec<String> =
            tokens[index.saturating_sub(5)..index].iter().map(ToString::to_string).collect();
        let [path, _, _, level, mark] = &before[..] else { continue };
        let is_event = path == "tracing" && mark == "!" && LEVELS.contains(&level.as_str());
        if is_event && group.delimiter() == Delimiter::Parenthesis {
            let (message, fields) = parts(group.stream());
            said.insert([target.to_owned(), level.clone(), message, fields]);
        }
    }
}

/// The message and the names of the fields before it.
fn parts(tokens: TokenStream) -> (String, String) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_comma =
        |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
    let mut fields = Vec::new();
    for argument in tokens.split(is_comma) {
        if let [TokenTree::Literal(text)] = argument {
            return (text.to_string().trim_matches('"').to_owned(), fields.join(", "));
        }
        let name = argument.iter().find_map(|token| match token {
            TokenTree::Ident(name) => Some(name.to_string()),
            _ => None,
        });
        fields.extend(name);
    }
    panic!("an event without a message, with {fields:?}");
}

/// A row of the table of events.
fn listed(line: &str) -> Option<Event> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let ["", target, level, message, fields, meaning, ""] = cells[..] else { return None };
    let target = target.strip_prefix('`')?.strip_suffix('`')?;
    assert!(!meaning.is_empty(), "{target}: {message}: what does it mean?");
    Some([target, level, message, fields].map(str::to_owned))
}
