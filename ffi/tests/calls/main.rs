//! What a C program calls, and gets. What needs a process of its own is beside it: `ends` hears the log, `nothing_left` counts
//! descriptors, threads and memory.

mod descriptors;
mod group;
mod hostile;
mod keyed;
mod metrics;
mod operations;
#[path = "../pair/mod.rs"]
mod pair;
mod waiting;
