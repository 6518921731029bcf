//! Fuzzes the parsers of the private data and the messages with which drop-in libraries connect
//! queue pairs.
#![no_main]

use braid_ibverbs::fuzzing::{connection_hello, exchanged_message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    connection_hello(input);
    exchanged_message(input);
});
