//! Fuzzes the decoder with set-up, COOKIE.
#![no_main]

use braid_fuzz::{COOKIE, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&COOKIE, input));
