//! Fuzzes the decoder with questions about what a path carries, and answers.
#![no_main]

use braid_fuzz::{PROBE, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&PROBE, input));
