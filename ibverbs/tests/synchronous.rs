//! Connections without event channels: calls wait for the events that they cause.

mod loopback;

use std::ffi::{CString, c_int};
use std::ptr::{self, with_exposed_provenance_mut};
use std::slice;
use std::thread;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::connections::*;
use self::loopback::*;

/// `RAI_PASSIVE`.
const PASSIVE: c_int = 1;

/// The answer of `rdma_getaddrinfo` for a port of the loopback.
unsafe fn found(port: u16, flags: c_int) -> *mut rdma_addrinfo {
    // SAFETY: the structure consists of numbers and pointers, so zero is valid.
    let mut hints: rdma_addrinfo = unsafe { std::mem::zeroed() };
    (hints.ai_flags, hints.ai_port_space) = (flags, TCP);
    let service = CString::new(port.to_string()).expect("no NUL");
    let mut found = ptr::null_mut();
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let (node, service) = (c"127.0.0.1".as_ptr(), service.as_ptr());
        assert_eq!(rdma_getaddrinfo(node, service, &raw const hints, &raw mut found), 0);
    }
    found
}

/// The addresses of the hints, as libfabric passes them: without a node or a service.
#[test]
fn addresses_of_the_hints_are_the_result() {
    let (mut source, mut destination) = (address(0), address(7471));
    // SAFETY: the structure consists of numbers and pointers, so zero is valid.
    let mut hints: rdma_addrinfo = unsafe { std::mem::zeroed() };
    let len = size_of::<libc::sockaddr_in>();
    hints.ai_port_space = TCP;
    (hints.ai_src_addr, hints.ai_src_len) = ((&raw mut source).cast(), len as u32);
    let ask = |hints: *const rdma_addrinfo| {
        let (mut found, none) = (ptr::null_mut(), ptr::null());
        // SAFETY: as above.
        let code = unsafe { rdma_getaddrinfo(none, none, hints, &raw mut found) };
        (code, found)
    };
    let port = |addr: *mut libc::sockaddr| {
        // SAFETY: the address is an IPv4 address.
        unsafe { addr.cast::<libc::sockaddr_in>().as_ref() }.map(|addr| u16::from_be(addr.sin_port))
    };
    // SAFETY: as above.
    unsafe {
        for (has_destination, flags) in [(false, PASSIVE), (false, 0), (true, 0)] {
            hints.ai_flags = flags;
            if has_destination {
                hints.ai_dst_addr = (&raw mut destination).cast();
                hints.ai_dst_len = len as u32;
            }
            let (code, found) = ask(&raw const hints);
            assert_eq!(code, 0);
            let info = &*found;
            assert_eq!((port(info.ai_src_addr), info.ai_src_len as usize), (Some(0), len));
            assert_eq!(port(info.ai_dst_addr), has_destination.then_some(7471));
            assert_eq!(info.ai_dst_len as usize, if has_destination { len } else { 0 });
            assert!(info.ai_next.is_null());
            assert_eq!((info.ai_family, info.ai_flags), (libc::AF_INET, flags));
            rdma_freeaddrinfo(found);
        }
        hints.ai_src_len = 1000;
        for wrong in [&raw const hints, ptr::null()] {
            let (code, found) = ask(wrong);
            assert_eq!(
                (code, std::io::Error::last_os_error().raw_os_error()),
                (-1, Some(libc::EINVAL))
            );
            assert!(found.is_null(), "nothing is written");
        }
    }
}

/// Attributes without completion queues.
fn attributes() -> ibv_qp_init_attr {
    let mut attr = init_attr(ptr::null_mut(), IBV_QPT_RC, 4, 4);
    attr.sq_sig_all = 1;
    attr
}

unsafe fn endpoint(port: u16, flags: c_int, attr: *mut ibv_qp_init_attr) -> *mut rdma_cm_id {
    let mut id = ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        let found = found(port, flags);
        assert_eq!(rdma_create_ep(&raw mut id, found, ptr::null_mut(), attr), 0);
        rdma_freeaddrinfo(found);
    }
    id
}

/// A synchronous listener at a free port.
unsafe fn listener(attr: *mut ibv_qp_init_attr) -> (*mut rdma_cm_id, u16) {
    // SAFETY: as above.
    unsafe {
        let id = endpoint(0, PASSIVE, attr);
        assert_eq!(rdma_listen(id, 0), 0);
        (id, u16::from_be(rdma_get_src_port(id)))
    }
}

unsafe fn request(listener: *mut rdma_cm_id) -> *mut rdma_cm_id {
    let mut id = ptr::null_mut();
    // SAFETY: as above.
    assert_eq!(unsafe { rdma_get_request(listener, &raw mut id) }, 0);
    id
}

