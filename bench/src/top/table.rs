//! A view as tables for people, in two widths.

use std::fmt::Write;

use super::rates::{Engine, Path, QpDegradation, QueuePair, Rail, View};

/// Columns of a terminal that has room for the wide tables.
const WIDE: usize = 100;
/// Indentation of the lines below a queue pair.
const INDENT: &str = "         ";

/// The form of the tables.
#[derive(Clone, Copy)]
pub(super) struct Format {
    /// Columns that a line may take. Narrower than [`WIDE`]: some columns are left out.
    pub(super) width: usize,
    /// Queue pairs and paths that are shown: the busiest.
    pub(super) most: usize,
}

impl Format {
    /// For a pipe or a file.
    pub(super) const PRINTED: Format = Format { width: WIDE, most: 20 };

    fn is_narrow(self) -> bool {
        self.width < WIDE
    }
}

/// A column with its widths.
struct TopColumn {
    title: &'static str,
    wide: usize,
    /// The title and the width in narrow tables. A width of 0 leaves the column out.
    narrow: (&'static str, usize),
}

const fn column(title: &'static str, wide: usize, narrow: usize) -> TopColumn {
    TopColumn { title, wide, narrow: (title, narrow) }
}

const fn renamed(title: &'static str, wide: usize, narrow: (&'static str, usize)) -> TopColumn {
    TopColumn { title, wide, narrow }
}

/// The first columns of a table hold text, which begins at the left.
struct Columns {
    texts: usize,
    all: &'static [TopColumn],
}

const ENGINES: Columns = Columns {
    texts: 1,
    all: &[
        column("ENGINE", 26, 21),
        column("UP s", 9, 8),
        column("QPs", 6, 5),
        column("TX pkt/s", 11, 9),
        column("RX pkt/s", 11, 9),
        column("FULL/s", 9, 7),
        renamed("OVERFL/s", 9, ("OVFL/s", 6)),
        renamed("DAMAGED/s", 9, ("DMGD/s", 6)),
    ],
};

const QUEUE_PAIRS: Columns = Columns {
    texts: 3,
    all: &[
        column("QP", 8, 8),
        column("PEER", 21, 21),
        column("STATE", 5, 5),
        column("TX Gb/s", 7, 7),
        column("RX Gb/s", 7, 7),
        column("RTT us", 8, 7),
        column("WINDOW", 8, 0),
        column("FLIGHT", 8, 0),
        column("LOST/s", 6, 6),
        column("RETX/s", 6, 6),
        column("TMO/s", 5, 5),
    ],
};

const RAILS: Columns = Columns {
    texts: 1,
    all: &[
        column("ENGINE", 26, 21),
        column("RAIL", 4, 4),
        column("PATHS", 9, 9),
        column("RTT us", 8, 8),
        column("WINDOW", 9, 7),
        column("FLIGHT", 9, 7),
        column("pkt/s", 11, 9),
        column("LOST/s", 8, 6),
    ],
};

const PATHS: Columns = Columns {
    texts: 1,
    all: &[
        column("TO", 26, 21),
        column("RAIL", 4, 4),
        column("PATH", 5, 5),
        column("STATE", 5, 5),
        column("RTT us", 8, 8),
        column("pkt/s", 11, 9),
        column("LOST/s", 8, 6),
        renamed("MARKED/s", 9, ("MARK/s", 6)),
        column("DOWNS", 6, 6),
    ],
};

/// Lines under construction.
struct Lines {
    out: String,
    format: Format,
}

/// All tables, as lines of at most the width.
pub(super) fn of(view: &View, format: Format) -> String {
    let mut lines = Lines { out: String::new(), format };
    engines(&mut lines, &view.engines);
    lines.out.push('\n');
    queue_pairs(&mut lines, &view.queue_pairs);
    lines.out.push('\n');
    rails(&mut lines, &view.rails);
    lines.out.push('\n');
    paths(&mut lines, &view.paths);
    lines.out
}

impl Lines {
    fn titles(&mut self, columns: &Columns) {
        let is_narrow = self.format.is_narrow();
        let title = |column: &TopColumn| if is_narrow { column.narrow.0 } else { column.title };
        self.row(columns, columns.all.iter().map(|column| title(column).to_owned()));
    }

    fn row(&mut self, columns: &Columns, cells: impl IntoIterator<Item = String>) {
        let is_narrow = self.format.is_narrow();
        let mut line = String::new();
        for (index, (column, cell)) in columns.all.iter().zip(cells).enumerate() {
            let width = if is_narrow { column.narrow.1 } else { column.wide };
            if width == 0 {
                continue;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            // Writing to a string cannot fail.
            let _ = match index < columns.texts {
                true => write!(line, "{:<width$}", end_of(&cell, width)),
                false => write!(line, "{cell:>width$}"),
            };
        }
        self.out += line.trim_end();
        self.out.push('\n');
    }

    /// Adds a text below a row, in as many lines as it needs.
    fn below(&mut self, text: &str) {
        let mut line = INDENT.to_owned();
        for word in text.split(' ') {
            let is_first = line == INDENT;
            let more = word.chars().count() + usize::from(!is_first);
            if !is_first && line.chars().count() + more > self.format.width {
                self.out += &line;
                self.out.push('\n');
                line.replace_range(.., INDENT);
                line += "  ";
            } else if !is_first {
                line.push(' ');
            }
            line += word;
        }
        self.out += &line;
        self.out.push('\n');
    }

    fn more(&mut self, all: usize, what: &str) {
        if let hidden @ 1.. = all.saturating_sub(self.format.most) {
            self.out += &format!("and {hidden} more {what}\n");
        }
    }
}

/// The end of a text that is too long: the end of an address tells more than its beginning.
fn end_of(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return text.to_owned();
    }
    let end = text.chars().skip(len - width.saturating_sub(2));
    "..".chars().chain(end).collect()
}

