//! Fuzzes the decoders of what is said over an RNIC beside the packets.
#![no_main]

use braid_fuzz::connection;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| connection(input));
