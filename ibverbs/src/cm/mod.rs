//! librdmacm: connections by IP address and port, with events. `librdmacm.so.1` contains names
//! only. The functions are in this library, so that both are one.
//!
//! The port of a listener is a UDP port. Over a link ([`crate::messages`]), both ends exchange the
//! GIDs and numbers of their queue pairs and their private data. Programs of plain verbs do that by
//! themselves. The link stays open until one end disconnects. The queue pairs find each other like
//! all others ([`crate::connect`]). For datagrams, the exchange returns the destination, and the
//! link ends with the answer.

mod accept;
mod addresses;
mod addrinfo;
mod answering;
mod connect;
mod connection;
mod create_qp;
mod devices;
mod endpoint;
mod establish;
mod events;
mod exchange;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod half_open;
mod id;
mod inherited;
mod listener;
mod lookup;
mod message;
mod options;
mod own_message;
mod peer_message;
mod port_space;
mod purpose;
mod queue_pair;
mod requesting;
mod resolve;
mod roce;
mod set_option;
mod structs;
mod synchronous;
mod threads;
mod unsupported;
mod wire_up;

pub use self::accept::{rdma_accept, rdma_disconnect, rdma_reject};
pub use self::addrinfo::{rdma_freeaddrinfo, rdma_getaddrinfo};
pub use self::connect::rdma_connect;
pub use self::create_qp::{
    rdma_create_qp, rdma_create_qp_ex, rdma_create_srq, rdma_destroy_qp, rdma_destroy_srq,
};
pub use self::devices::{rdma_free_devices, rdma_get_devices};
pub use self::endpoint::{rdma_create_ep, rdma_destroy_ep};
pub use self::establish::{rdma_establish, rdma_init_qp_attr};
pub use self::events::{
    rdma_ack_cm_event, rdma_create_event_channel, rdma_destroy_event_channel, rdma_event_str,
    rdma_get_cm_event,
};
pub use self::id::{rdma_create_id, rdma_destroy_id};
pub use self::listener::rdma_listen;
pub use self::resolve::{
    rdma_bind_addr, rdma_get_dst_port, rdma_get_src_port, rdma_resolve_addr, rdma_resolve_route,
};
pub use self::set_option::rdma_set_option;
pub use self::structs::{
    rdma_addrinfo, rdma_cm_event, rdma_cm_id, rdma_cm_param, rdma_conn_param, rdma_event_channel,
    rdma_ud_param,
};
pub use self::synchronous::{rdma_get_request, rdma_migrate_id};
pub use self::unsupported::*;
