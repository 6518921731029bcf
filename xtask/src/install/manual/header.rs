//! The items of `braid.h`: constants, types and functions with their comments.

use crate::Failure;

/// The kind of an item with its parts.
#[derive(Debug, PartialEq)]
pub(crate) enum Kind {
    /// The value as it stands in the header.
    Constant(String),
    /// A type without visible fields, or of a function.
    Opaque(String),
    /// The declarations of the fields, each with its comment.
    Struct(Vec<(String, Vec<String>)>),
    /// The prototype, by lines.
    Function(Vec<String>),
}

/// A part of the header that has a name of its own.
#[derive(Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) name: String,
    /// The paragraphs of its comment.
    pub(crate) comment: Vec<String>,
    pub(crate) kind: Kind,
}

impl Item {
    pub(crate) fn is_function(&self) -> bool {
        matches!(self.kind, Kind::Function(_))
    }
}

/// The items of a header in its order.
pub(crate) fn items(header: &str) -> Result<Vec<Item>, Failure> {
    parts(header).map(|(_, items)| items)
}

/// The paragraphs before the include guard, and the items behind it.
pub(super) fn parts(header: &str) -> Result<(Vec<String>, Vec<Item>), Failure> {
    let (prologue, rest) = header
        .split_once("#ifndef BRAID_H\n")
        .ok_or_else(|| Failure::new("braid.h has no include guard BRAID_H"))?;
    let prologue = paragraphs(prologue.lines());
    let mut items = Vec::new();
    let (mut comment, mut code) = (Vec::new(), Vec::new());
    for line in rest.lines().chain([""]) {
        match line.strip_prefix("//") {
            Some(text) if code.is_empty() => comment.push(format!("//{text}")),
            // A struct has no empty lines, and neither has a prototype.
            _ if !line.is_empty() => code.push(line),
            _ => {
                let comment = paragraphs(std::mem::take(&mut comment).iter().map(String::as_str));
                items.extend(item(&std::mem::take(&mut code), comment)?);
            }
        }
    }
    Ok((prologue, items))
}

/// The item of these lines, unless they are of the preprocessor or the end of a block.
fn item(code: &[&str], comment: Vec<String>) -> Result<Option<Item>, Failure> {
    let Some(first) = code.first() else { return Ok(None) };
    let unknown = || Failure::new(format!("braid.h has a line of an unknown form: {first}"));
    let (name, kind) = if let Some(constant) = first.strip_prefix("#define ") {
        // The guard itself.
        let Some((name, value)) = constant.split_once(' ') else { return Ok(None) };
        (name, Kind::Constant(value.to_owned()))
    } else if first.starts_with('#') || first.starts_with(['}', 'e']) {
        return Ok(None);
    } else if let Some(name) =
        first.strip_prefix("typedef struct ").and_then(|s| s.strip_suffix(" {"))
    {
        (name, Kind::Struct(fields(&code[1..code.len() - 1])))
    } else if let Some(opaque) = first.strip_prefix("typedef struct ") {
        (opaque.split(' ').next().ok_or_else(unknown)?, Kind::Opaque(code.join(" ")))
    } else if let Some((_, name)) = first.strip_prefix("typedef ").and_then(|s| s.split_once("(*"))
    {
        (name.split(')').next().ok_or_else(unknown)?, Kind::Opaque(code.join(" ")))
    } else {
        let (before, _) = first.split_once('(').ok_or_else(unknown)?;
        let name = before.rsplit([' ', '*']).next().ok_or_else(unknown)?;
        (name, Kind::Function(code.iter().map(|line| (*line).to_owned()).collect()))
    };
    Ok(Some(Item { name: name.to_owned(), comment, kind }))
}

/// The fields of a struct from the lines between its braces.
fn fields(lines: &[&str]) -> Vec<(String, Vec<String>)> {
    let (mut fields, mut comment) = (Vec::new(), Vec::new());
    for line in lines.iter().map(|line| line.trim_start()) {
        if line.starts_with("//") {
            comment.push(line);
        } else {
            let declaration = line.trim_end_matches(';').to_owned();
            fields.push((declaration, paragraphs(std::mem::take(&mut comment).into_iter())));
        }
    }
    fields
}

/// The paragraphs of a comment: an empty comment line separates them.
fn paragraphs<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut is_new = true;
    for line in lines.filter_map(|line| line.strip_prefix("//")).map(str::trim) {
        match paragraphs.last_mut() {
            _ if line.is_empty() => is_new = true,
            Some(last) if !is_new => {
                last.push(' ');
                last.push_str(line);
            }
            _ => {
                paragraphs.push(line.to_owned());
                is_new = false;
            }
        }
    }
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\
// About all.
//
// More.

#ifndef BRAID_H
#define BRAID_H

#include <stddef.h>

// Success.
#define BRAID_OK 0

// An engine.
typedef struct braid_engine braid_engine;

// Says
// it.
typedef void (*braid_say)(void *user, int level);

// Memory.
typedef struct braid_sge {
    // The address.
    //
    // In bytes.
    uint64_t addr;
} braid_sge;

#ifdef __cplusplus
extern \"C\" {
#endif // __cplusplus

// Returns a text.
//
// Threads: any.
const char *braid_text(int code,
                       int more);

#ifdef __cplusplus
}  // extern \"C\"
#endif  // __cplusplus

#endif  /* BRAID_H */
";

    #[test]
    fn items_have_their_comments() {
        let (prologue, items) = parts(HEADER).unwrap();
        assert_eq!(prologue, ["About all.", "More."]);
        let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["BRAID_OK", "braid_engine", "braid_say", "braid_sge", "braid_text"]);
        assert_eq!(items[0].kind, Kind::Constant("0".to_owned()));
        assert_eq!(items[2].comment, ["Says it."]);
        let fields = vec!["The address.".to_owned(), "In bytes.".to_owned()];
        assert_eq!(items[3].kind, Kind::Struct(vec![("uint64_t addr".to_owned(), fields)]));
        assert_eq!(items[4].comment, ["Returns a text.", "Threads: any."]);
        assert!(items[4].is_function() && !items[2].is_function());
    }

    #[test]
    fn an_unknown_form_is_an_error() {
        let header = HEADER.replace("typedef struct braid_engine", "static int braid_engine");
        assert!(parts(&header).unwrap_err().to_string().contains("static int braid_engine"));
    }
}
