//! Connections by address and port.

mod loopback;

use std::ffi::{c_int, c_void};
use std::net::TcpListener;
use std::ptr::{self, with_exposed_provenance_mut};
use std::thread;
use std::time::Duration;

use braid_ibverbs::*;
use braid_verbs::abi::{IBV_QP_MIN_RNR_TIMER, IBV_QP_RNR_RETRY, IBV_QPS_ERR, IBV_WC_WR_FLUSH_ERR};

use self::loopback::connections::*;
use self::loopback::*;

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

/// A receive of no bytes.
fn nothing() -> braid_verbs::Sge {
    braid_verbs::Sge { addr: 0, len: 0, lkey: 0 }
}

#[test]
fn rejection_and_a_missing_listener_are_reported() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = resolved(client, port);
        let cq = with_qp(id);
        assert_eq!(post_recv((*id).qp, 3, nothing()), 0);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let request = expect(server, CONNECT_REQUEST);
        assert_eq!(rdma_reject(request.id, b"no".as_ptr().cast(), 2), 0);
        let told = next(client);
        assert_eq!((told.kind, told.status), (REJECTED, 28));
        assert_eq!(told.private_data, b"no");
        // A program that waits for its receives, such as `rping`, gets them flushed.
        let flushed = poll_within(cq, Duration::ZERO).map(|wc| (wc.wr_id, wc.status));
        assert_eq!(flushed, Some((3, IBV_WC_WR_FLUSH_ERR)));
        assert_eq!((rdma_destroy_id(request.id), rdma_destroy_id(listener)), (0, 0));
        rdma_destroy_qp(id);
        assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        // The listener has ended.
        let id = resolved(client, port);
        let cq = with_qp(id);
        assert_eq!(post_recv((*id).qp, 4, nothing()), 0);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let told = next(client);
        assert_eq!((told.kind, told.status), (REJECTED, 8));
        let flushed = poll_within(cq, Duration::ZERO).map(|wc| (wc.wr_id, wc.status));
        assert_eq!((flushed, state((*id).qp)), (Some((4, IBV_WC_WR_FLUSH_ERR)), IBV_QPS_ERR));
        rdma_destroy_qp(id);
        assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
    }
}

/// UCX rejects connections in this way.
#[test]
fn a_connection_may_be_destroyed_before_its_event_is_acknowledged_and_the_listener_may_not() {
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
    /// The value of `RDMA_MAX_RESP_RES` and `RDMA_MAX_INIT_DEPTH`.
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
        let (other, conn) = ((*request).id, (*request).param.conn);
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

/// `rdma_get_cm_event(3)`: the requests of one end need the resources of the other.
#[test]
fn a_request_carries_the_limits_of_its_receiver() {
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
        let (other, conn) = ((*request).id, (*request).param.conn);
        assert_eq!((conn.responder_resources, conn.initiator_depth), (5, 3));
        assert_eq!(rdma_ack_cm_event(request), 0);
        assert_eq!(rdma_reject(other, ptr::null(), 0), 0);
        assert_eq!(next(client).kind, REJECTED);
        rdma_destroy_qp(id);
        assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        assert_eq!((rdma_destroy_id(other), rdma_destroy_id(listener)), (0, 0));
    }
}

/// `rdma_connect(3)`: `rnr_retry_count` limits the retries of the other end. A limited end waits as
/// long as the kernel's connections do.
#[test]
fn an_end_retries_as_often_as_the_other_end_allows() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = resolved(client, port);
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut rdma_conn_param { rnr_retry_count: 7, ..param(b"") }), 0);
        let other = expect(server, CONNECT_REQUEST).id;
        let other_cq = with_qp(other);
        assert_eq!(
            rdma_accept(other, &mut rdma_conn_param { rnr_retry_count: 5, ..param(b"") }),
            0
        );
        expect(client, ESTABLISHED);
        expect(server, ESTABLISHED);
        for (id, retries, timer) in [(id, 5, 12), (other, 7, 0)] {
            let attr = queried((*id).qp, IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER);
            assert_eq!((attr.rnr_retry, attr.min_rnr_timer), (retries, timer));
        }
        for (id, cq) in [(id, cq), (other, other_cq)] {
            rdma_destroy_qp(id);
            assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        }
        assert_eq!(rdma_destroy_id(listener), 0);
    }
}

#[test]
fn an_address_resolves_from_the_source_that_is_named() {
    // SAFETY: as above.
    unsafe {
        let channel = rdma_create_event_channel();
        let id = new_id(channel);
        let resolve = |mut from: libc::sockaddr_in| {
            let mut to = address(1);
            let (source, to) = ((&raw mut from).cast(), (&raw mut to).cast());
            assert_eq!(rdma_resolve_addr(id, source, to, 1000), 0);
        };
        resolve(address_of(NO_DEVICE, 0));
        let told = next(channel);
        assert_eq!((told.kind, told.status), (ADDR_ERROR, -libc::ENODEV));
        resolve(address(0));
        expect(channel, ADDR_RESOLVED);
        assert_eq!(rdma_destroy_id(id), 0);
    }
}

