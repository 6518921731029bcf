//! The bytes on the wire: those that the code writes, and those that it reads, whatever they are.

mod decoding;
mod examples;
mod golden;
mod strategies;
