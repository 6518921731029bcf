//! Fuzzes what path discovery believes of ICMP messages, and what it makes of them.
#![no_main]

use braid::fuzzing::hearsay;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| hearsay(input));
