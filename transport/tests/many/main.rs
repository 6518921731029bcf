//! Two hosts with as many queue pairs as a test asks for, over a link of finite rate, in virtual time.

#[path = "../everything/mod.rs"]
mod everything;
mod hosts;
mod reads;
mod reordering;
mod sharing;
mod tails;
