//! Instruction counts of a payload CRC.
//!
//! `crc32fast` selects its code by the processor's features. Valgrind emulates AVX2 and carry-less
//! multiplication but not AVX-512, so the counted code may differ from the code that runs. The case
//! guards Braid's own code around it and the choice of a fast implementation. `braid-perf ceiling`
//! measures the real cost.
#![allow(missing_docs, reason = "the macros make public items of all cases")]

use std::hint::black_box;

use braid_wire::payload_crc;
use gungraun::prelude::*;

/// A payload. The first CRC of a program detects the processor's features, so it is not counted.
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
