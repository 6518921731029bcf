//! Each way in which a queue pair can end. It is a program of its own because the log has one
//! reader in a process.

mod each_way;
mod log;
mod optimistic_acks;
#[path = "../pair/mod.rs"]
mod pair;
#[path = "../scripted/mod.rs"]
mod scripted;
