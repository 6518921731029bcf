//! The TCP datapath on networks that cut, reset, delay and stall its connections, and with
//! strangers on its port.

#[path = "../pair/mod.rs"]
mod pair;
mod paths;
mod relay;
mod stranger;
mod strangers;