/// `rdma_bind_addr(3)`.
#[test]
fn port_0_is_one_that_is_free_from_binding_on() {
    fn errno() -> Option<c_int> {
        std::io::Error::last_os_error().raw_os_error()
    }
    unsafe fn bind(id: *mut rdma_cm_id, port: u16) -> c_int {
        // SAFETY: the identifier exists.
        unsafe { rdma_bind_addr(id, ptr::from_mut(&mut address(port)).cast()) }
    }
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let [listener, late, id] = [server, server, client].map(|channel| new_id(channel));
        assert_eq!((bind(listener, 0), bind(id, 0)), (0, 0));
        let [port, own] = [listener, id].map(|id| rdma_get_src_port(id));
        assert!(port != 0 && own != 0 && port != own);
        assert_eq!((bind(listener, 0), errno()), (-1, Some(libc::EINVAL)));
        assert_eq!((rdma_listen(listener, 0), rdma_get_src_port(listener)), (0, port));
        let port = u16::from_be(port);
        assert_eq!((bind(late, port), errno()), (-1, Some(libc::EADDRINUSE)));
        let mut to = address(port);
        assert_eq!(rdma_resolve_addr(id, ptr::null_mut(), (&raw mut to).cast(), 1000), 0);
        expect(client, ADDR_RESOLVED);
        assert_eq!(rdma_get_src_port(id), own);
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let request = expect(server, CONNECT_REQUEST);
        assert_eq!(rdma_get_dst_port(request.id), own, "it comes from its port");
        assert_eq!(rdma_reject(request.id, ptr::null(), 0), 0);
        assert_eq!(next(client).kind, REJECTED);
        rdma_destroy_qp(id);
        assert_eq!(ibv_destroy_cq(cq), 0);
        for id in [id, late, request.id, listener] {
            assert_eq!(rdma_destroy_id(id), 0);
        }
        rdma_destroy_event_channel(server);
        rdma_destroy_event_channel(client);
    }
}

/// UCX's servers and tgtd do this, and the kernel permits it.
#[test]
fn the_tcp_port_of_a_listener_stays_free() {
    // SAFETY: as above.
    unsafe {
        let server = rdma_create_event_channel();
        let (listener, port) = listen(server);
        let tcp = TcpListener::bind(("127.0.0.1", port)).map(drop);
        assert!(tcp.is_ok(), "TCP port {port}: {tcp:?}");
        assert_eq!(rdma_destroy_id(listener), 0);
        rdma_destroy_event_channel(server);
    }
}

/// The kernel finds a device for a loopback address only when it resolves another one.
#[test]
fn a_loopback_address_has_no_device_before_it_is_resolved() {
    // SAFETY: as above.
    unsafe {
        let channel = rdma_create_event_channel();
        let id = new_id(channel);
        assert_eq!(rdma_bind_addr(id, ptr::from_mut(&mut address(0)).cast()), 0);
        assert!((*id).verbs.is_null() && (*id).pd.is_null());
        let mut to = address(1);
        assert_eq!(rdma_resolve_addr(id, ptr::null_mut(), (&raw mut to).cast(), 1000), 0);
        expect(channel, ADDR_RESOLVED);
        assert!(!(*id).verbs.is_null() && !(*id).pd.is_null());
        assert_eq!(rdma_destroy_id(id), 0);
        let id = new_id(channel);
        let mut other = address_of(NO_DEVICE, 0);
        assert_eq!(rdma_bind_addr(id, (&raw mut other).cast()), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENODEV));
        assert_eq!(rdma_destroy_id(id), 0);
        rdma_destroy_event_channel(channel);
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
fn a_cancelled_attempt_does_not_arrive_and_may_be_repeated() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("a port is free").port();
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let id = resolved(client, port);
        let cq = with_qp(id);
        // Without a listener, the attempt is repeated for a while.
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
fn nonsensical_attributes_are_refused() {
    // SAFETY: the library refuses null.
    unsafe {
        let channel = rdma_create_event_channel();
        let (mut id, ipoib) = (ptr::null_mut(), 0x0002);
        assert_eq!(rdma_create_id(channel, ptr::null_mut(), ptr::null_mut(), TCP), -1);
        assert_eq!(rdma_create_id(channel, &raw mut id, ptr::null_mut(), ipoib), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EOPNOTSUPP));
        let id = new_id(channel);
        assert_eq!(rdma_connect(id, ptr::null_mut()), -1);
        assert_eq!(rdma_accept(id, ptr::null_mut()), -1);
        assert_eq!(rdma_resolve_route(id, 0), -1);
        assert_eq!(rdma_listen(id, 1), -1);
        assert_eq!(rdma_get_request(id, &mut ptr::null_mut()), -1);
        assert_eq!(rdma_create_qp(id, ptr::null_mut(), ptr::null_mut()), -1);
        assert_eq!(
            rdma_create_ep(ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut()),
            -1
        );
        assert_eq!(rdma_resolve_addr(id, ptr::null_mut(), ptr::null_mut(), 0), -1);
        assert_eq!(rdma_destroy_id(id), 0);
        rdma_destroy_event_channel(channel);
    }
}

#[test]
fn all_tests_pass_with_a_key() {
    keyed::again("all_tests_pass_with_a_key");
}