/// The type and the private data of the latest event.
unsafe fn latest(id: *mut rdma_cm_id) -> (c_int, Vec<u8>) {
    // SAFETY: as above.
    unsafe {
        let event = (*id).event.as_ref().expect("there was one");
        let data = match event.param.conn.private_data.cast::<u8>() {
            none if none.is_null() => &[],
            data => slice::from_raw_parts(data, event.param.conn.private_data_len.into()),
        };
        (event.event, data.to_vec())
    }
}

/// Waits for the next completion, as `rdma_get_recv_comp` does.
unsafe fn completion(
    id: *mut rdma_cm_id,
    cq: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
) -> ibv_wc {
    // SAFETY: as above.
    unsafe {
        let (mut which, mut context) = (ptr::null_mut(), ptr::null_mut());
        let notify = (*(*cq).context).ops.req_notify_cq.expect("it is set");
        assert_eq!(notify(cq, 0), 0);
        if let Some(wc) = poll_within(cq, std::time::Duration::ZERO) {
            return wc;
        }
        assert_eq!(ibv_get_cq_event(channel, &raw mut which, &raw mut context), 0);
        assert_eq!((which, context), (cq, id.cast()));
        ibv_ack_cq_events(cq, 1);
    }
    poll(cq)
}

/// Registers memory as `rdma_reg_msgs` does.
unsafe fn register(id: *mut rdma_cm_id, memory: &mut [u8]) -> (*mut ibv_mr, braid_verbs::Sge) {
    // SAFETY: as above.
    unsafe {
        let mr = ibv_reg_mr((*id).pd, memory.as_mut_ptr().cast(), memory.len(), ALL);
        assert!(!mr.is_null());
        let len = memory.len() as u32;
        (mr, braid_verbs::Sge { addr: memory.as_ptr() as u64, len, lkey: (*mr).lkey })
    }
}

/// Serves a connection as `rdma_server` does.
unsafe fn serve(listener: *mut rdma_cm_id) {
    // SAFETY: as above.
    unsafe {
        let id = request(listener);
        assert_eq!(latest(id), (CONNECT_REQUEST, b"hello".to_vec()));
        let mut memory = *b"....";
        let (mr, piece) = register(id, &mut memory);
        assert_eq!(post_recv((*id).qp, 1, piece), 0);
        assert_eq!(rdma_accept(id, &mut param(b"welcome")), 0);
        assert_eq!(latest(id).0, ESTABLISHED);
        let received = completion(id, (*id).recv_cq, (*id).recv_cq_channel);
        assert_eq!((received.wr_id, received.status, &memory), (1, IBV_WC_SUCCESS, b"ping"));
        assert_eq!((rdma_disconnect(id), latest(id).0), (0, DISCONNECTED));
        assert_eq!(ibv_dereg_mr(mr), 0);
        rdma_destroy_ep(id);
    }
}

/// The calls are those of `rdma_client` and `rdma_server`.
#[test]
fn endpoints_connect_send_and_disconnect_in_calls_that_wait() {
    // SAFETY: as above.
    unsafe {
        let mut attr = attributes();
        let (listener, port) = listener(&raw mut attr);
        let address = listener.expose_provenance();
        let server = thread::spawn(move || serve(with_exposed_provenance_mut(address)));
        let id = endpoint(port, 0, &raw mut attr);
        assert_eq!((attr.send_cq, attr.recv_cq), ((*id).send_cq, (*id).recv_cq));
        let mut memory = *b"ping";
        let (mr, mut piece) = register(id, &mut memory);
        assert_eq!(rdma_connect(id, &mut param(b"hello")), 0);
        assert_eq!(latest(id), (ESTABLISHED, b"welcome".to_vec()));
        assert_eq!(post_send((*id).qp, &mut send_wr(2, &mut piece)).0, 0);
        let sent = completion(id, (*id).send_cq, (*id).send_cq_channel);
        assert_eq!((sent.wr_id, sent.status), (2, IBV_WC_SUCCESS));
        assert_eq!((rdma_disconnect(id), latest(id).0), (0, DISCONNECTED));
        assert_eq!(rdma_disconnect(id), 0, "it is disconnected already: nothing is waited for");
        assert_eq!(ibv_dereg_mr(mr), 0);
        rdma_destroy_ep(id);
        server.join().expect("the server ends well");
        rdma_destroy_ep(listener);
    }
}

