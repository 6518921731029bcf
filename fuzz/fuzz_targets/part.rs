//! Fuzzes the decoder with parts of data packets.
#![no_main]

use braid_fuzz::{PART, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&PART, input));
