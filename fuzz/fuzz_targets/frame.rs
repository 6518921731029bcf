//! Fuzzes what is believed of Ethernet frames that AF_XDP hands over.
#![no_main]

use braid::fuzzing::ethernet_frame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| ethernet_frame(input));
