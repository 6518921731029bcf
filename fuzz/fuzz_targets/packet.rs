//! Fuzzes the decoder with any datagram.
#![no_main]

use braid_fuzz::any_packet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| any_packet(input));
