//! `libplugin_BRAID.so`: a NIXL backend that moves memory between agents over Braid.
//!
//! NIXL opens the library from `NIXL_PLUGIN_DIR` and calls a C++ object. `abi/plugin.cpp` has that
//! object, and hands each call to [`abi`]:
//!
//! ```text
//!   abi                 pointers and codes of the C++ side; nothing else
//!   backend, core       one agent's engine, its peers and its memory
//!   settings, version   parameters of the backend; the version of the NIXL that loaded it
//!   memory              registered memory, and memory of peers
//!   transfer            lists of descriptors as work requests
//!   cost                how long transfers take
//!   connection          a queue pair to a peer, its transfers and notifications
//!   inbox, frame        the queue pairs of peers, their notifications
//!   service             a thread that accepts peers and continues long transfers
//! ```
//!
//! Each agent connects to the agents that it transfers with, or notifies. Their queue pairs to it
//! are others. `docs/kv-cache.md` explains the use.

pub mod abi;

mod addresses;
mod backend;
mod connection;
mod core;
mod cost;
mod frame;
mod inbox;
mod memory;
mod service;
mod settings;
mod status;
mod transfer;
mod version;
