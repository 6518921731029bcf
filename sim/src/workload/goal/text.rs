//! TextParser of the text form of a trace, line by line.

use std::collections::HashMap;

use super::error::{GoalError, TraceProblem};
use super::trace::{ANY, Dependency, Operation, OperationKind, Trace};

/// The words that may begin a line in the block of a rank.
const IN_BLOCK: &str = "`send`, `recv`, `calc`, a label with one of them, \
                        `LABEL requires LABEL`, `LABEL irequires LABEL`, or `}`";

#[derive(Default)]
struct TextParser<'a> {
    trace: Option<Trace>,
    /// Whether each rank has a block.
    blocks: Vec<bool>,
    block: Option<Block<'a>>,
}

/// The block of a rank.
struct Block<'a> {
    rank: u32,
    labels: HashMap<&'a str, u32>,
    /// The dependencies, by labels, with their lines.
    dependencies: Vec<(u64, [&'a str; 2], bool)>,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Trace, GoalError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        GoalError::at_line(1 + line as u64, TraceProblem::NotText)
    })?;
    let mut parser = TextParser::default();
    let mut comments = Comments::default();
    let (mut words, mut last) = (Vec::new(), 1);
    for (line, content) in (1..).zip(text.lines()) {
        words.clear();
        comments.strip(line, content, &mut words);
        parser.line(line, &words)?;
        last = line;
    }
    match comments.open {
        Some(line) => Err(GoalError::at_line(line, TraceProblem::OpenComment)),
        None => parser.finish(last),
    }
}

/// Removes comments, `//` to the end of a line and `/* */` over several, and splits lines to words.
#[derive(Default)]
struct Comments {
    /// The line in which an open comment began.
    open: Option<u64>,
}

impl Comments {
    fn strip<'a>(&mut self, line: u64, mut rest: &'a str, words: &mut Vec<&'a str>) {
        loop {
            if self.open.is_some() {
                let Some((_, after)) = rest.split_once("*/") else { return };
                (self.open, rest) = (None, after);
            }
            let (lines, blocks) = (rest.find("//"), rest.find("/*"));
            match (lines, blocks) {
                (Some(at), None) => return split(&rest[..at], words),
                (Some(at), Some(block)) if at < block => return split(&rest[..at], words),
                (_, Some(block)) => {
                    split(&rest[..block], words);
                    (self.open, rest) = (Some(line), &rest[block + 2..]);
                }
                (None, None) => return split(rest, words),
            }
        }
    }
}

/// Splits text at white space. `{`, `}` and `:` are words of their own.
fn split<'a>(text: &'a str, words: &mut Vec<&'a str>) {
    for word in text.split_whitespace() {
        let marks = word.split_inclusive(['{', '}', ':']);
        for part in marks {
            let mark = part.len() - part.ends_with(['{', '}', ':']) as usize;
            words
                .extend([&part[..mark], &part[mark..]].into_iter().filter(|word| !word.is_empty()));
        }
    }
}

impl<'a> TextParser<'a> {
    fn line(&mut self, line: u64, words: &[&'a str]) -> Result<(), GoalError> {
        let mut words = LineWords { words, next: 0 };
        while let Some(word) = words.take() {
            match (word, self.block.take()) {
                ("}", Some(block)) => self.end_block(block)?,
                ("num_ranks", None) => {
                    self.ranks(&mut words).map_err(|problem| GoalError::at_line(line, problem))?;
                }
                ("rank", None) => {
                    let block = self.begin_block(&mut words);
                    self.block = Some(block.map_err(|problem| GoalError::at_line(line, problem))?);
                }
                ("num_ranks" | "rank", Some(block)) => {
                    return Err(GoalError::at_line(
                        line,
                        TraceProblem::OpenBlock { rank: block.rank },
                    ));
                }
                (word, Some(mut block)) => {
                    let trace = self.trace.as_mut().expect("ranks are counted before blocks");
                    let read = block.statement(line, word, &mut words, trace);
                    read.map_err(|problem| GoalError::at_line(line, problem))?;
                    self.block = Some(block);
                }
                (word, None) => {
                    let accepted = "`num_ranks N` or `rank R {`";
                    let problem = TraceProblem::Word { word: quoted(word), accepted };
                    return Err(GoalError::at_line(line, problem));
                }
            }
        }
        Ok(())
    }

    fn ranks(&mut self, words: &mut LineWords<'a, '_>) -> Result<(), TraceProblem> {
        let ranks = words.number("the number of ranks", u32::MAX.into())?;
        let trace = Trace::new(ranks, false)?;
        self.blocks = vec![false; trace.ranks as usize];
        match self.trace.replace(trace) {
            Some(_) => Err(TraceProblem::Twice { key: "num_ranks" }),
            None => Ok(()),
        }
    }

    fn begin_block(&mut self, words: &mut LineWords<'a, '_>) -> Result<Block<'a>, TraceProblem> {
        let ranks = self.trace.as_ref().ok_or(TraceProblem::NoRanks)?.ranks;
        let rank = words.number("a rank", u32::MAX.into())? as u32;
        words.only("{", "`{`")?;
        match self.blocks.get_mut(rank as usize) {
            None => return Err(TraceProblem::NoSuchRank { rank, ranks }),
            Some(true) => return Err(TraceProblem::RankTwice { rank }),
            Some(of) => *of = true,
        }
        Ok(Block { rank, labels: HashMap::new(), dependencies: Vec::new() })
    }

