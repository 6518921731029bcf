//! What is on the wire: what the code writes, and what it makes of any bytes.

mod decoding;
mod examples;
mod golden;
mod strategies;
