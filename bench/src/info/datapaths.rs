//! The datapaths and their offers on this machine, queried from an engine over each.

use std::net::UdpSocket;

use braid::{
    Datapath, DatapathAttributes, DatapathKind, DatapathOptions, Engine, EngineConfig, EngineError,
    Medium, MemFabric, Progress, VerbsOptions, check_xdp,
};
use nix::sys::socket::{setsockopt, sockopt};
use serde::Serialize;

/// A datapath, over a device if it needs one.
#[derive(Serialize)]
pub(super) struct Offer {
    pub(super) name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<String>,
    #[serde(flatten)]
    pub(super) found: Availability,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Availability {
    Offers(Offers),
    /// The reason why it cannot be used.
    Unavailable(String),
}

#[derive(Clone, Serialize)]
pub(super) struct Offers {
    /// Maximum packets of a batch, and their bytes, including headers.
    pub(super) batch_segments: u32,
    pub(super) batch_bytes: u64,
    /// Payload bytes of a full packet, and of one that the NIC places.
    pub(super) segment_bytes: u16,
    pub(super) direct_segment_bytes: Option<u16>,
    /// Bytes of arrived packets that it buffers. `null`: no packet arrives without room.
    pub(super) receive_buffer_bytes: Option<u32>,
    /// Whether payloads can carry an end-to-end CRC. Otherwise the medium checks them.
    pub(super) payload_crc: bool,
    /// Whether it discovers the path MTU.
    pub(super) path_mtu_search: bool,
    /// Whether the ECN marks of arrived packets are known.
    pub(super) congestion_marks: bool,
    /// The longest datagram over AF_XDP; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) xdp_datagram_bytes: Option<usize>,
    /// Offers of UDP only.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) udp: Option<UdpOffers>,
}

#[derive(Clone, Copy, Serialize)]
pub(super) struct UdpOffers {
    /// Whether the kernel splits batches into datagrams.
    pub(super) gso: bool,
    /// Whether the kernel coalesces datagrams that arrived together.
    pub(super) gro: bool,
    /// Whether packets have the timestamps of the kernel or the NIC. Otherwise the engine takes its
    /// own.
    pub(super) timestamps: bool,
    /// The requested receive buffer, of which the kernel granted `receive_buffer_bytes`.
    pub(super) receive_buffer_asked_bytes: usize,
}

/// Returns all datapaths, with verbs once per device.
pub(super) fn all(devices: &[&str]) -> Vec<Offer> {
    DatapathKind::all().flat_map(|kind| of_kind(kind, devices)).collect()
}

fn of_kind(kind: DatapathKind, devices: &[&str]) -> Vec<Offer> {
    let is_device = kind.medium() == Medium::Device;
    match devices {
        [] if is_device => {
            let why = "this machine has no RDMA device (`rdma link add rxe0 type rxe netdev IF` makes a Soft-RoCE one)";
            let found = Availability::Unavailable(why.to_owned());
            vec![Offer { name: kind.name(), device: None, found }]
        }
        devices if is_device => devices.iter().map(|device| offer(kind, Some(*device))).collect(),
        _ => vec![offer(kind, None)],
    }
}

fn offer(kind: DatapathKind, device: Option<&str>) -> Offer {
    let options =
        DatapathOptions { device: device.map(VerbsOptions::new), fabric: Some(MemFabric::new()) };
    let found = match kind.build(&options) {
        Ok(Datapath::Xdp) => xdp(&found(Datapath::Udp)),
        Ok(datapath) => found(datapath),
        Err(error) => Availability::Unavailable(error.to_string()),
    };
    Offer { name: kind.name(), device: device.map(str::to_owned), found }
}

fn found(datapath: Datapath) -> Availability {
    let is_udp = matches!(datapath, Datapath::Udp);
    match attributes(datapath) {
        Ok(attributes) => Availability::Offers(offers(&attributes, is_udp)),
        Err(error) => Availability::Unavailable(error.to_string()),
    }
}

/// Returns the offers of UDP sockets with AF_XDP. Nothing is opened, because an engine would need
/// an interface.
fn xdp(udp: &Availability) -> Availability {
    match (check_xdp(), udp) {
        (Err(why), _) => Availability::Unavailable(EngineError::from(why).to_string()),
        (Ok(_), Availability::Unavailable(why)) => Availability::Unavailable(why.clone()),
        (Ok(longest), Availability::Offers(udp)) => {
            Availability::Offers(Offers { xdp_datagram_bytes: Some(longest), ..udp.clone() })
        }
    }
}

fn attributes(datapath: Datapath) -> Result<DatapathAttributes, EngineError> {
    let progress = Progress::Application;
    let config = EngineConfig { datapath, progress, ..EngineConfig::default() };
    Ok(Engine::new(config)?.datapath_attributes())
}

fn offers(found: &DatapathAttributes, is_udp: bool) -> Offers {
    Offers {
        batch_segments: found.batch_segments,
        batch_bytes: found.batch_bytes,
        segment_bytes: found.segment,
        direct_segment_bytes: found.direct_segment,
        receive_buffer_bytes: found.receive_buffer,
        payload_crc: found.payload_crc,
        path_mtu_search: found.path_mtu_search,
        congestion_marks: found.congestion_marks,
        xdp_datagram_bytes: None,
        udp: is_udp.then(|| UdpOffers {
            gso: found.batch_segments > 1,
            gro: knows_gro(),
            timestamps: false,
            receive_buffer_asked_bytes: EngineConfig::default().receive_buffer,
        }),
    }
}

/// Returns whether the kernel has `UDP_GRO` (Linux 5.0), which the engine uses if available.
fn knows_gro() -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::1]:0"));
    socket.is_ok_and(|socket| setsockopt(&socket, sockopt::UdpGroSegment, &true).is_ok())
}
