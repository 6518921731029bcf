//! Parser of connection-matrix files, line by line.

use std::collections::HashMap;
use std::str::SplitWhitespace;

use super::super::message::{MAX_MESSAGE, MAX_MESSAGES};
use super::Matrix;
use super::connection::{Connection, Firing, Located};
use super::error::{LATEST, Problem};
use super::order::workload;
use crate::time::Ps;

#[derive(Default)]
struct Parser {
    nodes: Option<u32>,
    /// The declared count, with its line.
    connections_declared: Option<(usize, u32)>,
    triggers_declared: Option<(usize, u32)>,
    connections: Vec<Connection>,
    /// The line of each id.
    ids: HashMap<u32, usize>,
    triggers: HashMap<u32, Firing>,
}

pub(super) fn parse(text: &str) -> Result<Matrix, Located> {
    let mut reader = Parser::default();
    let mut last = 1;
    for (line, content) in (1..).zip(text.lines()) {
        reader.line(line, content).map_err(|problem| (line, problem))?;
        last = line;
    }
    reader.finish(last)
}

impl Parser {
    fn line(&mut self, line: usize, content: &str) -> Result<(), Problem> {
        let mut words = Words(content.split_whitespace());
        let Some(first) = words.0.next().filter(|word| !word.starts_with('#')) else {
            return Ok(());
        };
        match first {
            "Nodes" => once(&mut self.nodes, "Nodes", words.only("Nodes")?),
            "Connections" => {
                let count = words.only("Connections")?;
                once(&mut self.connections_declared, "Connections", (line, count))
            }
            "Triggers" => {
                let count = words.only("Triggers")?;
                once(&mut self.triggers_declared, "Triggers", (line, count))
            }
            "Failures" if words.only("Failures")? == 0 => Ok(()),
            "Failures" | "failure" => Err(Problem::Unsupported {
                what: "failure",
                remedy: "describe failures in the scenario",
            }),
            "trigger" => self.trigger(words),
            _ => match first.split_once("->") {
                Some((src, dst)) => self.connection(line, src, dst, words),
                None => Err(Problem::Line { word: quoted(first) }),
            },
        }
    }

    fn trigger(&mut self, mut words: Words<'_>) -> Result<(), Problem> {
        let (mut id, mut count, mut kind) = (None, None, None);
        while let Some(word) = words.0.next() {
            match word {
                "id" => once(&mut id, "id", words.number("id", 1, u32::MAX)?)?,
                "count" => once(&mut count, "count", words.number("count", 1, u32::MAX)?)?,
                "oneshot" | "multishot" => once(&mut kind, "type", false)?,
                "barrier" => once(&mut kind, "type", true)?,
                _ => {
                    let accepted = "`id N` and `oneshot`, `multishot` or `barrier count K`";
                    return Err(Problem::Word { word: quoted(word), accepted });
                }
            }
        }
        let missing = |key| Problem::Missing { key, place: "in this line" };
        let id = id.ok_or(missing("id"))?;
        let firing = match kind.ok_or(missing("oneshot"))? {
            true => Firing::Barrier(count.ok_or(missing("count"))?),
            false => Firing::Any,
        };
        match self.triggers.insert(id, firing) {
            Some(_) => Err(Problem::Twice { key: "trigger" }),
            None => Ok(()),
        }
    }

    fn connection(
        &mut self,
        line: usize,
        src: &str,
        dst: &str,
        words: Words<'_>,
    ) -> Result<(), Problem> {
        let before = |key| Problem::Missing { key, place: "before the first connection" };
        let nodes = self.nodes.ok_or(before("Nodes"))?;
        self.connections_declared.ok_or(before("Connections"))?;
        if self.connections.len() as u64 == MAX_MESSAGES {
            return Err(Problem::TooMany);
        }
        let [src, dst] = [("src", src), ("dst", dst)].map(|(key, word)| {
            let node = number(key, word, 0, u32::MAX)?;
            if node < nodes { Ok(node) } else { Err(Problem::NoSuchNode { node, nodes }) }
        });
        let (src, dst) = (src?, dst?);
        if src == dst {
            return Err(Problem::ToItself { node: src });
        }
        let connection =
            words.attributes(Connection { line, src, dst, ..Connection::default() })?;
        if connection.id != 0
            && let Some(first) = self.ids.insert(connection.id, line)
        {
            return Err(Problem::SameId { id: connection.id, first });
        }
        self.connections.push(connection);
        Ok(())
    }

    fn finish(self, last: usize) -> Result<Matrix, Located> {
        let missing = |key| (last, Problem::Missing { key, place: "in the first lines" });
        let nodes = self.nodes.ok_or(missing("Nodes"))?;
        let connections = self.connections_declared.ok_or(missing("Connections"))?;
        agree("Connections", connections, self.connections.len())?;
        // Files without triggers have no `Triggers` line.
        let triggers = self.triggers_declared.unwrap_or((last, 0));
        agree("Triggers", triggers, self.triggers.len())?;
        Ok(Matrix { nodes, workload: workload(&self.connections, &self.triggers)? })
    }
}

