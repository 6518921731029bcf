//! How others see into a running engine: an HTTP endpoint for Prometheus, and a local socket for
//! `braid-perf top PID`.
//!
//! Nothing here runs, and nothing is open, unless the engine is told so. One thread for each place
//! answers all that ask there, side by side, and asks the workers between two of their turns, ten
//! times a second at most.

mod clients;
mod endpoint;
mod exposition;
mod http;
mod server;
mod stream;

pub use endpoint::{MetricsEndpoint, UnknownEndpoint};
pub use server::EndpointError;

pub(crate) use server::{Registration, register};
