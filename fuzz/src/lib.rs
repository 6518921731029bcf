//! Packets that pass the header check, and their invariants: the part that all targets share.
//!
//! No mutation guesses a CRC, so a target that only fed bytes to the decoder would test the CRC and
//! nothing behind it. These targets repair the check first. Offsets are those of `docs/wire.md`.
#![forbid(unsafe_code)]

mod goal;
mod keyed;
mod kind;

pub use goal::{goal, goal_forms};
pub use keyed::{key_text, keyed};
pub use kind::{ACCEPT, ACK, CONNECT, CONTROL, COOKIE, DATA, HELLO, Kind, PART, PROBE, REJECT};

use braid_wire::{
    CONTROL_LEN, CREDIT_LEN, DataHeader, FRAME_LEN, Frame, HELLO_LEN, MAX_ACK_LEN, MAX_SETUP_LEN,
    NicAddress, Note, Opcode, PART_HEADER_LEN, PROBE_LEN, Packet, SEAL_LEN, Setup, VERSION,
    payload_crc,
};

const VERSION_AT: usize = 12;
/// A data header: its check and, behind that, the operands of an atomic.
const DATA_CHECK: std::ops::Range<usize> = 56..60;
const OPERANDS: std::ops::Range<usize> = 60..76;

/// Any datagram at all, as it came and with its check repaired: what the decoder accepts, it must
/// accept again, as the same, once it has been encoded.
pub fn any_packet(input: &[u8]) {
    survives(input);
    let mut sealed = input.to_vec();
    seal(&mut sealed);
    survives(&sealed);
}

/// A packet of this kind whose reserved bits are zero: if the decoder accepts it, encoding gives
/// the very bytes back, but for what a segment is padded with.
pub fn round_trip(kind: &Kind, input: &[u8]) {
    let Some(&choice) = input.first() else { return };
    let mut bytes = input.to_vec();
    kind.impose(&mut bytes, choice);
    if let Some(version) = bytes.get_mut(VERSION_AT) {
        *version = VERSION;
    }
    seal(&mut bytes);
    if let Ok(packet) = Packet::decode(&bytes) {
        let again = encode(&packet);
        let said = match packet {
            Packet::Data(..) => &bytes[..again.len().min(bytes.len())],
            _ => &bytes[..],
        };
        assert_eq!(again, said, "{packet:?} is not encoded as it was decoded");
    }
}

/// A connection's address, frames, notes and headers without payloads: what a decoder accepts, it
/// must accept again, as the same, once it has been encoded.
pub fn connection(input: &[u8]) {
    if let Ok(address) = NicAddress::decode(input) {
        assert_eq!(NicAddress::decode(&address.encode()), Ok(address));
    }
    if let Ok((frame, rest)) = Frame::decode(input) {
        assert_eq!(Frame::decode(&frame.encode()), Ok((frame, &[][..])));
        assert_eq!(rest.len(), input.len() - FRAME_LEN);
    }
    if let Ok(note) = Note::decode(input) {
        assert_eq!(Note::decode(&note.encode()), Ok(note));
    }
    let mut sealed = input.to_vec();
    if let Some(version) = sealed.get_mut(VERSION_AT) {
        *version = VERSION;
    }
    seal(&mut sealed);
    if let Ok(header) = DataHeader::decode_placed(&sealed) {
        let mut again = Vec::new();
        header.encode(&mut again);
        assert_eq!(DataHeader::decode_placed(&again), Ok(header));
    }
}

fn survives(bytes: &[u8]) {
    if let Ok(packet) = Packet::decode(bytes) {
        let again = encode(&packet);
        assert_eq!(Packet::decode(&again).as_ref(), Ok(&packet), "lost in encoding");
    }
}

/// Encodes a packet and checks the lengths that the crate promises.
fn encode(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    match packet {
        Packet::Data(header, payload) => {
            header.encode(&mut bytes);
            assert_eq!(bytes.len(), header.encoded_len());
            bytes.extend_from_slice(payload);
            let intact = payload_crc([*payload]) == header.payload_crc;
            assert_eq!(header.check_payload(payload).is_ok(), intact);
        }
        Packet::Ack(ack) => {
            ack.encode(&mut bytes);
            assert!(bytes.len() <= MAX_ACK_LEN);
            assert!(ack.bitmap.ones().all(|bit| bit > 0), "the bitmap holds the cumulative PSN");
        }
        Packet::Control(control) => {
            control.encode(&mut bytes);
            assert_eq!(bytes.len(), CONTROL_LEN);
        }
        Packet::Credit(credit) => {
            credit.encode(&mut bytes);
            assert!(bytes.len() <= CREDIT_LEN);
        }
        Packet::Probe(probe) => {
            probe.encode(&mut bytes);
            assert!((PROBE_LEN..=probe.size.into()).contains(&bytes.len()));
        }
        Packet::Part(part, body) => {
            part.encode(&mut bytes);
            assert_eq!(bytes.len(), PART_HEADER_LEN);
            bytes.extend_from_slice(body);
        }
        Packet::Setup(setup) => {
            setup.encode(&mut bytes);
            assert!(bytes.len() <= MAX_SETUP_LEN);
            // An answer longer than its HELLO would make the responder an amplifier.
            let most = match setup {
                Setup::Cookie { len, .. } => usize::from(*len),
                Setup::Reject(_) => HELLO_LEN,
                _ => MAX_SETUP_LEN,
            };
            assert!(bytes.len() <= most);
        }
        // What it holds is nothing without the keys.
        Packet::Sealed(header) => {
            header.encode(&mut bytes);
            bytes.resize(SEAL_LEN, 0);
        }
    }
    bytes
}

/// Writes the check that the packet should have, if it is long enough to have one.
fn seal(bytes: &mut [u8]) {
    let opcode = bytes.first().and_then(|&byte| Opcode::from_byte(byte));
    match opcode {
        Some(opcode) if opcode.is_data() => seal_data(opcode, bytes),
        Some(Opcode::Part) => seal_part(bytes),
        Some(_) => {
            if let Some((body, check)) = bytes.split_last_chunk_mut::<4>() {
                *check = payload_crc([&*body]).to_be_bytes();
            }
        }
        None => {}
    }
}

/// The header alone is checked; the check is the last of it.
fn seal_part(bytes: &mut [u8]) {
    let header = bytes.get_mut(..PART_HEADER_LEN);
    if let Some((head, check)) = header.and_then(|header| header.split_last_chunk_mut::<4>()) {
        *check = payload_crc([&*head]).to_be_bytes();
    }
}

fn seal_data(opcode: Opcode, bytes: &mut [u8]) {
    let operands = if opcode.has_operands() { bytes.get(OPERANDS) } else { Some(&[][..]) };
    let (Some(head), Some(operands)) = (bytes.get(..DATA_CHECK.start), operands) else { return };
    let check = payload_crc([head, operands]).to_be_bytes();
    if let Some(place) = bytes.get_mut(DATA_CHECK) {
        place.copy_from_slice(&check);
    }
}