fn agree(key: &'static str, (line, declared): (usize, u32), found: usize) -> Result<(), Located> {
    match declared as usize == found {
        true => Ok(()),
        false => Err((line, Problem::Count { key, declared, found })),
    }
}

/// The remaining words of a line.
struct Words<'a>(SplitWhitespace<'a>);

impl Words<'_> {
    /// Parses the attributes of a connection, after its nodes.
    fn attributes(mut self, mut connection: Connection) -> Result<Connection, Problem> {
        let (mut bytes, mut id) = (None, None);
        let [send_done, recv_done] = &mut connection.fires;
        while let Some(word) = self.0.next() {
            match word {
                "start" => once(&mut connection.start, "start", self.time("start")?)?,
                "size" => once(&mut bytes, "size", self.size("size")?)?,
                "id" => once(&mut id, "id", self.trigger_or_id("id")?)?,
                "trigger" => {
                    once(&mut connection.waits, "trigger", self.trigger_or_id("trigger")?)?;
                }
                "send_done_trigger" => {
                    let trigger = self.trigger_or_id("send_done_trigger")?;
                    once(send_done, "send_done_trigger", trigger)?;
                }
                "recv_done_trigger" => {
                    let trigger = self.trigger_or_id("recv_done_trigger")?;
                    once(recv_done, "recv_done_trigger", trigger)?;
                }
                "prio" => {
                    let remedy = "remove it, connections are equal";
                    return Err(Problem::Unsupported { what: "prio", remedy });
                }
                _ => {
                    let accepted = "`start T` or `trigger N`, `size S`, and if needed `id I`, \
                                    `send_done_trigger N`, `recv_done_trigger N`";
                    return Err(Problem::Word { word: quoted(word), accepted });
                }
            }
        }
        let missing = |key| Problem::Missing { key, place: "in this line" };
        connection.bytes = bytes.ok_or(missing("size"))?;
        connection.id = id.unwrap_or(0);
        match (connection.start, connection.waits) {
            (None, None) => Err(missing("start")),
            (Some(_), Some(_)) => Err(Problem::TwoStarts),
            _ => Ok(connection),
        }
    }

    fn next(&mut self, key: &'static str) -> Result<&str, Problem> {
        self.0.next().ok_or(Problem::NoValue { key })
    }

    fn number(&mut self, key: &'static str, least: u32, most: u32) -> Result<u32, Problem> {
        number(key, self.next(key)?, least, most)
    }

    fn trigger_or_id(&mut self, key: &'static str) -> Result<u32, Problem> {
        self.number(key, 1, u32::MAX)
    }

    /// Parses the only number of the line.
    fn only(&mut self, key: &'static str) -> Result<u32, Problem> {
        let number = self.number(key, 0, u32::MAX)?;
        match self.0.next() {
            Some(word) => Err(Problem::Word { word: quoted(word), accepted: "one number" }),
            None => Ok(number),
        }
    }

    fn size(&mut self, key: &'static str) -> Result<u64, Problem> {
        let word = self.next(key)?;
        match word.parse() {
            Ok(0) => Err(Problem::Endless),
            Ok(bytes @ 1..=MAX_MESSAGE) => Ok(bytes),
            _ => Err(Problem::Number { key, value: quoted(word), least: 1, most: MAX_MESSAGE }),
        }
    }

    /// Parses whole picoseconds; other programs write `0.000000` too.
    fn time(&mut self, key: &'static str) -> Result<Ps, Problem> {
        let word = self.next(key)?;
        match word.parse::<f64>() {
            // An f64 is exact up to an hour.
            Ok(ps) if (0.0..=LATEST as f64).contains(&ps) => Ok(Ps(ps as u64)),
            _ => Err(Problem::Number { key, value: quoted(word), least: 0, most: LATEST }),
        }
    }
}

fn number(key: &'static str, word: &str, least: u32, most: u32) -> Result<u32, Problem> {
    match word.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(Problem::Number {
            key,
            value: quoted(word),
            least: least.into(),
            most: most.into(),
        }),
    }
}

fn once<T>(place: &mut Option<T>, key: &'static str, value: T) -> Result<(), Problem> {
    match place.replace(value) {
        Some(_) => Err(Problem::Twice { key }),
        None => Ok(()),
    }
}

/// Formats a word of the file for an error: printable and not too long.
fn quoted(word: &str) -> String {
    const LONGEST: usize = 40;
    let shown: String = word.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    let cut = if word.chars().nth(LONGEST).is_some() { ".." } else { "" };
    shown + cut
}
