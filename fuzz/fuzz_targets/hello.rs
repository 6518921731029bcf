//! Fuzzes the decoder with set-up, HELLO.
#![no_main]

use braid_fuzz::{HELLO, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&HELLO, input));
