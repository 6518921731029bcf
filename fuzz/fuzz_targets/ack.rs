//! Fuzzes the decoder with acknowledgements.
#![no_main]

use braid_fuzz::{ACK, round_trip};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| round_trip(&ACK, input));
