//! Tables: columns of words to the left, columns of figures to the right.

/// Space between two columns.
const GAP: &str = "  ";

/// The widths of a table's columns, for rows that are printed one by one.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The number of columns of words, which come first and stand left.
    pub words: usize,
    /// The width of each column, in characters.
    pub widths: &'a [usize],
}

impl Columns<'_> {
    /// A row. A wider cell moves those after it.
    #[must_use]
    pub fn row<T: AsRef<str>>(&self, cells: &[T]) -> String {
        let cell = |(index, cell): (usize, &T)| {
            let (text, width) = (cell.as_ref(), self.widths.get(index).copied().unwrap_or(0));
            if index < self.words { format!("{text:<width$}") } else { format!("{text:>width$}") }
        };
        let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
        cells.join(GAP).trim_end().to_owned()
    }
}

/// The lines of a table whose columns are as wide as their widest cell. The first row is the
/// heading, and all rows have the same number of cells.
#[must_use]
pub fn aligned(rows: &[Vec<String>], words: usize) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let columns = Columns { words, widths: &widths };
    rows.iter().map(|row| columns.row(row)).collect()
}

/// The lines of the same table in Markdown.
#[must_use]
pub fn markdown(rows: &[Vec<String>], words: usize) -> Vec<String> {
    let mut lines: Vec<String> =
        rows.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let rule: Vec<&str> =
        (0..columns).map(|index| if index < words { "---" } else { "---:" }).collect();
    lines.insert(rows.len().min(1), format!("| {} |", rule.join(" | ")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        vec![row(["who", "Mbit/s"]), row(["a", "5"]), row(["longer", "µs"])]
    }

    #[test]
    fn words_stand_left_and_figures_right() {
        assert_eq!(aligned(&rows(), 1), ["who     Mbit/s", "a            5", "longer      µs"]);
    }

    #[test]
    fn rule_of_markdown_table_follows_heading() {
        let lines = markdown(&rows(), 1);
        assert_eq!(lines[..3], ["| who | Mbit/s |", "| --- | ---: |", "| a | 5 |"]);
        assert_eq!(lines.len(), 4);
    }
}
