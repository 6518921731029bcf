//! Fuzzes the parsers of traces in the GOAL format.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| braid_fuzz::goal(input));
