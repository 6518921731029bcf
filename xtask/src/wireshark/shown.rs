//! Comparison of tshark's output for a capture with the packets that were sent.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use braid_wire::Packet;

use super::{expected, tshark};
use crate::{Failure, process};

/// The fields that are compared; the payload of the datagram stands before them.
const FIELDS: [&str; 56] = [
    "opcode",
    "solicited",
    "qp",
    "ack_requested",
    "psn",
    "last",
    "repeated",
    "payload_len",
    "token",
    "number",
    "address",
    "rkey",
    "message_len",
    "offset",
    "imm",
    "stamp",
    "payload_check",
    "payload_check_ok",
    "swap",
    "compare",
    "refusal",
    "bitmap_words",
    "stream",
    "highest",
    "refused_psn",
    "rnr_delay",
    "echo_path",
    "echo_rail",
    "marked_paths",
    "ack_delay",
    "received",
    "duplicates",
    "bitmap",
    "sender",
    "last_request",
    "last_response",
    "probe_size",
    "serial",
    "part",
    "parts",
    "reason",
    "nonce",
    "cookie",
    "offer_qp",
    "offer_token",
    "offer_psn",
    "instance",
    "rails",
    "mtu",
    "transmission",
    "credit_rail",
    "granted",
    "credit_rate",
    "credit_target",
    "unsolicited",
    "credit_lost",
];

/// The opcode of a sealed packet.
const SEALED: u8 = 0xED;

/// The values that tshark shows for each field of a frame, in the order of its packets.
type FrameFields = BTreeMap<&'static str, VecDeque<u64>>;

