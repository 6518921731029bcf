//! Decoding returns the encoded packet or an error, and never panics.

use braid_wire::{
    CREDIT_LEN, Crc, DecodeError, MAX_ACK_LEN, MAX_SETUP_LEN, Opcode, PROBE_LEN, Packet, ProbeKind,
    VERSION, payload_crc,
};
use proptest::prelude::*;

use crate::examples::{encode, examples};
use crate::strategies::{any_ack, any_control, any_credit, any_data, any_probe, any_setup};

proptest! {
    #[test]
    fn data_comes_back((header, payload) in any_data()) {
        let packet = Packet::Data(header, &payload);
        let bytes = encode(&packet);
        prop_assert_eq!(bytes.len(), header.encoded_len() + payload.len());
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
        prop_assert_eq!(header.check_payload(&payload), Ok(()));
    }

    #[test]
    fn acks_come_back(ack in any_ack()) {
        let packet = Packet::Ack(ack);
        let bytes = encode(&packet);
        prop_assert!(bytes.len() <= MAX_ACK_LEN);
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
    }

    #[test]
    fn control_comes_back(control in any_control()) {
        let packet = Packet::Control(control);
        let bytes = encode(&packet);
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
    }

    #[test]
    fn credit_comes_back(credit in any_credit()) {
        let packet = Packet::Credit(credit);
        let bytes = encode(&packet);
        prop_assert!(bytes.len() <= CREDIT_LEN);
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
    }

    #[test]
    fn probes_come_back(probe in any_probe()) {
        let packet = Packet::Probe(probe);
        let bytes = encode(&packet);
        let len = if probe.kind == ProbeKind::Probe { probe.size.into() } else { PROBE_LEN };
        prop_assert_eq!(bytes.len(), len);
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
    }

    #[test]
    fn set_up_comes_back(setup in any_setup()) {
        let packet = Packet::Setup(setup);
        let bytes = encode(&packet);
        prop_assert!(bytes.len() <= MAX_SETUP_LEN);
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
    }

    #[test]
    fn encoding_appends(first in any_control(), (header, payload) in any_data(), setup in any_setup()) {
        for packet in [Packet::Data(header, &payload), Packet::Setup(setup), Packet::Control(first)] {
            let mut bytes = b"before".to_vec();
            match &packet {
                Packet::Data(header, _) => header.encode(&mut bytes),
                Packet::Setup(setup) => setup.encode(&mut bytes),
                Packet::Control(control) => control.encode(&mut bytes),
                Packet::Credit(credit) => credit.encode(&mut bytes),
                Packet::Ack(ack) => ack.encode(&mut bytes),
                Packet::Probe(probe) => probe.encode(&mut bytes),
                Packet::Part(part, _) => part.encode(&mut bytes),
                Packet::Sealed(header) => header.encode(&mut bytes),
            }
            let alone = encode(&packet);
            prop_assert_eq!(&bytes[..6], b"before");
            prop_assert!(alone.starts_with(&bytes[6..]));
        }
    }

    /// Refusal of random bytes, also after a valid opcode and version, which pass the first checks.
    ///
    /// A sealed packet has no check of its own before it is opened, so random bytes can be one.
    #[test]
    fn random_bytes_are_refused(opcode: u8, mut bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        prop_assert!(is_refused_or_sealed(&bytes));
        if bytes.len() > 12 {
            bytes[0] = opcode | 0xC0;
            bytes[12] = VERSION;
        }
        prop_assert!(is_refused_or_sealed(&bytes));
    }

    #[test]
    fn a_damaged_payload_fails_its_check((header, mut payload) in any_data(), at: prop::sample::Index, bit in 0..8u8) {
        prop_assume!(!payload.is_empty());
        let at = at.index(payload.len());
        payload[at] ^= 1 << bit;
        prop_assert_eq!(header.check_payload(&payload), Err(DecodeError::PayloadCheck));
    }

    #[test]
    fn a_payload_in_pieces_has_the_check_of_the_whole(payload in prop::collection::vec(any::<u8>(), 0..300), cut: prop::sample::Index) {
        let (head, tail) = payload.split_at(cut.index(payload.len() + 1));
        prop_assert_eq!(payload_crc([head, &[], tail]), payload_crc([&payload[..]]));
    }
}

