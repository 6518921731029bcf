//! Fuzzes the text and the binary form of the same trace, which must mean the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| braid_fuzz::goal_forms(input));
