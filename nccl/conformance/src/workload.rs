//! The workload, which is the same for the plugin and for TCP.

use std::time::Duration;

/// Bytes of a message, and how many buffers each side uses in turn: as NCCL's proxy with its 8
/// steps.
pub(crate) const MESSAGE: usize = 1 << 20;
pub(crate) const SLOTS: usize = 8;
/// Duration of one measurement of throughput.
pub(crate) const LONG: Duration = Duration::from_millis(600);
/// Round trips of one measurement of latency.
pub(crate) const ROUND_TRIPS: u32 = 3000;
