//! Packets that are cut, damaged or made up: the script has to say so, and must not fail.

use std::fs;
use std::path::Path;

use super::shown::from_hex;
use super::{cannot, tshark, tshark_with};
use crate::{Failure, process};

/// Raw IP packets (https://www.tcpdump.org/linktypes.html).
const LINK_TYPE: u32 = 101;
const MAX_LEN: u32 = 65535;
/// Packets of the capture that are changed, and how often each.
const ORIGINALS: usize = 60;
const CHANGES: usize = 20;
const MADE_UP: usize = 1024;

/// Shows tshark packets made of those of `traffic`. Returns how many.
pub(super) fn check(folder: &Path, traffic: &Path) -> Result<usize, Failure> {
    let mut random = Random(7);
    let mut packets = Vec::new();
    for original in originals(traffic)? {
        packets.extend((0..original.len().min(120)).map(|len| original[..len].to_vec()));
        packets.extend((0..CHANGES).map(|_| damaged(&original, &mut random)));
    }
    packets.extend((0..MADE_UP).map(|opcode| made_up(opcode as u8, &mut random)));
    let file = folder.join("malformed.pcap");
    fs::write(&file, pcap(&packets)).map_err(|e| cannot("write", &file, &e))?;
    // One that fails is noticed, or there would be nothing to this check.
    let script = folder.join("fails.lua");
    fs::write(&script, FAILS).map_err(|e| cannot("write", &script, &e))?;
    let mut fails = tshark_with(&script, &file);
    let fails = process::output(fails.args(["-Y", "_ws.lua.error"]))?;
    if fails.is_empty() {
        return Err(Failure::new("tshark does not say when a script fails"));
    }
    let errors = process::output(tshark(&file).args(["-Y", "_ws.lua.error", "-V"]))?;
    match errors.lines().find(|line| line.contains("Lua Error")) {
        None if errors.is_empty() => Ok(packets.len()),
        line => Err(Failure::new(format!("the script fails: {}", line.unwrap_or(&errors)))),
    }
}

/// A dissector that fails. It has the same preference as ours.
const FAILS: &str = "local p = Proto('braid', 'fails')
p.prefs.payload_checks = Pref.bool('', false, '')
function p.dissector(tvb) return tvb(100000, 1):uint() end
DissectorTable.get('udp.port'):add(4791, p)
";

fn originals(traffic: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let shown = process::output(tshark(traffic).args(["-T", "fields", "-e", "udp.payload"]))?;
    let all: Vec<Vec<u8>> = shown.lines().filter_map(from_hex).collect();
    let step = (all.len() / ORIGINALS).max(1);
    Ok(all
        .into_iter()
        .step_by(step)
        .map(|mut packet| {
            packet.truncate(1500);
            packet
        })
        .collect())
}

fn damaged(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut packet = original.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(packet.len().clamp(1, 80));
        if let Some(byte) = packet.get_mut(at) {
            *byte = random.byte();
        }
    }
    packet
}

/// Creates random bytes with this opcode and the right version.
fn made_up(opcode: u8, random: &mut Random) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..random.below(300)).map(|_| random.byte()).collect();
    packet.iter_mut().take(1).for_each(|byte| *byte = opcode);
    packet.iter_mut().skip(12).take(1).for_each(|byte| *byte = braid_wire::VERSION);
    packet
}

/// A capture of datagrams to Braid's port.
fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let words = [0xA1B2_C3D4, 0x0004_0002, 0, 0, MAX_LEN, LINK_TYPE];
    words.iter().for_each(|word: &u32| file.extend(word.to_le_bytes()));
    for (second, packet) in packets.iter().enumerate() {
        let frame = ip(packet);
        let words = [second as u32, 0, frame.len() as u32, frame.len() as u32];
        words.iter().for_each(|word| file.extend(word.to_le_bytes()));
        file.extend(frame);
    }
    file
}

fn ip(payload: &[u8]) -> Vec<u8> {
    let len = |header: usize| ((header + payload.len()) as u16).to_be_bytes();
    let mut frame = vec![0x45, 0];
    frame.extend(len(28));
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    frame.extend([0xC0, 3]);
    frame.extend(braid_wire::DEFAULT_PORT.to_be_bytes());
    frame.extend(len(8));
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// The same numbers each time (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn byte(&mut self) -> u8 {
        (self.next() >> 32) as u8
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit
    }
}
