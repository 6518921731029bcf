//! A `libcuda.so.1` without a GPU, for tests and measurements of device memory.
//!
//! Device memory has addresses that the host cannot access, so a program that does is killed.
//! Copies run as late as CUDA allows: when somebody asks for an event behind them. So a buffer that
//! is reused too early is noticed. Streams keep the order of their copies, and not among each
//! other. `cuda_substitute_set` delays and fails copies.
//!
//! With `CUDA_SUBSTITUTE=free` in the environment, copies do nothing and cost nothing.

mod code;
mod behaviour;
mod memory;
mod streams;
mod state;
mod control;
mod driver;

pub use self::behaviour::{Behaviour, Record};
