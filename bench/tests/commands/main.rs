//! `braid-perf` as a user starts it.

mod auto_cut;
mod bandwidth;
mod device_memory;
mod info;
mod interrupt;
mod keys;
mod many_clients;
mod moe;
mod output;
mod perftest;
mod roce_marks;
mod server;
mod top;
