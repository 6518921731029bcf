//! Two hosts with any number of queue pairs, over a link of finite rate, in virtual time.

mod hosts;
#[path = "../kit/mod.rs"]
mod kit;
mod reads;
mod long_paths;
mod reordering;
mod sharing;
mod tails;
