//! Fuzzes the decoder with set-up, CONNECT.
#![no_main]

use braid_fuzz::{CONNECT, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&CONNECT, input));
