//! `braid-sim` as a user starts it.

mod cli;
mod cli_errors;
mod compare;
mod output;
