//! The interface of rail policies.

use std::fmt;

use braid_wire::RailId;

use super::choice::RailChoice;
use super::host_loads::HostLoads;
use crate::StreamId;

/// A rail policy: picks the rail of each chunk, which is a run of bytes of a stream on one rail.
/// Each destination has its own instance.
pub trait RailPolicy: fmt::Debug + Send {
    /// Returns the rail of the stream's next chunk: one that is [open](RailChoice::open), or one
    /// that the chunk waits for. The first open rail replaces one that is not live.
    fn pick(&mut self, stream: StreamId, rails: &RailChoice<'_>) -> RailId;

    /// Records packets that are sent on a rail. Only policies that count the host's loads need
    /// this.
    fn on_sent(&mut self, _rail: RailId, _packets: u32, _host: &HostLoads) {}
}
