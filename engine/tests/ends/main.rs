//! Tests each cause of a queue pair's end. They form a program of their own because the log has one
//! reader in a process.

mod each_way;
mod log;
mod optimistic_acks;
#[path = "../pair/mod.rs"]
mod pair;
#[path = "../scripted/mod.rs"]
mod scripted;