#[test]
fn a_failure_is_the_result_of_the_call_and_its_latest_event() {
    fn errno() -> Option<c_int> {
        std::io::Error::last_os_error().raw_os_error()
    }
    // SAFETY: as above.
    unsafe {
        let (listener, port) = listener(ptr::null_mut());
        let address = listener.expose_provenance();
        let server = thread::spawn(move || {
            let id = request(with_exposed_provenance_mut(address));
            assert!((*id).qp.is_null(), "the listener has no attributes of one");
            assert_eq!(rdma_reject(id, b"no".as_ptr().cast(), 2), 0);
            assert_eq!(rdma_destroy_id(id), 0);
        });
        let id = endpoint(port, 0, &mut attributes());
        assert_eq!(rdma_connect(id, ptr::null_mut()), -1);
        assert_eq!(errno(), Some(libc::ECONNREFUSED));
        assert_eq!(latest(id), (REJECTED, b"no".to_vec()));
        server.join().expect("the server ends well");
        rdma_destroy_ep(id);
        rdma_destroy_ep(listener);
        let mut id = ptr::null_mut();
        assert_eq!(rdma_create_id(ptr::null_mut(), &raw mut id, ptr::null_mut(), TCP), 0);
        let mut from = address_of(NO_DEVICE, 0);
        let (from, mut to) = ((&raw mut from).cast(), address_of([127, 0, 0, 1], 1));
        assert_eq!(rdma_resolve_addr(id, from, (&raw mut to).cast(), 1000), -1);
        assert_eq!((errno(), latest(id).0), (Some(libc::ENODEV), ADDR_ERROR));
        assert_eq!(rdma_migrate_id(id, ptr::null_mut()), -1);
        assert_eq!(rdma_destroy_id(id), 0);
    }
}

/// Events that the program has not taken move along.
#[test]
fn an_identifier_moves_to_a_channel_and_a_listener_away_from_one() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = endpoint(port, 0, &mut attributes());
        assert_eq!(rdma_migrate_id(id, client), 0);
        assert_eq!(((*id).channel, (*id).event), (client, ptr::null_mut()));
        assert_eq!(rdma_connect(id, ptr::null_mut()), 0);
        let mut ready = libc::pollfd { fd: (*server).fd, events: libc::POLLIN, revents: 0 };
        assert_eq!(libc::poll(&raw mut ready, 1, 10_000), 1);
        assert_eq!(rdma_migrate_id(listener, ptr::null_mut()), 0);
        assert_eq!(libc::poll(&raw mut ready, 1, 0), 0);
        let accepted = request(listener);
        assert_eq!(rdma_create_qp(accepted, ptr::null_mut(), &mut attributes()), 0);
        assert_eq!((rdma_accept(accepted, ptr::null_mut()), latest(accepted).0), (0, ESTABLISHED));
        expect(client, ESTABLISHED);
        assert_eq!(rdma_disconnect(accepted), 0);
        expect(client, DISCONNECTED);
        for id in [id, accepted, listener] {
            rdma_destroy_ep(id);
        }
        rdma_destroy_event_channel(server);
        rdma_destroy_event_channel(client);
    }
}

#[test]
fn queues_that_are_made_with_a_queue_pair_go_with_it_and_those_of_the_program_stay() {
    // SAFETY: as above.
    unsafe {
        let id = endpoint(1, 0, ptr::null_mut());
        let none = ptr::null_mut();
        for _ in 0..2 {
            assert_eq!(rdma_create_qp(id, none, &mut attributes()), 0);
            assert!(![(*id).send_cq, (*id).recv_cq].contains(&ptr::null_mut()));
            assert_eq!(rdma_create_qp(id, none, &mut attributes()), -1, "it has one");
            rdma_destroy_qp(id);
            assert_eq!(((*id).send_cq, (*id).recv_cq), (ptr::null_mut(), ptr::null_mut()));
            assert!((*id).send_cq_channel.is_null() && (*id).recv_cq_channel.is_null());
        }
        let cq = with_qp(id);
        assert!((*id).send_cq.is_null(), "it is not the identifier's");
        rdma_destroy_qp(id);
        assert_eq!(ibv_destroy_cq(cq), 0);
        rdma_destroy_ep(id);
    }
}

#[test]
fn a_shared_receive_queue_is_taken_by_queue_pairs_and_goes_with_the_endpoint() {
    // SAFETY: as above.
    unsafe {
        let id = endpoint(1, 0, ptr::null_mut());
        let attr = ibv_srq_attr { max_wr: 4, max_sge: 1, srq_limit: 0 };
        let mut init = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
        assert_eq!(rdma_create_srq(id, ptr::null_mut(), &raw mut init), 0);
        assert_eq!(rdma_create_qp(id, ptr::null_mut(), &mut attributes()), 0);
        assert_eq!((*(*id).qp).srq, (*id).srq);
        assert_eq!(ibv_destroy_srq((*id).srq), libc::EBUSY);
        rdma_destroy_ep(id);
    }
}

#[test]
fn devices_are_the_contexts_of_identifiers() {
    // SAFETY: as above.
    unsafe {
        let mut count = 0;
        let list = rdma_get_devices(&raw mut count);
        let contexts = slice::from_raw_parts(list, count as usize + 1).to_vec();
        assert_eq!(contexts.last(), Some(&ptr::null_mut()));
        let id = endpoint(1, 0, ptr::null_mut());
        assert!(contexts.contains(&(*id).verbs));
        rdma_free_devices(list);
        rdma_destroy_ep(id);
    }
}

#[test]
fn all_tests_pass_with_a_key() {
    keyed::again("all_tests_pass_with_a_key");
}
