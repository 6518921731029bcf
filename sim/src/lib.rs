//! A deterministic packet-level simulator that drives the shipped protocol in virtual time.
//!
//! The hosts run `braid_transport::Endpoint` with the path policies of `braid_lb` and the
//! controllers of `braid_cc`: no part of the protocol is modelled here. The model is the fabric:
//! links, queues, switches and their policies, in whole picoseconds. One run is one thread. The
//! same scenario with the same seed gives the same result bit for bit.
//!
//! The modules, from the top down: [`scenario`] describes a run in a file. [`simulation`] runs it.
//! [`host`] turns the transmissions of an endpoint into packets. [`fabric`] moves packets.
//! [`switch`] chooses routes. [`port`] queues packets. [`topology`] and [`workload`] define the
//! plan and the messages. [`events`] keeps the time.
#![forbid(unsafe_code)]

pub mod events;
pub mod fabric;
pub mod frames;
pub mod host;
pub mod packet;
pub mod parallel;
pub mod port;
pub mod planning;
pub mod probe;
mod look_ahead;
mod prefetch;
mod progress;
pub mod report;
pub mod scenario;
pub mod simulation;
pub mod switch;
pub mod time;
pub mod topology;
pub mod workload;
