//! Fuzzes the decoder with segments, requests and responses.
#![no_main]

use braid_fuzz::{DATA, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&DATA, input));
