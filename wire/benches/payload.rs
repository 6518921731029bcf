//! Instructions for the check of a payload.
//!
//! `crc32fast` asks the processor what it can do, and the one that valgrind shows (AVX2 and carry-less
//! multiplication, no AVX-512) is not the one that runs: this guards our own way there, and that the fast code is
//! found at all. What the check costs is measured by `braid-perf ceiling`.
#![allow(missing_docs, reason = "the macros make public items of all cases")]

use std::hint::black_box;

use braid_wire::payload_crc;
use gungraun::prelude::*;

/// The first check of a program finds out what the processor can do; what is counted is not the first.
fn payload() -> Vec<u8> {
    let payload = vec![0x5A; 4096];
    black_box(payload_crc([&payload[..]]));
    payload
}

#[library_benchmark]
#[bench::four_kib(payload())]
fn check(payload: Vec<u8>) -> (Vec<u8>, u32) {
    let crc = payload_crc([black_box(&payload[..])]);
    (payload, crc)
}

library_benchmark_group!(name = payload, benchmarks = check);
main!(library_benchmark_groups = payload);
