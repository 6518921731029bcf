//! The capabilities of an engine's datapath.

use crate::datapath::Caps;

/// The capabilities of an engine's datapath on this machine, as the engine has opened it. See
/// [`crate::Engine::datapath_attributes`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct DatapathAttributes {
    /// The protocols of the packets, such as `UDP`. A connection uses one of them, see
    /// [`crate::QueuePair::protocol`]; the attributes are of the first.
    pub protocols: &'static [&'static str],
    /// The largest number of packets that leave together: in one GSO call over UDP, in one list of
    /// work requests over verbs. 1: packets leave one by one.
    pub batch_segments: u32,
    /// The largest number of bytes of these packets, headers included.
    pub batch_bytes: u64,
    /// Whether packets of several queue pairs may leave together.
    pub joint_batches: bool,
    /// Payload bytes of a full packet, unless [`crate::EngineConfig::mtu`] or the path limits it.
    pub segment: u16,
    /// Payload bytes of a full packet that the peer's NIC places. `None`: software places all
    /// payloads.
    pub direct_segment: Option<u16>,
    /// The receive buffer of a worker in bytes, as far as the system has granted
    /// [`crate::EngineConfig::receive_buffer`]. `None`: packets never arrive without room for them.
    pub receive_buffer: Option<u32>,
    /// Whether Braid adds a CRC to payloads where [`crate::EngineConfig::crc`] asks for it.
    /// Otherwise the medium checks them.
    pub payload_crc: bool,
    /// Whether Braid searches for the path MTU.
    pub path_mtu_search: bool,
    /// Whether the datapath reports congestion marks (ECN CE) of arrived packets. Without them, a
    /// congestion controller that relies on marks has no input.
    pub congestion_marks: bool,
}

impl DatapathAttributes {
    pub(crate) fn new(caps: Caps, protocols: &'static [&'static str]) -> Self {
        DatapathAttributes {
            protocols,
            batch_segments: caps.batch_segments,
            batch_bytes: caps.batch_bytes,
            joint_batches: caps.joint_batches,
            segment: caps.segment,
            direct_segment: caps.direct.map(|direct| direct.long),
            receive_buffer: Some(caps.receive_buffer).filter(|bytes| *bytes < u32::MAX),
            payload_crc: caps.checks_payloads,
            path_mtu_search: caps.search_path_mtu,
            congestion_marks: caps.congestion_marks,
        }
    }
}
