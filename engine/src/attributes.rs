//! What an engine's datapath offers.

use crate::datapath::Caps;

/// What the datapath of an engine offers on this machine, as it was opened; see
/// [`crate::Engine::datapath_attributes`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct DatapathAttributes {
    /// Most packets that leave together: over UDP with one GSO call, over verbs with one list of
    /// work requests. 1: one by one.
    pub batch_segments: u32,
    /// Most bytes of these, headers included.
    pub batch_bytes: u64,
    /// Whether packets of several queue pairs may leave together.
    pub joint_batches: bool,
    /// Payload bytes of a full packet, unless [`crate::EngineConfig::mtu`] or the path says
    /// otherwise.
    pub segment: u16,
    /// Payload bytes of one that the peer's NIC places; `None`: software places all.
    pub direct_segment: Option<u16>,
    /// Bytes of arrived packets that the system holds for a worker, as much as it has granted of
    /// [`crate::EngineConfig::receive_buffer`]; `None`: nothing can arrive that there is no room
    /// for.
    pub receive_buffer: Option<u32>,
    /// Whether payloads carry a check of ours where [`crate::EngineConfig::crc`] asks for it;
    /// otherwise the medium checks them.
    pub payload_crc: bool,
    /// Whether the MTU of the path is searched for.
    pub path_mtu_search: bool,
    /// Whether congestion marks (ECN CE) of packets that have come are known. A congestion control
    /// that relies on them has nothing to go by otherwise.
    pub congestion_marks: bool,
}

impl From<Caps> for DatapathAttributes {
    fn from(caps: Caps) -> Self {
        DatapathAttributes {
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