/// Compares all of a capture. Returns how many frames and packets that were.
pub(super) fn compare(file: &Path) -> Result<(usize, usize), Failure> {
    let mut command = tshark(file);
    command.args(["-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]);
    command.args(["-e", "udp.payload", "-e", "braid.check_ok"]);
    FIELDS.iter().for_each(|field| {
        command.arg("-e").arg(format!("braid.{field}"));
    });
    let (mut frames, mut packets, mut kinds) = (0, 0, std::collections::BTreeSet::new());
    for line in process::output(&mut command)?.lines().filter(|line| !line.starts_with('\t')) {
        let sent = compare_frame(line).map_err(|why| {
            Failure::new(format!("frame {} of {}: {why}", frames + 1, file.display()))
        })?;
        frames += 1;
        packets += sent.len();
        kinds.extend(sent);
    }
    // WRITE, SEND, READ, its response, fetch-and-add, its response, ACK, HELLO to ACCEPT,
    // DISCONNECT, CONFIRM; what is sealed.
    let needed = [
        0xC0, 0xC2, 0xC4, 0xC5, 0xC7, 0xC8, 0xD0, 0xE0, 0xE1, 0xE2, 0xE3, 0xE5, 0xE6, 0xED, 0xEE,
        0xEF,
    ];
    match needed.into_iter().find(|opcode| !kinds.contains(opcode)) {
        None => Ok((frames, packets)),
        Some(opcode) => {
            Err(Failure::new(format!("no packet 0x{opcode:X} among {packets} captured")))
        }
    }
}

/// The opcodes of the packets in a frame that is shown as it was sent.
fn compare_frame(line: &str) -> Result<Vec<u8>, String> {
    let mut columns = line.split('\t');
    let bytes = from_hex(columns.next().unwrap_or_default()).ok_or("its payload is no bytes")?;
    let checks = columns.next().unwrap_or_default().to_owned();
    let mut shown: FrameFields = FIELDS.into_iter().zip(columns.map(numbers)).collect();
    let (mut rest, mut opcodes) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let (one, after) = rest.split_at(packet_len(rest).min(rest.len()));
        let packet = Packet::decode(one).map_err(|why| format!("not Braid's: {why}"))?;
        for (field, value) in expected::fields(&packet) {
            let Some(list) = shown.get_mut(field) else { continue };
            let said = list.pop_front();
            if said != Some(value) {
                return Err(format!("{field} is {value} and shown as {said:?}; {packet:?}"));
            }
        }
        forget_unset(&mut shown, &packet);
        opcodes.push(one[0]);
        // Behind a payload there may be padding; no opcode is zero.
        let padding = after.iter().take_while(|byte| **byte == 0).count();
        rest = &after[padding..];
    }
    // The tag of a sealed packet is its check, and not shown.
    let checked = opcodes.iter().filter(|opcode| **opcode != SEALED).count();
    if checks.split_terminator(',').count() != checked || numbers(&checks).contains(&0) {
        return Err(format!("{} packets, whose checks are shown as `{checks}`", opcodes.len()));
    }
    match shown.iter().find(|(_, left)| !left.is_empty()) {
        None => Ok(opcodes),
        Some((field, left)) => Err(format!("{field} is shown more often than sent: {left:?}")),
    }
}

/// Forgets fields of the common header that have no meaning in this packet: tshark shows them for
/// every packet.
fn forget_unset(shown: &mut FrameFields, packet: &Packet<'_>) {
    let said: Vec<&str> = expected::fields(packet).iter().map(|(field, _)| *field).collect();
    for field in ["opcode", "solicited", "qp", "ack_requested", "psn"] {
        if !said.contains(&field)
            && let Some(list) = shown.get_mut(field)
        {
            list.pop_front();
        }
    }
}

/// Returns the length of the first packet of a batch that was captured whole.
fn packet_len(bytes: &[u8]) -> usize {
    let number = |at: usize| {
        bytes.get(at..at + 2).map_or(0, |two| usize::from(two[0]) << 8 | usize::from(two[1]))
    };
    match bytes[0] {
        0xC6 | 0xC7 => 76 + number(14),
        0xC0..=0xC8 => 60 + number(14),
        0xD0 => 56 + 8 * usize::from(*bytes.get(14).unwrap_or(&0)) + 4 * number(34),
        0xD1 => 64,
        0xD2 | 0xEB => 32,
        0xE5..=0xE9 => 40,
        0xEA => number(14),
        _ => bytes.len(),
    }
}

/// Decimal, hexadecimal, or a word, as the versions of Wireshark show them.
fn numbers(column: &str) -> VecDeque<u64> {
    let number = |text: &str| match (text, text.strip_prefix("0x")) {
        ("True", _) => Some(1),
        ("False", _) => Some(0),
        (_, Some(hex)) => u64::from_str_radix(hex, 16).ok(),
        (decimal, None) => decimal.parse().ok(),
    };
    column.split(',').filter_map(number).collect()
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_however_they_are_shown() {
        assert_eq!(numbers("0x0000ff,12,True,False"), [255, 12, 1, 0]);
        assert_eq!(numbers(""), [0; 0]);
        assert_eq!(from_hex("00ff10"), Some(vec![0, 255, 16]));
        assert_eq!(from_hex("0g"), None);
    }

    #[test]
    fn a_wrong_field_is_found() {
        // A PING, of docs/wire.md.
        let ping =
            "e700ffff000001230000000003000000a1b2c3d400000456010203040000000000000000e178b5fa";
        let mut columns = vec![String::new(); FIELDS.len()];
        let mut set = |field: &str, value: &str| {
            let place = FIELDS.iter().position(|name| *name == field).expect("a field");
            columns[place] = value.to_owned();
        };
        set("opcode", "0xe7");
        set("qp", "0x123");
        set("token", "0xa1b2c3d4");
        set("sender", "0x456");
        set("stamp", "16909060");
        let line = |columns: &[String]| format!("{ping}\t1\t{}", columns.join("\t"));
        assert_eq!(compare_frame(&line(&columns)), Ok(vec![0xE7]));
        columns[2] = "0x124".into();
        assert!(compare_frame(&line(&columns)).unwrap_err().contains("qp"));
    }
}
