//! A deterministic packet-level simulator that drives the shipped protocol in virtual time.
//!
//! The hosts run `braid_transport::Endpoint` with the path policies of `braid_lb` and the controllers
//! of `braid_cc`: nothing of the protocol is modelled here. What is modelled is the fabric: links,
//! queues, switches and their policies, in whole picoseconds. One run is one thread, and the same
//! scenario with the same seed gives the same result bit for bit.
//!
//! Downwards: [`scenario`] describes a run in a file; [`simulation`] runs it; [`host`] turns what an
//! endpoint says into packets; [`fabric`] moves packets; [`switch`] chooses where to; [`port`] queues them; [`topology`] and
//! [`workload`] say what is built and what is sent; [`events`] keeps the time.
#![forbid(unsafe_code)]

pub mod events;
pub mod fabric;
pub mod frames;
pub mod host;
pub mod packet;
pub mod parallel;
pub mod port;
pub mod probe;
pub mod report;
pub mod scenario;
pub mod simulation;
pub mod switch;
pub mod time;
pub mod topology;
pub mod workload;
