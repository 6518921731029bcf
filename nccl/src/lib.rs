//! `libnccl-net-braid.so`: a net plugin that carries NCCL's traffic over Braid.
//!
//! NCCL opens the library and uses the newest of the tables `ncclNetPlugin_v6` to
//! `ncclNetPlugin_v12` that it supports, and those of its device-side communication:
//! `ncclRmaPlugin_v13`, `ncclRmaPlugin_v14` and `ncclGinPlugin_v13`. All of them are thin
//! translations ([`abi`]) to one core:
//!
//! ```text
//!   abi/v6 .. v12       layouts, C types, errors as codes; nothing else
//!   plugin, selection   the configuration and the network interfaces that init finds
//!   device              one of them, or several as its rails
//!   device_context      an open device: one engine, its listener and its memory
//!   progress_thread     drives that engine while NCCL does not poll
//!   listen, connect     set up communicators without blocking
//!   comm/               send and receive communicators, one queue pair each
//!   rma/                groups of ranks, which put into each other's memory: the RMA tables
//! ```
//!
//! Data takes one way only. A receiver sends the addresses of its buffers to the sender (a SEND of
//! at most 196 bytes), and the sender WRITEs the data there with immediate data. Only the engine's
//! placement copies data. `docs/nccl.md` explains the use.

pub mod abi;

mod broken;
mod choice;
mod closing;
mod comm;
mod config;
mod connect;
mod device;
mod device_context;
mod error;
mod greeting;
mod handle;
mod interfaces;
mod listen;
mod log;
mod memory;
mod plugin;
mod profiler;
mod progress_thread;
mod rdma;
mod result_code;
mod rma;
mod selection;
mod traffic_class;
