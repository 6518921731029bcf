//! The programs that a page of the documentation consists of.

/// The C of a page: a piece of it that begins with `#include` begins a program, to which the pieces
/// after it belong.
pub(super) fn programs(page: &str) -> Vec<String> {
    let mut programs: Vec<String> = Vec::new();
    for piece in pieces(page) {
        match programs.last_mut() {
            Some(program) if !piece.starts_with("#include") => {
                program.push('\n');
                program.push_str(&piece);
            }
            _ => programs.push(piece),
        }
    }
    programs
}

/// Returns the C code blocks of a page.
fn pieces(page: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut lines = page.lines();
    while lines.any(|line| line == "```c") {
        let piece: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        pieces.push(piece.join("\n") + "\n");
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_belong_to_the_program_that_was_begun_last() {
        let page = "text\n```c\n#include <a.h>\nint a;\n```\n```sh\nls\n```\n```c\nint b;\n```\n```c\n#include <c.h>\n```\n";
        assert_eq!(programs(page), ["#include <a.h>\nint a;\n\nint b;\n", "#include <c.h>\n"]);
    }
}
