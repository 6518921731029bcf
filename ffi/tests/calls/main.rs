//! Calls of the C API and their results.
//!
//! Other test programs need a process of their own: `ends` receives the log, and `nothing_left`
//! counts descriptors, threads and memory.

mod datagrams;
mod descriptors;
mod group;
mod hostile;
mod keyed;
mod metrics;
mod operations;
#[path = "../pair/mod.rs"]
mod pair;
mod waiting;
