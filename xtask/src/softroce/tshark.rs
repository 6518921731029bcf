//! Packets between the drop-in and rxe as tshark's own dissector of RoCEv2 reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::icrc;
use super::pair::{A1, A1_V6, B1, B1_V6, Machines};
use super::roce_drop_in;
use crate::capture::Capture;
use crate::{Failure, files, process, tree};

/// Machine a's end of link 1, whose packets are captured.
const TAP: &str = "tap1";
const FILTER: &str = "udp port 4791";
/// A problem that tshark finds in a packet is at least a warning.
const WARNING: u64 = 0x60_0000;

/// The opcodes that an address sends in the programs: the first, a middle and the last packet of a
/// message, acknowledgements, and others of one packet (IBTA vol. 1, 9.2.1).
const EXPECTED: [(&str, &[u8]); 4] = [
    (A1, &[SEND, 1, 2, WRITE, 7, 8, READ, RESPONSE, 14, 15, ACK, ATOMIC_ACK, FETCH_ADD, UD_SEND]),
    (B1, &[SEND, 1, 2, WRITE, 7, 8, READ, RESPONSE, 14, 15, ACK, ATOMIC_ACK, FETCH_ADD, UD_SEND]),
    (A1_V6, &[SEND, 1, 2, WRITE, 7, 8, ACK]),
    (B1_V6, &[SEND, 1, 2, WRITE, 7, 8, ACK]),
];
const SEND: u8 = 0;
const WRITE: u8 = 6;
const READ: u8 = 12;
const RESPONSE: u8 = 13;
const ACK: u8 = 17;
const ATOMIC_ACK: u8 = 18;
const FETCH_ADD: u8 = 20;
const UD_SEND: u8 = 100;

const FIELDS: [&str; 6] = [
    "ip.src",
    "ipv6.src",
    "infiniband.bth.opcode",
    "infiniband.invariant.crc",
    "_ws.expert.severity",
    "_ws.expert.message",
];

/// Runs programs in both directions, captures their packets, and checks each: it is well-formed to
/// tshark, and its ICRC is right.
pub(super) fn check(pair: &Machines) -> Result<String, Failure> {
    let file = tree::target()?.join("softroce/roce.pcap");
    let dumpcap = pair.bridge.command("dumpcap");
    let capture = Capture::start(dumpcap, (TAP, FILTER), &file)?;
    for program in &roce_drop_in::CAPTURED {
        let run = program.run(pair);
        run.map_err(|failure| Failure::new(format!("{program} on link 1: {failure}")))?;
    }
    capture.finish()?;
    let pcap = std::fs::read(&file).map_err(|error| files::cannot("read", &file, &error))?;
    let frames = icrc::frames(&pcap)
        .ok_or_else(|| Failure::new(format!("{} is no capture", file.display())))?;
    let shown = process::output(&mut tshark(&file))?;
    let opcodes =
        judge(&frames, &shown).map_err(|why| Failure::new(format!("{}: {why}", file.display())))?;
    let count: usize = opcodes.values().map(BTreeSet::len).sum();
    Ok(format!("{} packets of {count} kinds, all ICRCs right", frames.len()))
}

fn tshark(file: &Path) -> Command {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "separator=|", "-E", "occurrence=a"]);
    // rxe leaves the UDP checksum out.
    command.args(["-o", "udp.ignore_ipv6_zero_checksum:TRUE"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    command.arg("-r").arg(file);
    command
}

/// Compares tshark's lines with the frames. Returns the opcodes that each address has sent.
fn judge<'a>(frames: &[&[u8]], shown: &'a str) -> Result<BTreeMap<&'a str, BTreeSet<u8>>, String> {
    let lines: Vec<&str> = shown.lines().collect();
    if lines.len() != frames.len() {
        return Err(format!("{} frames, and tshark shows {}", frames.len(), lines.len()));
    }
    let mut sent: BTreeMap<&str, BTreeSet<u8>> = BTreeMap::new();
    for (number, (line, frame)) in (1..).zip(lines.iter().zip(frames)) {
        let at = |why: &str| format!("frame {number}: {why}: {line}");
        let fields: Vec<&str> = line.splitn(FIELDS.len(), '|').collect();
        let &[ipv4, ipv6, opcode, icrc, severity, _] = &fields[..] else {
            return Err(at("too few fields"));
        };
        let opcode = opcode.parse().map_err(|_| at("no packet of RoCEv2 to tshark"))?;
        let severities = severity.split(',').filter_map(number_of);
        if severities.max().is_some_and(|severity| severity >= WARNING) {
            return Err(at("malformed to tshark"));
        }
        if icrc.is_empty() {
            return Err(at("tshark finds no ICRC"));
        }
        match icrc::is_right(frame) {
            Some(true) => sent.entry(if ipv4.is_empty() { ipv6 } else { ipv4 }).or_default(),
            Some(false) => return Err(at("wrong ICRC")),
            None => return Err(at("no packet of RoCEv2")),
        }
        .insert(opcode);
    }
    for (from, expected) in EXPECTED {
        let sent = sent.get(from).cloned().unwrap_or_default();
        if let Some(opcode) = expected.iter().find(|opcode| !sent.contains(opcode)) {
            return Err(format!("{from} has sent no packet with opcode {opcode}, but {sent:?}"));
        }
    }
    Ok(sent)
}

/// A number as tshark prints it.
fn number_of(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::softroce::icrc::tests::rxe_frame;

    const SHOWN: &str = "10.77.1.2||17|0x79a5f643||";

    fn fails(frame: &[u8], shown: &str) -> String {
        judge(&[frame], shown).expect_err("it is not all that is expected")
    }

    #[test]
    fn a_frame_is_refused_for_its_icrc_and_for_what_tshark_finds() {
        let frame = rxe_frame();
        // All is well with it, but it is not all.
        let alone = fails(&frame, SHOWN);
        assert!(alone.starts_with("10.77.1.1 has sent no packet with opcode 0"), "{alone}");
        let mut damaged = frame.clone();
        *damaged.last_mut().expect("a byte") ^= 1;
        assert!(fails(&damaged, SHOWN).contains("wrong ICRC"));
        let malformed = "10.77.1.2||17|0x79a5f643|2097152,8388608|Malformed Packet";
        assert!(fails(&frame, malformed).contains("malformed to tshark"));
        assert!(fails(&frame, "10.77.1.2||17|||").contains("finds no ICRC"));
        assert!(fails(&frame, "10.77.1.2||||||").contains("no packet of RoCEv2"));
        assert!(fails(&frame, "").contains("1 frames, and tshark shows 0"));
    }
}
