//! Text in columns.

/// Words to the left, figures to the right: the first `words` columns hold words. A column has its heading first, and all are
/// of one length.
pub(crate) fn aligned(columns: &[Vec<String>], words: usize) -> Vec<String> {
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let line = |row: usize| {
        let cell = |(index, column): (usize, &Vec<String>)| {
            let width = column.iter().map(|text| text.chars().count()).max().unwrap_or(0);
            let text = &column[row];
            if index < words { format!("{text:<width$}") } else { format!("{text:>width$}") }
        };
        columns.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ")
    };
    (0..rows).map(|row| line(row).trim_end().to_owned()).collect()
}

/// The same as a table in Markdown.
pub(crate) fn markdown(columns: &[Vec<String>], words: usize) -> Vec<String> {
    let line = |cells: Vec<&str>| format!("| {} |", cells.join(" | "));
    let row = |row: usize| line(columns.iter().map(|column| column[row].as_str()).collect());
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let rule = (0..columns.len()).map(|index| if index < words { "---" } else { "---:" }).collect();
    let mut lines: Vec<String> = (0..rows).map(row).collect();
    lines.insert(rows.min(1), line(rule));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Vec<String>> {
        let column = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        vec![column(["who", "a", "longer"]), column(["Mbit/s", "5", "µs"])]
    }

    #[test]
    fn words_stand_left_and_figures_right() {
        assert_eq!(aligned(&columns(), 1), ["who     Mbit/s", "a            5", "longer      µs"]);
    }

    #[test]
    fn the_rule_of_a_markdown_table_follows_its_heading() {
        let lines = markdown(&columns(), 1);
        assert_eq!(lines[..3], ["| who | Mbit/s |", "| --- | ---: |", "| a | 5 |"]);
        assert_eq!(lines.len(), 4);
    }
}