    fn end_block(&mut self, block: Block<'a>) -> Result<(), GoalError> {
        let trace = self.trace.as_mut().expect("ranks are counted before blocks");
        for (line, labels, on_start) in block.dependencies {
            let operation = |label: &str| {
                block.labels.get(label).copied().ok_or_else(|| {
                    let problem =
                        TraceProblem::NoSuchLabel { label: quoted(label), rank: block.rank };
                    GoalError::at_line(line, problem)
                })
            };
            let (waiter, on) = (operation(labels[0])?, operation(labels[1])?);
            let added = trace.depend(Dependency { waiter, on, on_start });
            added.map_err(|problem| GoalError::at_line(line, problem))?;
        }
        Ok(())
    }

    fn finish(self, last: u64) -> Result<Trace, GoalError> {
        if let Some(Block { rank, .. }) = self.block {
            return Err(GoalError::at_line(last, TraceProblem::OpenBlock { rank }));
        }
        let trace = self.trace.ok_or(GoalError::at_line(last, TraceProblem::NoRanks))?;
        match (0..).zip(self.blocks).find(|(_, has_block)| !has_block) {
            Some((rank, _)) => Err(GoalError::at_line(last, TraceProblem::NoBlock { rank })),
            None => Ok(trace),
        }
    }
}

impl<'a> Block<'a> {
    /// Reads an operation or a dependency, which begins with `word`.
    fn statement(
        &mut self,
        line: u64,
        word: &'a str,
        words: &mut LineWords<'a, '_>,
        trace: &mut Trace,
    ) -> Result<(), TraceProblem> {
        if let Some(kind) = kind(word) {
            self.operation(line, kind, words, trace)?;
            return words.end();
        }
        if !is_label(word) {
            return Err(TraceProblem::Word { word: quoted(word), accepted: IN_BLOCK });
        }
        let accepted = "`:`, `requires` or `irequires`";
        match words.needed(accepted)? {
            ":" => {
                let accepted = "`send`, `recv` or `calc`";
                let name = words.needed(accepted)?;
                let kind = kind(name);
                let kind = kind.ok_or(TraceProblem::Word { word: quoted(name), accepted })?;
                let number = self.operation(line, kind, words, trace)?;
                if let Some(first) = self.labels.insert(word, number) {
                    let first = trace.operations[first as usize].place;
                    return Err(TraceProblem::SameLabel { label: quoted(word), first });
                }
            }
            how @ ("requires" | "irequires") => {
                let on = words.needed("a label")?;
                if !is_label(on) {
                    return Err(TraceProblem::Word { word: quoted(on), accepted: "a label" });
                }
                self.dependencies.push((line, [word, on], how == "irequires"));
            }
            other => return Err(TraceProblem::Word { word: quoted(other), accepted }),
        }
        words.end()
    }

    fn operation(
        &self,
        line: u64,
        kind: OperationKind,
        words: &mut LineWords<'a, '_>,
        trace: &mut Trace,
    ) -> Result<u32, TraceProblem> {
        let (size, peer) = match kind {
            OperationKind::Calc => (words.number("nanoseconds", u64::MAX)?, 0),
            OperationKind::Send => (words.bytes()?, words.peer("to")?),
            OperationKind::Recv => (words.bytes()?, words.peer("from")?),
        };
        let [tag, cpu, nic] = words.attributes(kind)?;
        let (cpu, nic) = (cpu as u8, nic as u8);
        trace.add(Operation { kind, rank: self.rank, peer, tag, size, cpu, nic, place: line })
    }
}

