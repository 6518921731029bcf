//! Fuzzes the decoder with set-up, REJECT.
#![no_main]

use braid_fuzz::{REJECT, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&REJECT, input));
