//! Identifiers of connections on the loopback device, by the functions that C programs call.

use std::ffi::{c_int, c_void};
use std::ptr;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use super::init_attr;

pub const TCP: c_int = 0x0106;
pub const UDP: c_int = 0x0111;

/// Values of `enum rdma_cm_event_type`.
pub const ADDR_RESOLVED: c_int = 0;
pub const ADDR_ERROR: c_int = 1;
pub const ROUTE_RESOLVED: c_int = 2;
pub const CONNECT_REQUEST: c_int = 4;
pub const CONNECT_ERROR: c_int = 6;
pub const UNREACHABLE: c_int = 7;
pub const REJECTED: c_int = 8;
pub const ESTABLISHED: c_int = 9;
pub const DISCONNECTED: c_int = 10;

/// An address of the loopback that no device has.
pub const NO_DEVICE: [u8; 4] = [127, 0, 0, 77];

pub fn address(port: u16) -> libc::sockaddr_in {
    address_of([127, 0, 0, 1], port)
}

pub fn address_of(host: [u8; 4], port: u16) -> libc::sockaddr_in {
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut addr: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    addr.sin_family = libc::AF_INET as libc::sa_family_t;
    addr.sin_port = port.to_be();
    addr.sin_addr.s_addr = u32::from_ne_bytes(host);
    addr
}

/// The address ::1.
pub fn address_v6(port: u16) -> libc::sockaddr_in6 {
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut addr: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    addr.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    addr.sin6_port = port.to_be();
    addr.sin6_addr.s6_addr[15] = 1;
    addr
}

/// The contents of an event that was acknowledged.
pub struct Told {
    pub id: *mut rdma_cm_id,
    pub kind: c_int,
    pub status: c_int,
    pub private_data: Vec<u8>,
}

/// The next event, without acknowledging it.
pub unsafe fn take(channel: *mut rdma_event_channel) -> *mut rdma_cm_event {
    let mut event = ptr::null_mut();
    // SAFETY: the channel exists.
    assert_eq!(unsafe { rdma_get_cm_event(channel, &raw mut event) }, 0);
    event
}

pub unsafe fn next(channel: *mut rdma_event_channel) -> Told {
    // SAFETY: the channel exists, and the event until it is acknowledged.
    unsafe {
        let event = take(channel);
        let conn = (*event).param.conn;
        let private_data = match conn.private_data.is_null() {
            true => Vec::new(),
            false => std::slice::from_raw_parts(
                conn.private_data.cast::<u8>(),
                conn.private_data_len.into(),
            )
            .to_vec(),
        };
        let (id, kind, status) = ((*event).id, (*event).event, (*event).status);
        assert_eq!(rdma_ack_cm_event(event), 0);
        Told { id, kind, status, private_data }
    }
}

pub unsafe fn expect(channel: *mut rdma_event_channel, kind: c_int) -> Told {
    // SAFETY: as above.
    let told = unsafe { next(channel) };
    assert_eq!((told.kind, told.status), (kind, 0));
    told
}

pub fn param(private_data: &'static [u8]) -> rdma_conn_param {
    rdma_conn_param {
        private_data: private_data.as_ptr().cast(),
        private_data_len: private_data.len() as u8,
        responder_resources: 1,
        initiator_depth: 1,
        flow_control: 0,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: 0,
    }
}

pub unsafe fn new_id(channel: *mut rdma_event_channel) -> *mut rdma_cm_id {
    // SAFETY: the channel exists.
    unsafe { new_id_in(TCP, channel) }
}

pub unsafe fn new_id_in(space: c_int, channel: *mut rdma_event_channel) -> *mut rdma_cm_id {
    let mut id = ptr::null_mut();
    // SAFETY: the channel exists.
    assert_eq!(unsafe { rdma_create_id(channel, &raw mut id, 0x5 as *mut c_void, space) }, 0);
    id
}

/// A listener at a free port.
pub unsafe fn listen(channel: *mut rdma_event_channel) -> (*mut rdma_cm_id, u16) {
    // SAFETY: the address is an IPv4 address.
    unsafe { listen_at(channel, ptr::from_mut(&mut address(0)).cast()) }
}

pub unsafe fn listen_at(
    channel: *mut rdma_event_channel,
    at: *mut libc::sockaddr,
) -> (*mut rdma_cm_id, u16) {
    // SAFETY: as above.
    unsafe { listen_in(TCP, channel, at) }
}

pub unsafe fn listen_in(
    space: c_int,
    channel: *mut rdma_event_channel,
    at: *mut libc::sockaddr,
) -> (*mut rdma_cm_id, u16) {
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let listener = new_id_in(space, channel);
        assert_eq!(rdma_bind_addr(listener, at), 0);
        assert_eq!(rdma_listen(listener, 4), 0);
        (listener, u16::from_be(rdma_get_src_port(listener)))
    }
}

/// An identifier with a resolved route to that port.
pub unsafe fn resolved(channel: *mut rdma_event_channel, port: u16) -> *mut rdma_cm_id {
    // SAFETY: the address is an IPv4 address.
    unsafe { resolved_to(channel, ptr::from_mut(&mut address(port)).cast()) }
}

pub unsafe fn resolved_to(
    channel: *mut rdma_event_channel,
    to: *mut libc::sockaddr,
) -> *mut rdma_cm_id {
    // SAFETY: as above.
    unsafe { resolved_in(TCP, channel, to) }
}

pub unsafe fn resolved_in(
    space: c_int,
    channel: *mut rdma_event_channel,
    to: *mut libc::sockaddr,
) -> *mut rdma_cm_id {
    // SAFETY: as above.
    unsafe {
        let id = new_id_in(space, channel);
        assert_eq!(rdma_resolve_addr(id, ptr::null_mut(), to, 1000), 0);
        expect(channel, ADDR_RESOLVED);
        assert_eq!(rdma_resolve_route(id, 1000), 0);
        expect(channel, ROUTE_RESOLVED);
        id
    }
}

/// Creates a queue pair for the identifier. Returns its completion queue.
pub unsafe fn with_qp(id: *mut rdma_cm_id) -> *mut ibv_cq {
    // SAFETY: as above.
    unsafe {
        let cq = ibv_create_cq((*id).verbs, 16, ptr::null_mut(), ptr::null_mut(), 0);
        let mut init = init_attr(cq, (*id).qp_type, 4, 4);
        assert_eq!(rdma_create_qp(id, ptr::null_mut(), &raw mut init), 0);
        cq
    }
}
