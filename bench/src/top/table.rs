//! A view as tables for people, a hundred columns wide.

use std::fmt::Write;

use super::rates::{Engine, Path, QpDegradation, QueuePair, Rail, View};

/// Queue pairs and paths that are shown: the busiest.
const MOST: usize = 20;

/// All of it.
pub(super) fn of(view: &View) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = engines(&mut out, &view.engines)
        .and_then(|()| queue_pairs(&mut out, &view.queue_pairs))
        .and_then(|()| rails(&mut out, &view.rails))
        .and_then(|()| paths(&mut out, &view.paths));
    out
}

fn engines(out: &mut String, all: &[Engine]) -> std::fmt::Result {
    writeln!(
        out,
        "{:<26} {:>9} {:>6} {:>11} {:>11} {:>9} {:>9} {:>9}",
        "ENGINE", "UP s", "QPs", "TX pkt/s", "RX pkt/s", "FULL/s", "OVERFL/s", "DAMAGED/s"
    )?;
    for of in all {
        writeln!(
            out,
            "{:<26} {:>9.1} {:>6} {:>11} {:>11} {:>9} {:>9} {:>9}",
            of.engine,
            of.uptime_seconds,
            of.queue_pairs,
            count(of.datagrams_sent_per_second),
            count(of.datagrams_received_per_second),
            count(of.link_full_per_second),
            count(of.overflowed_per_second),
            count(of.damaged_per_second),
        )?;
    }
    Ok(())
}

fn queue_pairs(out: &mut String, all: &[QueuePair]) -> std::fmt::Result {
    writeln!(
        out,
        "\n{:<8} {:<21} {:<5} {:>7} {:>7} {:>8} {:>8} {:>8} {:>6} {:>6} {:>5}",
        "QP",
        "PEER",
        "STATE",
        "TX Gb/s",
        "RX Gb/s",
        "RTT us",
        "WINDOW",
        "FLIGHT",
        "LOST/s",
        "RETX/s",
        "TMO/s"
    )?;
    for of in all.iter().take(MOST) {
        writeln!(
            out,
            "{:<8} {:<21} {:<5} {:>7.3} {:>7.3} {:>8} {:>8} {:>8} {:>6} {:>6} {:>5}",
            of.qp,
            of.peer,
            of.state,
            of.sent_gbps,
            of.received_gbps,
            micros(of.rtt_us),
            bytes(of.window_bytes),
            bytes(of.in_flight_bytes),
            count(of.lost_per_second),
            count(of.retransmitted_per_second),
            count(of.timeouts_per_second),
        )?;
        if !of.error.is_empty() {
            writeln!(out, "         {}", of.error)?;
        }
        for QpDegradation { name, why, .. } in &of.degradations {
            writeln!(out, "         degraded: {name}: {why}")?;
        }
    }
    more(out, all.len(), "queue pairs")
}

fn rails(out: &mut String, all: &[Rail]) -> std::fmt::Result {
    writeln!(
        out,
        "\n{:<26} {:>4} {:>9} {:>8} {:>9} {:>9} {:>11} {:>8}",
        "ENGINE", "RAIL", "PATHS", "RTT us", "WINDOW", "FLIGHT", "pkt/s", "LOST/s"
    )?;
    for of in all {
        writeln!(
            out,
            "{:<26} {:>4} {:>9} {:>8} {:>9} {:>9} {:>11} {:>8}",
            of.engine,
            of.rail,
            format!("{} of {}", of.live_paths, of.paths),
            micros(of.rtt_us),
            bytes(of.window_bytes),
            bytes(of.in_flight_bytes),
            count(of.packets_per_second),
            count(of.lost_per_second),
        )?;
    }
    Ok(())
}

fn paths(out: &mut String, all: &[Path]) -> std::fmt::Result {
    writeln!(
        out,
        "\n{:<26} {:>4} {:>5} {:<5} {:>8} {:>11} {:>8} {:>9} {:>6}",
        "TO", "RAIL", "PATH", "STATE", "RTT us", "pkt/s", "LOST/s", "MARKED/s", "DOWNS"
    )?;
    // Among idle paths, only those that are down are shown.
    let idle = |path: &&Path| path.packets_per_second == 0.0 && path.live;
    let shown: Vec<&Path> = all.iter().filter(|path| !idle(path)).collect();
    for of in shown.iter().take(MOST) {
        writeln!(
            out,
            "{:<26} {:>4} {:>5} {:<5} {:>8} {:>11} {:>8} {:>9} {:>6}",
            of.to,
            of.rail,
            of.path,
            if of.live { "live" } else { "down" },
            micros(of.rtt_us),
            count(of.packets_per_second),
            count(of.lost_per_second),
            count(of.marked_per_second),
            of.downs,
        )?;
    }
    more(out, shown.len(), "paths")?;
    match all.len() - shown.len() {
        0 => Ok(()),
        idle => writeln!(out, "{idle} idle paths"),
    }
}

fn more(out: &mut String, all: usize, what: &str) -> std::fmt::Result {
    match all.saturating_sub(MOST) {
        0 => Ok(()),
        hidden => writeln!(out, "and {hidden} more {what}"),
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
    value.map_or("-".to_owned(), |micros| format!("{micros:.1}"))
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

    #[test]
    fn every_line_fits() {
        let qp = QueuePair {
            qp: "0xffffff".into(),
            peer: "255.255.255.255:65535".into(),
            state: "RESET".into(),
            sent_gbps: 123.456,
            rtt_us: Some(12345.6),
            window_bytes: 4 << 20,
            ..QueuePair::default()
        };
        let path = Path { to: "10.0.0.1".into(), packets_per_second: 1e6, ..Path::default() };
        let (engines, rails) = (vec![Engine::default()], vec![Rail::default()]);
        let view = View { engines, queue_pairs: vec![qp], rails, paths: vec![path] };
        for line in of(&view).lines() {
            assert!(line.len() <= 100, "{} columns: {line}", line.len());
        }
    }
}
