//! Connections by address and port.

mod loopback;

use std::ffi::{c_int, c_void};
use std::net::TcpListener;
use std::ptr::{self, with_exposed_provenance_mut};
use std::thread;
use std::time::Duration;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::*;

const TCP: c_int = 0x0106;

/// Of `enum rdma_cm_event_type`.
const ADDR_RESOLVED: c_int = 0;
const ADDR_ERROR: c_int = 1;
const ROUTE_RESOLVED: c_int = 2;
const CONNECT_REQUEST: c_int = 4;
const CONNECT_ERROR: c_int = 6;
const REJECTED: c_int = 8;
const ESTABLISHED: c_int = 9;
const DISCONNECTED: c_int = 10;

fn address(port: u16) -> libc::sockaddr_in {
    // SAFETY: it consists of numbers.
    let mut addr: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    addr.sin_family = libc::AF_INET as libc::sa_family_t;
    addr.sin_port = port.to_be();
    addr.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    addr
}

/// What an event says, which is acknowledged.
struct Told {
    id: *mut rdma_cm_id,
    kind: c_int,
    status: c_int,
    private_data: Vec<u8>,
}

/// The next event, which is not acknowledged.
unsafe fn take(channel: *mut rdma_event_channel) -> *mut rdma_cm_event {
    let mut event = ptr::null_mut();
    // SAFETY: the channel exists.
    assert_eq!(unsafe { rdma_get_cm_event(channel, &raw mut event) }, 0);
    event
}

unsafe fn next(channel: *mut rdma_event_channel) -> Told {
    // SAFETY: the channel exists, and the event until it is acknowledged.
    unsafe {
        let event = take(channel);
        let conn = (*event).conn;
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

unsafe fn expect(channel: *mut rdma_event_channel, kind: c_int) -> Told {
    // SAFETY: as above.
    let told = unsafe { next(channel) };
    assert_eq!((told.kind, told.status), (kind, 0));
    told
}

fn param(private_data: &'static [u8]) -> rdma_conn_param {
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

unsafe fn new_id(channel: *mut rdma_event_channel) -> *mut rdma_cm_id {
    let mut id = ptr::null_mut();
    // SAFETY: the channel exists.
    assert_eq!(unsafe { rdma_create_id(channel, &raw mut id, 0x5 as *mut c_void, TCP) }, 0);
    id
}

/// A listener at any free port.
unsafe fn listen(channel: *mut rdma_event_channel) -> (*mut rdma_cm_id, u16) {
    // SAFETY: the address is one of IPv4.
    unsafe { listen_at(channel, ptr::from_mut(&mut address(0)).cast()) }
}

unsafe fn listen_at(
    channel: *mut rdma_event_channel,
    at: *mut libc::sockaddr,
) -> (*mut rdma_cm_id, u16) {
    // SAFETY: the calls are those of the man pages, with what the calls before have made.
    unsafe {
        let listener = new_id(channel);
        assert_eq!(rdma_bind_addr(listener, at), 0);
        assert_eq!(rdma_listen(listener, 4), 0);
        (listener, u16::from_be(rdma_get_src_port(listener)))
    }
}

/// An identifier whose route to that port is resolved.
unsafe fn resolved(channel: *mut rdma_event_channel, port: u16) -> *mut rdma_cm_id {
    // SAFETY: as above.
    unsafe {
        let id = new_id(channel);
        let mut to = address(port);
        assert_eq!(rdma_resolve_addr(id, ptr::null_mut(), (&raw mut to).cast(), 1000), 0);
        expect(channel, ADDR_RESOLVED);
        assert_eq!(rdma_resolve_route(id, 1000), 0);
        expect(channel, ROUTE_RESOLVED);
        id
    }
}

/// A queue pair of the identifier, and its completion queue.
unsafe fn with_qp(id: *mut rdma_cm_id) -> *mut ibv_cq {
    // SAFETY: as above.
    unsafe {
        let cq = ibv_create_cq((*id).verbs, 16, ptr::null_mut(), ptr::null_mut(), 0);
        let mut init = init_attr(cq, IBV_QPT_RC, 4, 4);
        assert_eq!(rdma_create_qp(id, ptr::null_mut(), &raw mut init), 0);
        cq
    }
}

#[test]
fn a_connection_carries_private_data_and_messages_and_ends_at_both_ends() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = resolved(client, port);
        let cq = with_qp(id);
        let mut asked = param(b"hello");
        assert_eq!(rdma_connect(id, &raw mut asked), 0);
        let request = expect(server, CONNECT_REQUEST);
        assert_eq!(request.private_data, b"hello");
        assert_eq!((*request.id).context, 0x5 as *mut c_void);
        let other_cq = with_qp(request.id);
        let mut memory = vec![0u8; 128];
        memory[..4].copy_from_slice(b"ping");
        let mr = ibv_reg_mr((*id).pd, memory.as_mut_ptr().cast(), memory.len(), ALL);
        assert!(!mr.is_null());
        let piece = |offset: u64, len| braid_verbs::Sge {
            addr: (*mr).addr as u64 + offset,
            len,
            lkey: (*mr).lkey,
        };
        assert_eq!(post_recv((*request.id).qp, 9, piece(64, 64)), 0);
        let mut given = param(b"welcome");
        assert_eq!(rdma_accept(request.id, &raw mut given), 0);
        assert_eq!(expect(client, ESTABLISHED).private_data, b"welcome");
        expect(server, ESTABLISHED);
        let mut ping = piece(0, 4);
        assert_eq!(post_send((*id).qp, &mut send_wr(7, &mut ping)).0, 0);
        assert_eq!((poll(cq).wr_id, poll(other_cq).wr_id), (7, 9));
        assert_eq!(&memory[64..68], b"ping");
        assert_eq!(rdma_disconnect(id), 0);
        expect(client, DISCONNECTED);
        expect(server, DISCONNECTED);
        assert_eq!(rdma_disconnect(request.id), 0);
        for (id, cq) in [(id, cq), (request.id, other_cq)] {
            rdma_destroy_qp(id);
            assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        }
        assert_eq!((rdma_destroy_id(listener), ibv_dereg_mr(mr)), (0, 0));
        rdma_destroy_event_channel(server);
        rdma_destroy_event_channel(client);
    }
}

#[test]
fn who_is_refused_or_finds_nobody_is_told() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = resolved(client, port);
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let request = expect(server, CONNECT_REQUEST);
        assert_eq!(rdma_reject(request.id, b"no".as_ptr().cast(), 2), 0);
        let told = next(client);
        assert_eq!((told.kind, told.status), (REJECTED, 28));
        assert_eq!(told.private_data, b"no");
        assert_eq!((rdma_destroy_id(request.id), rdma_destroy_id(listener)), (0, 0));
        rdma_destroy_qp(id);
        assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        // The listener is gone.
        let id = resolved(client, port);
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let told = next(client);
        assert_eq!((told.kind, told.status), (REJECTED, 8));
        rdma_destroy_qp(id);
        assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
    }
}

