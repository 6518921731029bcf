//! Pages in the language of man(7).

use super::header::{Item, Kind};
use super::pages::Page;

/// The text of the page of a group.
pub(super) fn page(page: &Page<'_>, version: &str) -> String {
    let names: Vec<&str> = page.functions().map(|function| function.name.as_str()).collect();
    let mut text = head(page.name, &names.join(", "), page.summary, version);
    text.push_str(".SH LIBRARY\nBraid (\\fI\\-lbraid\\fR)\n");
    text.push_str(".SH SYNOPSIS\n.nf\n.B #include <braid.h>\n");
    for function in page.functions() {
        if let Kind::Function(lines) = &function.kind {
            text.push_str(".sp\n");
            lines.iter().for_each(|line| text.push_str(&bold(line)));
        }
    }
    text.push_str(".fi\n.SH DESCRIPTION\n");
    for function in page.functions() {
        text.push_str(&format!(".SS {}()\n", function.name));
        text.push_str(&paragraphs(&function.comment));
    }
    section(&mut text, "TYPES", page, |item| {
        matches!(item.kind, Kind::Opaque(_) | Kind::Struct(_))
    });
    section(&mut text, "CONSTANTS", page, |item| matches!(item.kind, Kind::Constant(_)));
    text.push_str(".SH RETURN VALUE\n");
    text.push_str(&paragraphs(&[
        "Functions that return an int return 0 or a count, or a negative BRAID_ERR_*. \
         braid_last_error says which argument or value was wrong, and what to do."
            .to_owned(),
    ]));
    text.push_str(".SH SEE ALSO\n.BR braid (3)\n");
    text
}

/// The text of the page about all functions.
pub(super) fn overview(
    name: &str,
    prologue: &[String],
    pages: &[Page<'_>],
    version: &str,
) -> String {
    let mut text = head(name, name, "a userspace RDMA transport", version);
    text.push_str(".SH LIBRARY\nBraid (\\fI\\-lbraid\\fR)\n");
    text.push_str(".SH SYNOPSIS\n.nf\n.B #include <braid.h>\n.sp\n");
    text.push_str(&bold("cc program.c $(pkg-config --cflags --libs braid)"));
    text.push_str(".fi\n.SH DESCRIPTION\n");
    // Notes on how the header is made are of no use here.
    let rules: Vec<String> =
        prologue.iter().filter(|rule| !rule.starts_with("Generated from")).cloned().collect();
    text.push_str(&paragraphs(&rules));
    text.push_str(".SH PAGES\n");
    for page in pages {
        text.push_str(&format!(".TP\n.BR {} (3)\n{}\n", page.name, escaped(page.summary)));
    }
    text.push_str(
        ".SH SEE ALSO\n.BR braid\\-perf (1),\n.BR braid\\-run (1),\n.BR braid\\-sim (1)\n",
    );
    text
}

fn head(name: &str, names: &str, summary: &str, version: &str) -> String {
    let title = name.to_uppercase();
    let summary = escaped(summary);
    format!(
        ".\\\" Generated from braid.h by cargo xtask install.\n\
         .TH {title} 3 \"\" \"Braid {version}\" \"Braid C API\"\n\
         .SH NAME\n{names} \\- {summary}\n"
    )
}

/// The items of a kind with their comments, if there are any.
fn section(text: &mut String, title: &str, page: &Page<'_>, is_wanted: fn(&Item) -> bool) {
    let mut items = page.items.iter().filter(|item| is_wanted(item)).peekable();
    if items.peek().is_none() {
        return;
    }
    text.push_str(&format!(".SH {title}\n"));
    for item in items {
        match &item.kind {
            Kind::Constant(value) => {
                text.push_str(&format!(".TP\n{}", bold(&format!("{} {value}", item.name))));
                text.push_str(&paragraphs(&item.comment).replacen(".PP\n", "", 1));
            }
            Kind::Opaque(declaration) => {
                text.push_str(&format!(".SS {}\n{}", item.name, bold(declaration)));
                text.push_str(&paragraphs(&item.comment));
            }
            Kind::Struct(fields) => {
                text.push_str(&format!(".SS struct {}\n", item.name));
                text.push_str(&paragraphs(&item.comment));
                for (declaration, comment) in fields {
                    text.push_str(&format!(".TP\n{}", bold(declaration)));
                    // A further paragraph keeps the indentation of the field.
                    let comment = paragraphs(comment).replacen(".PP\n", "", 1);
                    text.push_str(&comment.replace(".PP\n", ".IP\n"));
                }
            }
            Kind::Function(_) => {}
        }
    }
}

/// A line in bold.
fn bold(line: &str) -> String {
    format!("\\fB{}\\fR\n", escaped(line))
}

/// Paragraphs of prose. Words in backquotes are in italics, names of the API in bold.
fn paragraphs(paragraphs: &[String]) -> String {
    paragraphs.iter().map(|paragraph| format!(".PP\n{}\n", prose(paragraph))).collect()
}

fn prose(paragraph: &str) -> String {
    let mut text = String::new();
    for (at, part) in paragraph.split('`').enumerate() {
        match at % 2 {
            1 => text.push_str(&format!("\\fI{}\\fR", escaped(part))),
            _ => text.push_str(&names_in_bold(part)),
        }
    }
    // A line that begins with one of these is a request.
    if text.starts_with(['.', '\'']) {
        text.insert_str(0, "\\&");
    }
    text
}

fn names_in_bold(text: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '*';
    let mut result = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        match word.starts_with("braid_") || word.starts_with("BRAID_") {
            true => result.push_str(&format!("\\fB{word}\\fR")),
            false => result.push_str(word),
        }
        let next = behind.find(is_of_name).unwrap_or(behind.len());
        let (between, after) = behind.split_at(next);
        result.push_str(&escaped(between));
        rest = after;
    }
    result
}

/// A text without the characters that have a meaning in roff. A hyphen is printed as one that can
/// be copied.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('~', "\\(ti").replace('^', "\\(ha")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_marks_names_and_is_no_request() {
        let text = prose("See braid_cq_poll, `max` or BRAID_ERR_*: 1-2 \\.");
        let expected = "See \\fBbraid_cq_poll\\fR, \\fImax\\fR or \\fBBRAID_ERR_*\\fR: 1\\-2 \\e.";
        assert_eq!(text, expected);
        assert_eq!(prose(".so x"), "\\&.so x");
    }

    #[test]
    fn a_page_has_the_prototype_and_the_comment() {
        let function = Item {
            name: "braid_cq_fd".to_owned(),
            comment: vec!["Returns it.".to_owned(), "Threads: any.".to_owned()],
            kind: Kind::Function(vec!["int braid_cq_fd(void);".to_owned()]),
        };
        let items = vec![&function];
        let text = super::page(&Page { name: "braid_cq", summary: "queues", items }, "1.2.3");
        for part in [
            ".TH BRAID_CQ 3 \"\" \"Braid 1.2.3\"",
            "braid_cq_fd \\- queues\n",
            "\\fBint braid_cq_fd(void);\\fR\n.fi\n",
            ".SS braid_cq_fd()\n.PP\nReturns it.\n.PP\nThreads: any.\n",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("CONSTANTS"));
    }
}