fn kind(word: &str) -> Option<OperationKind> {
    match word {
        "send" => Some(OperationKind::Send),
        "recv" => Some(OperationKind::Recv),
        "calc" => Some(OperationKind::Calc),
        _ => None,
    }
}

fn is_label(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.chars().all(|of| of.is_ascii_alphanumeric() || of == '_')
}

/// The words of a line.
struct LineWords<'a, 'b> {
    words: &'b [&'a str],
    next: usize,
}

impl<'a> LineWords<'a, '_> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.next += usize::from(word.is_some());
        word
    }

    fn needed(&mut self, accepted: &'static str) -> Result<&'a str, TraceProblem> {
        self.take().ok_or(TraceProblem::Ends { accepted })
    }

    fn only(&mut self, word: &str, accepted: &'static str) -> Result<(), TraceProblem> {
        match self.needed(accepted)? {
            taken if taken == word => Ok(()),
            other => Err(TraceProblem::Word { word: quoted(other), accepted }),
        }
    }

    /// Checks that a statement ends here.
    fn end(&self) -> Result<(), TraceProblem> {
        match self.peek() {
            None | Some("}") => Ok(()),
            Some(word) => {
                let accepted = "nothing after a statement, or `tag N`, `cpu N` and `nic N` \
                                after an operation, each once";
                Err(TraceProblem::Word { word: quoted(word), accepted })
            }
        }
    }

    fn number(&mut self, what: &'static str, most: u64) -> Result<u64, TraceProblem> {
        number(self.needed(what)?, what, most)
    }

    /// Reads a number of bytes: `10b`.
    fn bytes(&mut self) -> Result<u64, TraceProblem> {
        let what = "a number of bytes";
        let word = self.needed(what)?;
        match word.strip_suffix('b') {
            Some(digits) => number(digits, what, u64::MAX),
            None => {
                let bytes = number(word, what, u64::MAX)?;
                self.only("b", "`b` after a number of bytes").map(|()| bytes)
            }
        }
    }

    fn peer(&mut self, key: &'static str) -> Result<u32, TraceProblem> {
        let accepted = if key == "to" { "`to RANK`" } else { "`from RANK`" };
        self.only(key, accepted)?;
        match (self.peek(), key) {
            (Some("-1"), "from") => {
                self.take();
                Ok(ANY)
            }
            _ => Ok(self.number("a rank", u64::from(ANY) - 1)? as u32),
        }
    }

    /// Reads the tag, the cpu and the NIC, in any order.
    fn attributes(&mut self, kind: OperationKind) -> Result<[u32; 3], TraceProblem> {
        const KEYS: [(&str, &str, u64); 3] = [
            ("tag", "a tag", ANY as u64 - 1),
            ("cpu", "the number of a cpu", 255),
            ("nic", "the number of a NIC", 255),
        ];
        let mut values = [None; 3];
        while let Some(word) = self.peek() {
            let Some(at) = KEYS.iter().position(|(key, ..)| *key == word) else { break };
            let (key, what, most) = KEYS[at];
            if at == 0 && kind == OperationKind::Calc {
                break;
            }
            self.take();
            let value = match (key, self.peek()) {
                ("tag", Some("-1")) => self.take().map(|_| ANY),
                _ => Some(self.number(what, most)? as u32),
            };
            if values[at].is_some() {
                return Err(TraceProblem::Twice { key });
            }
            values[at] = value;
        }
        Ok(values.map(|value| value.unwrap_or(0)))
    }
}

fn number(word: &str, what: &'static str, most: u64) -> Result<u64, TraceProblem> {
    // `parse` accepts a sign, which the format does not.
    let digits = word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok());
    match digits.flatten() {
        Some(value) if value <= most => Ok(value),
        _ => Err(TraceProblem::Number { value: quoted(word), what, least: 0, most }),
    }
}

/// Formats a word of the file for an error: printable and not too long.
fn quoted(word: &str) -> String {
    const LONGEST: usize = 40;
    let shown: String = word.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    let cut = if word.chars().nth(LONGEST).is_some() { ".." } else { "" };
    shown + cut
}