/// As UCX refuses.
#[test]
fn what_came_may_be_destroyed_before_its_event_is_acknowledged_and_the_listener_may_not() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = resolved(client, port);
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let event = take(server);
        assert_eq!(((*event).event, (*event).listen_id), (CONNECT_REQUEST, listener));
        assert_eq!(rdma_reject((*event).id, ptr::null(), 0), 0);
        assert_eq!(rdma_destroy_id((*event).id), 0);
        let address = listener.expose_provenance();
        let destroying =
            thread::spawn(move || rdma_destroy_id(with_exposed_provenance_mut(address)));
        thread::sleep(Duration::from_millis(100));
        assert!(!destroying.is_finished(), "its event is not acknowledged");
        assert_eq!(rdma_ack_cm_event(event), 0);
        assert_eq!(destroying.join().expect("it does not panic"), 0);
        assert_eq!(next(client).kind, REJECTED);
        rdma_destroy_qp(id);
        assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
    }
}

#[test]
fn as_many_reads_as_the_device_can_are_granted_and_more_are_refused() {
    /// `RDMA_MAX_RESP_RES` and `RDMA_MAX_INIT_DEPTH`.
    const MOST: u8 = 0xFF;
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = resolved(client, port);
        let cq = with_qp(id);
        let mut much = rdma_conn_param { responder_resources: 17, ..param(b"") };
        assert_eq!(rdma_connect(id, &raw mut much), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
        (much.responder_resources, much.initiator_depth) = (MOST, MOST);
        assert_eq!(rdma_connect(id, &raw mut much), 0);
        let request = take(server);
        let (other, conn) = ((*request).id, (*request).conn);
        assert_eq!((conn.responder_resources, conn.initiator_depth), (16, 16));
        assert_eq!(rdma_ack_cm_event(request), 0);
        let other_cq = with_qp(other);
        let mut much = rdma_conn_param { initiator_depth: 17, ..param(b"") };
        assert_eq!(rdma_accept(other, &raw mut much), -1);
        assert_eq!(rdma_accept(other, ptr::null_mut()), 0);
        expect(client, ESTABLISHED);
        expect(server, ESTABLISHED);
        for (id, cq) in [(id, cq), (other, other_cq)] {
            rdma_destroy_qp(id);
            assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        }
        assert_eq!(rdma_destroy_id(listener), 0);
    }
}

