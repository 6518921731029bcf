//! Rules about names and places of files.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

use super::{Breach, read};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "manager", "managers", "helper", "helpers", "common", "misc"];

/// Crates that are free of unsafe code as a whole.
const FORBID_UNSAFE: &[&str] =
    &["wire", "lb", "cc", "keys", "transport", "sim", "studies", "lab", "log"];

/// Whether a module, file or folder has a name that says nothing.
pub(super) fn is_empty_name(name: &str) -> bool {
    EMPTY_NAMES.contains(&name)
}

/// Checks the names on the way to one file.
pub(super) fn check_names(file: &Path) -> Vec<Breach> {
    let parts = file.with_extension("");
    parts
        .iter()
        .map(|part| part.to_string_lossy())
        .filter(|part| is_empty_name(part))
        .map(|part| Breach::new(file, 0, format!("`{part}` says nothing: name what it does")))
        .collect()
}

/// Checks that the pure crates forbid unsafe code.
pub(super) fn check_forbids(root: &Path) -> Vec<Breach> {
    let files = FORBID_UNSAFE.iter().map(|folder| Path::new(folder).join("src/lib.rs"));
    let lacking =
        files.filter(|file| !read(&root.join(file)).is_ok_and(|text| forbids_unsafe(&text)));
    lacking.map(|file| Breach::new(&file, 0, "lacks #![forbid(unsafe_code)]")).collect()
}

fn forbids_unsafe(text: &str) -> bool {
    let Ok(tokens) = text.parse::<TokenStream>() else { return false };
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    tokens.windows(3).any(|three| match three {
        [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(group)] => {
            let attribute = group.stream().to_string().replace(' ', "");
            hash.as_char() == '#'
                && bang.as_char() == '!'
                && attribute.starts_with("forbid(")
                && attribute.contains("unsafe_code")
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_fail_wherever_they_stand() {
        for file in ["lb/src/utils.rs", "tests/common/mod.rs", "cc/src/helper.rs"] {
            assert_eq!(check_names(Path::new(file)).len(), 1, "{file}");
        }
        assert!(check_names(Path::new("lb/src/utility.rs")).is_empty());
    }

    #[test]
    fn the_attribute_must_be_there_as_code() {
        assert!(forbids_unsafe("//! Docs.\n#![forbid(unsafe_code)]\nmod a;"));
        assert!(forbids_unsafe("#![forbid(missing_docs, unsafe_code)]"));
        assert!(!forbids_unsafe("// #![forbid(unsafe_code)]\n"));
        assert!(!forbids_unsafe("#![deny(unsafe_code)]"));
        assert!(!forbids_unsafe("#[forbid(unsafe_code)] mod a {}"));
    }
}
