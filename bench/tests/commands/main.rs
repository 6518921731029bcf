//! `braid-perf` as a user starts it.

mod bandwidth;
mod info;
mod keys;
mod output;
mod perftest;
mod server;
mod top;
