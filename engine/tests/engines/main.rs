//! Engines of one process that communicate with each other or with a scripted peer. They form one
//! program, because each program has to be linked anew for every profile and sanitizer. Tests that
//! need a process of their own are separate: `ends` reads the log, `forked` forks, `flooded` counts
//! resident memory, `stale` takes a port twice, `attacks` floods ports.

mod accepting;
mod addresses;
mod attempts;
mod changing;
mod closing;
mod connections;
mod descriptors;
mod dual_stack;
mod endpoint;
mod errors;
mod faults;
mod group;
mod group_strangers;
mod identity;
mod iova;
mod keys;
mod killed;
mod metrics;
mod operations;
mod own_controller;
mod own_path_policy;
#[path = "../pair/mod.rs"]
mod pair;
mod privileged;
mod rails;
mod receiver_credit;
mod roce;
mod roce_marks;
mod roce_processes;
mod roce_ud;
mod room;
#[path = "../scripted/mod.rs"]
mod scripted;
mod shared_receives;
mod socket_options;
mod times;
mod vectors;
mod waiting;
