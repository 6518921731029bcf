//! Verbs, called as C programs call them.
//!
//! Tests that need a process of their own stand beside this program: `gids` and `log` run their own
//! program once more, `rails` sets the environment, and `sharing` forks. Each file about
//! `librdmacm` runs its program once more with a key, and such tests fail if they share a program.

#[path = "../loopback/mod.rs"]
mod loopback;
mod memory;
mod nic_drivers;
mod queue_pairs;
mod queues;
mod refusals;
mod work_requests;