fn engines(lines: &mut Lines, all: &[Engine]) {
    lines.titles(&ENGINES);
    for of in all {
        lines.row(
            &ENGINES,
            [
                of.engine.clone(),
                format!("{:.1}", of.uptime_seconds),
                of.queue_pairs.to_string(),
                count(of.datagrams_sent_per_second),
                count(of.datagrams_received_per_second),
                count(of.link_full_per_second),
                count(of.overflowed_per_second),
                count(of.damaged_per_second),
            ],
        );
    }
}

fn queue_pairs(lines: &mut Lines, all: &[QueuePair]) {
    lines.titles(&QUEUE_PAIRS);
    for of in all.iter().take(lines.format.most) {
        lines.row(
            &QUEUE_PAIRS,
            [
                of.qp.clone(),
                of.peer.clone(),
                of.state.clone(),
                format!("{:.3}", of.sent_gbps),
                format!("{:.3}", of.received_gbps),
                micros(of.rtt_us),
                bytes(of.window_bytes),
                bytes(of.in_flight_bytes),
                count(of.lost_per_second),
                count(of.retransmitted_per_second),
                count(of.timeouts_per_second),
            ],
        );
        if !of.error.is_empty() {
            lines.below(&of.error);
        }
        let (marks, cnps) = (of.marks_received_per_second, of.cnps_received_per_second);
        if marks + cnps > 0.0 {
            lines.below(&format!(
                "RoCEv2, per second: {} marks and {} CNPs received, {} CNPs sent",
                count(marks),
                count(cnps),
                count(of.cnps_sent_per_second)
            ));
        }
        for QpDegradation { name, why, .. } in &of.degradations {
            lines.below(&format!("degraded: {name}: {why}"));
        }
    }
    lines.more(all.len(), "queue pairs");
}

fn rails(lines: &mut Lines, all: &[Rail]) {
    lines.titles(&RAILS);
    for of in all {
        lines.row(
            &RAILS,
            [
                of.engine.clone(),
                of.rail.clone(),
                format!("{} of {}", of.live_paths, of.paths),
                micros(of.rtt_us),
                bytes(of.window_bytes),
                bytes(of.in_flight_bytes),
                count(of.packets_per_second),
                count(of.lost_per_second),
            ],
        );
    }
}

fn paths(lines: &mut Lines, all: &[Path]) {
    lines.titles(&PATHS);
    // Among idle paths, only those that are down are shown.
    let idle = |path: &&Path| path.packets_per_second == 0.0 && path.live;
    let shown: Vec<&Path> = all.iter().filter(|path| !idle(path)).collect();
    for of in shown.iter().take(lines.format.most) {
        lines.row(
            &PATHS,
            [
                of.to.clone(),
                of.rail.clone(),
                of.path.clone(),
                if of.live { "live" } else { "down" }.to_owned(),
                micros(of.rtt_us),
                count(of.packets_per_second),
                count(of.lost_per_second),
                count(of.marked_per_second),
                of.downs.to_string(),
            ],
        );
    }
    lines.more(shown.len(), "paths");
    if let idle @ 1.. = all.len() - shown.len() {
        lines.out += &format!("{idle} idle paths\n");
    }
}

fn count(value: f64) -> String {
    match value {
        value if value >= 1e7 => format!("{:.1}M", value / 1e6),
        value if value > 0.0 && value < 10.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

fn micros(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(micros) if micros >= 1e5 => format!("{:.0}ms", micros / 1e3),
        Some(micros) => format!("{micros:.1}"),
    }
}

fn bytes(value: u64) -> String {
    match value {
        value if value >= 10 << 20 => format!("{}M", value >> 20),
        value if value >= 10 << 10 => format!("{}K", value >> 10),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        let degraded = || QpDegradation {
            name: "paths-blocked".into(),
            rail: "0".into(),
            why: "one of the firewalls on the way lets only one of the 16 source ports pass".into(),
        };
        let qp = |peer: &str| QueuePair {
            qp: "0xffffff".into(),
            peer: peer.into(),
            state: "RESET".into(),
            sent_gbps: 123.456,
            rtt_us: Some(12345.6),
            window_bytes: 4 << 20,
            marks_received_per_second: 54.3,
            degradations: vec![degraded()],
            ..QueuePair::default()
        };
        let engine = "[2001:db8::1234:5678:9abc]:4791".into();
        let path = Path { to: "10.0.0.1".into(), packets_per_second: 1e6, ..Path::default() };
        View {
            engines: vec![Engine { engine, ..Engine::default() }],
            queue_pairs: vec![qp("255.255.255.255:65535"), qp("[fe80::1234:5678:9abc:def0]:65535")],
            rails: vec![Rail::default()],
            paths: vec![path],
        }
    }

    #[test]
    fn every_line_fits_and_nothing_is_lost() {
        for width in [80, 100, 200] {
            let text = of(&view(), Format { width, most: 20 });
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{line}");
            }
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let why = "lets only one of the 16 source ports pass";
            let marks = "RoCEv2, per second: 54 marks and 0 CNPs received, 0 CNPs sent";
            let [peer, other] = ["255.255.255.255:65535", ":def0]:65535"];
            for wanted in [peer, other, "123.456", "12345.6", marks, why] {
                assert!(words.contains(wanted), "{width}: no {wanted}: {text}");
            }
            assert_eq!(text.matches("WINDOW").count(), if width < 100 { 1 } else { 2 }, "{text}");
        }
    }

    #[test]
    fn the_number_of_rows_is_limited() {
        let text = of(&view(), Format { width: 80, most: 1 });
        assert!(text.contains("and 1 more queue pairs"), "{text}");
    }
}
