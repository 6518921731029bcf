//! Fuzzes the decoder with set-up, ACCEPT.
#![no_main]

use braid_fuzz::{ACCEPT, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&ACCEPT, input));
