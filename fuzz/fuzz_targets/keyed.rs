//! Fuzzes what a keyed connection reads: the messages of a handshake and envelopes, from who has no
//! key, and offers from a peer that has it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| braid_fuzz::keyed(input));
