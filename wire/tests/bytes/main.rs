//! Tests of the wire format: encoding matches `docs/wire.md`, and decoding is safe for any input.

mod cm;
mod decoding;
mod examples;
mod golden;
mod roce;
mod strategies;
