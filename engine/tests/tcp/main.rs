//! The TCP datapath on networks that cut, reset, delay and stall its connections, and with
//! strangers on its port. The datapath that falls back to it.

#[path = "../pair/mod.rs"]
mod pair;
mod auto;
mod paths;
mod relay;
mod stranger;
mod strangers;
