//! Fuzzes the datagrams of the drop-in's reliable messages, and an end of a link that receives
//! them.
#![no_main]

use braid_ibverbs::fuzzing::link_datagrams;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| link_datagrams(input));
