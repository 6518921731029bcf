//! Fuzzes the decoder with tear-down and signs of life.
#![no_main]

use braid_fuzz::{CONTROL, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&CONTROL, input));
