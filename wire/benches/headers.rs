//! Instruction counts of the headers that every packet has: a data segment's and an
//! acknowledgement's, including their CRCs.

#![allow(missing_docs, reason = "the macros make public items of all cases")]

use std::hint::black_box;

use braid_wire::{Ack, Bitmap, DataHeader, Marks, Opcode, Packet, PathId, QpId, Stream, Token};
use gungraun::prelude::*;

fn data_header() -> DataHeader {
    DataHeader {
        opcode: Opcode::Write,
        qp: QpId::new(0x12_3456),
        token: Token(0xC0FF_EE00),
        psn: 0x65_4321,
        ack_request: true,
        solicited: false,
        last: false,
        retransmission: false,
        number: 77,
        address: 0x7F00_0000_1000,
        rkey: 0x0ABC_DEF0,
        message_len: 1 << 20,
        offset: 16 << 10,
        len: 4096,
        imm: 0,
        stamp: 123_456,
        payload_crc: 0,
        operands: None,
    }
}

/// An acknowledgement after losses: every other one of 64 packets beyond the cumulative PSN has
/// arrived.
fn ack() -> Ack {
    Ack {
        qp: QpId::new(0x12_3456),
        token: Token(0xC0FF_EE00),
        stream: Stream::Requests,
        cumulative: 0x65_4321,
        highest: 0x65_4361,
        nak: None,
        rnr_delay_us: 0,
        path: PathId::new(5),
        stamp: 123_456,
        delay_ns: 800,
        received: 10_000,
        duplicates: 2,
        bitmap: Bitmap::new([0xAAAA_AAAA_AAAA_AAAA].into_iter().collect()),
        marks: Marks::default(),
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = room();
    encode(&mut bytes);
    bytes
}

/// A header and a payload. Decoding the header does not check the payload.
fn segment() -> Vec<u8> {
    let mut bytes = encoded(|out| data_header().encode(out));
    bytes.resize(bytes.len() + 4096, 0x5A);
    bytes
}

/// A buffer that need not grow, as in the engine. The first header of a program detects the
/// processor's features, so this function encodes one that is not counted.
fn room() -> Vec<u8> {
    let mut room = Vec::with_capacity(256);
    data_header().encode(&mut room);
    room.clear();
    room
}

#[library_benchmark]
#[bench::write(data_header(), room())]
fn encode_data(header: DataHeader, mut out: Vec<u8>) -> Vec<u8> {
    black_box(&header).encode(&mut out);
    out
}

#[library_benchmark]
#[bench::after_losses(ack(), room())]
fn encode_ack(ack: Ack, mut out: Vec<u8>) -> (Ack, Vec<u8>) {
    black_box(&ack).encode(&mut out);
    (ack, out)
}

#[library_benchmark]
#[bench::data(segment())]
#[bench::ack(encoded(|out| ack().encode(out)))]
fn decode(bytes: Vec<u8>) -> Vec<u8> {
    let packet = Packet::decode(black_box(&bytes));
    assert!(black_box(packet).is_ok());
    bytes
}

library_benchmark_group!(name = headers, benchmarks = [encode_data, encode_ack, decode]);
main!(library_benchmark_groups = headers);
