//! Fuzzes what stands in key files and lists of allowed keys.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| braid_fuzz::key_text(input));
