//! Verbs, called as C programs call them. What needs a process of its own is beside it: `gids` and
//! `log` start their own programs once more, `rails` sets the environment, `sharing` forks. Each
//! file about `librdmacm` starts its program once more with a key; in one program they fail then.

#[path = "../loopback/mod.rs"]
mod loopback;
mod memory;
mod nic_drivers;
mod queue_pairs;
mod queues;
mod refusals;
mod work_requests;
