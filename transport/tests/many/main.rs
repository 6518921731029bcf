//! Two hosts with as many queue pairs as a test asks for, over a link of finite rate, in virtual
//! time.

mod hosts;
#[path = "../kit/mod.rs"]
mod kit;
mod reads;
mod reordering;
mod sharing;
mod tails;