/// `rdma_get_cm_event(3)`: what one end asks for is what the other answers.
#[test]
fn a_request_says_what_its_receiver_may_use() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = resolved(client, port);
        let cq = with_qp(id);
        let (responder_resources, initiator_depth) = (3, 5);
        let mut asks = rdma_conn_param { responder_resources, initiator_depth, ..param(b"") };
        assert_eq!(rdma_connect(id, &raw mut asks), 0);
        let request = take(server);
        let (other, conn) = ((*request).id, (*request).conn);
        assert_eq!((conn.responder_resources, conn.initiator_depth), (5, 3));
        assert_eq!(rdma_ack_cm_event(request), 0);
        assert_eq!(rdma_reject(other, ptr::null(), 0), 0);
        assert_eq!(next(client).kind, REJECTED);
        rdma_destroy_qp(id);
        assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        assert_eq!((rdma_destroy_id(other), rdma_destroy_id(listener)), (0, 0));
    }
}

#[test]
fn an_address_resolves_from_the_source_that_is_named() {
    /// Of the loopback, and of no device.
    const NO_DEVICE: [u8; 4] = [127, 0, 0, 77];
    // SAFETY: as above.
    unsafe {
        let channel = rdma_create_event_channel();
        let id = new_id(channel);
        let resolve = |mut from: libc::sockaddr_in| {
            let mut to = address(1);
            let (source, to) = ((&raw mut from).cast(), (&raw mut to).cast());
            assert_eq!(rdma_resolve_addr(id, source, to, 1000), 0);
        };
        let mut nowhere = address(0);
        nowhere.sin_addr.s_addr = u32::from_ne_bytes(NO_DEVICE);
        resolve(nowhere);
        let told = next(channel);
        assert_eq!((told.kind, told.status), (ADDR_ERROR, -libc::ENODEV));
        resolve(address(0));
        expect(channel, ADDR_RESOLVED);
        assert_eq!(rdma_destroy_id(id), 0);
    }
}

#[test]
fn a_listener_of_ipv6_takes_ipv4_clients_as_such() {
    if TcpListener::bind("[::]:0").is_err() {
        return eprintln!("this host has no IPv6");
    }
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let mut any: libc::sockaddr_in6 = std::mem::zeroed();
        any.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        let (listener, port) = listen_at(server, (&raw mut any).cast());
        let id = resolved(client, port);
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let request = expect(server, CONNECT_REQUEST);
        let [from, to] = [(*request.id).route.addr.dst_addr, (*request.id).route.addr.src_addr]
            .map(|a| a.ss_family);
        assert_eq!([from, to].map(c_int::from), [libc::AF_INET; 2]);
        let other_cq = with_qp(request.id);
        assert_eq!(rdma_accept(request.id, &mut param(b"")), 0);
        expect(client, ESTABLISHED);
        expect(server, ESTABLISHED);
        for (id, cq) in [(id, cq), (request.id, other_cq)] {
            rdma_destroy_qp(id);
            assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        }
        assert_eq!(rdma_destroy_id(listener), 0);
    }
}

#[test]
fn who_disconnects_on_its_way_does_not_arrive_and_may_connect_again() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("a port is free").port();
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let id = resolved(client, port);
        let cq = with_qp(id);
        // Nobody listens: it is tried for a while.
        assert_eq!(rdma_connect(id, &mut param(b"first")), 0);
        assert_eq!(rdma_disconnect(id), 0);
        let (listener, _) = listen_at(server, ptr::from_mut(&mut address(port)).cast());
        let told = next(client);
        assert_eq!((told.kind, told.status), (CONNECT_ERROR, -libc::ECONNABORTED));
        rdma_destroy_qp(id);
        assert_eq!(ibv_destroy_cq(cq), 0);
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"second")), 0);
        let request = expect(server, CONNECT_REQUEST);
        assert_eq!(request.private_data, b"second");
        assert_eq!(rdma_reject(request.id, ptr::null(), 0), 0);
        assert_eq!(next(client).kind, REJECTED);
        rdma_destroy_qp(id);
        assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        assert_eq!((rdma_destroy_id(request.id), rdma_destroy_id(listener)), (0, 0));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    // SAFETY: null is refused, not looked into.
    unsafe {
        let channel = rdma_create_event_channel();
        let mut id = ptr::null_mut();
        assert_eq!(rdma_create_id(ptr::null_mut(), &raw mut id, ptr::null_mut(), TCP), -1);
        assert_eq!(rdma_create_id(channel, &raw mut id, ptr::null_mut(), 0x0111), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EOPNOTSUPP));
        let id = new_id(channel);
        assert_eq!(rdma_connect(id, ptr::null_mut()), -1);
        assert_eq!(rdma_accept(id, ptr::null_mut()), -1);
        assert_eq!(rdma_resolve_route(id, 0), -1);
        assert_eq!(rdma_listen(id, 1), -1);
        assert_eq!(rdma_resolve_addr(id, ptr::null_mut(), ptr::null_mut(), 0), -1);
        assert_eq!(rdma_destroy_id(id), 0);
        rdma_destroy_event_channel(channel);
    }
}