fn is_refused_or_sealed(bytes: &[u8]) -> bool {
    matches!(Packet::decode(bytes), Err(_) | Ok(Packet::Sealed(_)))
}

/// Bytes with which `random_bytes_are_refused` once failed.
#[test]
fn random_bytes_may_be_a_sealed_packet() {
    let mut bytes = [0; 44];
    bytes[0] = Opcode::Sealed as u8;
    bytes[12] = VERSION;
    assert!(matches!(Packet::decode(&bytes), Ok(Packet::Sealed(_))));
    bytes[0] = Opcode::Sealed as u8 - 1;
    assert!(Packet::decode(&bytes).is_err());
}

#[test]
fn every_truncation_is_refused() {
    // The last fragment of a packet and a sealed packet may have any length.
    let open = |(name, _): &(&str, Packet<'_>)| !["part", "sealed"].contains(name);
    for (name, packet) in examples().into_iter().filter(open) {
        let bytes = encode(&packet);
        for len in 0..bytes.len() {
            assert!(Packet::decode(&bytes[..len]).is_err(), "{name} cut to {len} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        match packet {
            // The packet may be padded.
            Packet::Data(..) => assert_eq!(Packet::decode(&longer), Ok(packet)),
            _ => assert!(Packet::decode(&longer).is_err(), "{name} with a byte too many"),
        }
    }
}

/// The header's CRC protects every byte before the payload. The payload has its own CRC.
#[test]
fn one_flipped_bit_in_a_header_is_always_refused() {
    // The AEAD tag protects a sealed packet; braid-keys tests it.
    for (name, packet) in examples().into_iter().filter(|(name, _)| *name != "sealed") {
        let bytes = encode(&packet);
        let payload = match packet {
            Packet::Data(_, payload) | Packet::Part(_, payload) => payload.len(),
            _ => 0,
        };
        for bit in 0..(bytes.len() - payload) * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let decoded = Packet::decode(&damaged);
            let is_sealed = matches!(decoded, Ok(Packet::Sealed(_)));
            assert!(is_sealed || decoded.is_err(), "{name} with bit {bit} flipped: {decoded:?}");
        }
    }
}

#[test]
fn another_version_is_told_from_damage() {
    for (name, packet) in examples() {
        let mut bytes = encode(&packet);
        bytes[12] = VERSION + 1;
        if let Packet::Setup(_) = packet {
            let (body, check) = bytes.split_last_chunk_mut::<4>().unwrap();
            *check = payload_crc([&*body]).to_be_bytes();
        }
        assert_eq!(Packet::decode(&bytes), Err(DecodeError::Version(VERSION + 1)), "{name}");
    }
}

/// A version error ends a connection attempt, so a damaged packet must not cause one.
#[test]
fn damage_to_what_starts_a_connection_is_no_other_version() {
    use Opcode::{Connect, Hello, Reject};
    let opcodes = [Hello, Connect, Reject].map(|opcode| opcode as u8);
    for (name, packet) in examples() {
        let bytes = encode(&packet);
        // Flips the version and one more bit: at most three flipped bits, which the CRC always
        // detects.
        for flips in (1..=u8::MAX).filter(|flips| flips.count_ones() <= 2) {
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[12] ^= flips;
                damaged[bit / 8] ^= 1 << (bit % 8);
                let decoded = Packet::decode(&damaged);
                if opcodes.contains(&damaged[0]) && opcodes.contains(&bytes[0]) && damaged != bytes
                {
                    assert_eq!(
                        decoded,
                        Err(DecodeError::HeaderCheck),
                        "{name}: {flips:#x}, bit {bit}"
                    );
                }
            }
        }
    }
}

#[test]
fn opcodes_of_others_are_refused() {
    let mut bytes = encode(&examples()[0].1);
    for opcode in 0..=255 {
        bytes[0] = opcode;
        let known = braid_wire::Opcode::from_byte(opcode).is_some();
        let refused = Packet::decode(&bytes) == Err(DecodeError::Opcode(opcode));
        assert_eq!(refused, !known, "{opcode:#x}");
    }
}

#[test]
fn checks_are_on_unless_somebody_says_otherwise() {
    assert_eq!(Crc::default(), Crc::On);
}
