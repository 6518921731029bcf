//! The examples in `docs/wire.md` match the code byte by byte, and its tables cover every byte.

use std::collections::BTreeMap;
use std::fs;

use braid_wire::{FRAME_LEN, NOTE_LEN, Packet};

use crate::examples::{encode, examples};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/wire.md");
    fs::read_to_string(path).expect("docs/wire.md")
}

/// Returns the fenced blocks by the word after the fence.
fn blocks(page: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```").filter(|name| !name.is_empty()) else { continue };
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        found.insert(name.to_owned(), text.join("\n"));
    }
    found
}

/// Parses hexadecimal digits. A `#` starts a remark.
fn bytes_of(block: &str) -> Vec<u8> {
    let digits: String = block.lines().filter_map(|line| line.split('#').next()).collect();
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).map(|line| {
        line.chunks(4)
            .map(|word| word.iter().map(|b| format!("{b:02x}")).collect())
            .collect::<Vec<String>>()
            .join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_examples_are_what_the_code_writes() {
    let blocks = blocks(&page());
    let mut wrong = String::new();
    for (name, packet) in examples() {
        let bytes = encode(&packet);
        if blocks.get(name).map(|block| bytes_of(block)) != Some(bytes.clone()) {
            wrong += &format!("\n```{name}\n{}\n```\n", hex(&bytes));
        }
    }
    assert!(wrong.is_empty(), "docs/wire.md has to say:\n{wrong}");
}

#[test]
fn the_examples_decode_to_what_they_say() {
    let blocks = blocks(&page());
    for (name, packet) in examples() {
        let bytes = bytes_of(&blocks[name]);
        assert_eq!(Packet::decode(&bytes).as_ref(), Ok(&packet), "{name}");
    }
}

/// Returns the rows of tables with the columns `offset` and `bytes`, one list per table.
fn tables(page: &str) -> Vec<Vec<(usize, usize)>> {
    let row = |line: &str| -> Option<(usize, usize)> {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        Some((cells.next()?.parse().ok()?, cells.next()?.parse().ok()?))
    };
    let mut tables = vec![Vec::new()];
    for line in page.lines() {
        match row(line) {
            Some(row) => tables.last_mut().unwrap().push(row),
            None if line.starts_with('|') => {}
            None => tables.push(Vec::new()),
        }
    }
    tables.retain(|rows| !rows.is_empty());
    tables
}

#[test]
fn the_tables_leave_no_byte_out() {
    let tables = tables(&page());
    for rows in &tables {
        for pair in rows.windows(2) {
            assert_eq!(pair[0].0 + pair[0].1, pair[1].0, "a gap or an overlap in {rows:?}");
        }
    }
    let ends: Vec<usize> =
        tables.iter().map(|rows| rows.last().map_or(0, |(at, len)| at + len)).collect();
    // The tables in their order: BTH; data; operands; ack without bitmap; credit grant; the rest
    // of a request. Then: control; probes without padding; header of a fragment; header of a
    // sealed packet. Then: short set-up packets; offer; handshake; greeting over TCP; NIC address
    // without queue pairs; frames; notes; CNPs of plain RoCEv2.
    assert_eq!(
        ends,
        [12, 60, 76, 52, 28, 60, 40, 28, 28, 28, 32, 68, 4, 24, 32, FRAME_LEN, NOTE_LEN, 32]
    );
}
