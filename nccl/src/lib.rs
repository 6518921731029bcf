//! `libnccl-net-braid.so`: NCCL's traffic over Braid.
//!
//! NCCL opens the library and takes the newest of the tables `ncclNetPlugin_v6` to
//! `ncclNetPlugin_v12` that it knows. All of them are thin translations ([`abi`]) to one core:
//!
//! ```text
//!   abi                 layouts, C types, errors as codes; nothing else
//!   plugin, selection   what init finds: the configuration and the network interfaces
//!   device              one of them, or several as its rails
//!   device_context      a device in use: one engine, its listener and its memory
//!   progress_thread     who drives that engine while NCCL does not
//!   listen, connect     how a communicator comes to be, without ever blocking
//!   comm/               send and receive communicators, one queue pair each
//! ```
//!
//! Data takes one way only: a receive tells the sender where it wants the bytes (a SEND of at most
//! 196 bytes), the sender WRITEs them there with immediate data. Nothing is copied but by the
//! engine's placing. `docs/nccl.md` says how to use it.

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
mod selection;
