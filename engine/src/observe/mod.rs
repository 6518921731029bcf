//! Metrics of a running engine for other processes: an HTTP endpoint for Prometheus, and a local
//! socket for `braid-perf top PID`.
//!
//! Nothing runs and nothing is open unless the engine is configured so. One thread for each address
//! serves all clients side by side. It asks the workers between two of their turns, at most ten
//! times a second. Without the feature `metrics`, engines with an endpoint are refused.
#![cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nothing is served"))]

mod clients;
mod endpoint;
mod engines;
#[cfg_attr(not(feature = "metrics"), path = "no_exposition.rs")]
mod exposition;
mod http;
mod server;
mod stream;

pub use endpoint::{EndpointError, MetricsEndpoint, UnknownEndpoint};

pub(crate) use server::{Registration, register};
