//! Lookups of the queue pair that takes datagrams at an address and port: `RDMA_PS_UDP`.

mod loopback;

use std::ffi::{CString, c_int};
use std::net::TcpListener;
use std::ptr;
use std::thread;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::connections::*;
use self::loopback::links::Speaker;
use self::loopback::*;

/// `RDMA_UDP_QKEY`.
const Q_KEY: u32 = 0x0123_4567;
/// `IB_SIDR_UNSUPPORTED` and `IB_SIDR_REJECT`.
const NOBODY: c_int = 1;
const TURNED_DOWN: c_int = 2;

fn errno() -> Option<c_int> {
    std::io::Error::last_os_error().raw_os_error()
}

/// Both ends of an accepted lookup, each with its completion queue, and the event of the asking
/// end.
struct Found {
    channels: [*mut rdma_event_channel; 2],
    listener: *mut rdma_cm_id,
    ends: [(*mut rdma_cm_id, *mut ibv_cq); 2],
    told: rdma_ud_param,
}

/// Any port of 127.0.0.1, or of ::1.
fn any(is_v6: bool) -> libc::sockaddr_in6 {
    if is_v6 {
        return address_v6(0);
    }
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut storage: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    // SAFETY: an IPv4 address is shorter.
    unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(address(0)) };
    storage
}

/// Looks up a listener, after `prepare` has changed its queue pair.
unsafe fn look_up(is_v6: bool, prepare: impl FnOnce(*mut ibv_qp)) -> Found {
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let mut at = any(is_v6);
        let (listener, port) = listen_in(UDP, server, (&raw mut at).cast());
        at.sin6_port = port.to_be();
        let id = resolved_in(UDP, client, (&raw mut at).cast());
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"hello")), 0);
        let request = expect(server, CONNECT_REQUEST);
        assert_eq!(request.private_data, b"hello");
        assert_eq!(((*request.id).ps, (*request.id).qp_type), (UDP, IBV_QPT_UD));
        let other_cq = with_qp(request.id);
        prepare((*request.id).qp);
        assert_eq!(rdma_accept(request.id, &mut param(b"welcome")), 0);
        assert_eq!((rdma_accept(request.id, &mut param(b"")), errno()), (-1, Some(libc::EINVAL)));
        let event = take(client);
        assert_eq!(((*event).event, (*event).status), (ESTABLISHED, 0));
        let told = (*event).param.ud;
        let (data, len) = (told.private_data.cast::<u8>(), told.private_data_len.into());
        assert_eq!(std::slice::from_raw_parts(data, len), b"welcome");
        assert_eq!(rdma_ack_cm_event(event), 0);
        let ends = [(id, cq), (request.id, other_cq)];
        Found { channels: [client, server], listener, ends, told }
    }
}

/// Whether an event comes soon.
unsafe fn is_told(channel: *mut rdma_event_channel) -> bool {
    // SAFETY: the channel exists.
    unsafe {
        let mut ready = libc::pollfd { fd: (*channel).fd, events: libc::POLLIN, revents: 0 };
        libc::poll(&raw mut ready, 1, 100) == 1
    }
}

impl Found {
    unsafe fn destroy(self) {
        // SAFETY: all of it exists.
        unsafe {
            for (id, cq) in self.ends {
                rdma_destroy_qp(id);
                assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
            }
            assert_eq!(rdma_destroy_id(self.listener), 0);
            self.channels.into_iter().for_each(|channel| rdma_destroy_event_channel(channel));
        }
    }
}

/// Sends a datagram and another one back.
unsafe fn ping(found: &Found) {
    // SAFETY: as above.
    unsafe {
        let [(id, cq), (other, other_cq)] = found.ends;
        let mut memory = vec![0u8; 256];
        memory[..4].copy_from_slice(b"ping");
        let memory = memory.as_mut_slice();
        let mr = ibv_reg_mr((*id).pd, memory.as_mut_ptr().cast(), memory.len(), ALL);
        let at = memory.as_ptr() as u64;
        let piece = |offset, len| braid_verbs::Sge { addr: at + offset, len, lkey: (*mr).lkey };
        assert_eq!(post_recv((*other).qp, 1, piece(64, 64)), 0);
        assert_eq!(post_recv((*id).qp, 2, piece(128, 64)), 0);
        let (mut way, told) = (found.told.ah_attr, found.told);
        let there = ibv_create_ah((*id).pd, &raw mut way);
        assert!(!there.is_null());
        let mut said = piece(0, 4);
        let mut wr = send_wr(3, &mut said);
        wr.wr.ud = Ud { ah: there, remote_qpn: told.qp_num, remote_qkey: told.qkey };
        assert_eq!(post_send((*id).qp, &mut wr).0, 0);
        let (sent, mut received) = (poll(cq), poll(other_cq));
        assert_eq!((sent.wr_id, received.wr_id, received.src_qp), (3, 1, (*(*id).qp).qp_num));
        assert_eq!(&memory[104..108], b"ping");
        let grh = memory[64..].as_mut_ptr();
        let back = ibv_create_ah_from_wc((*other).pd, &raw mut received, grh, 1);
        assert!(!back.is_null());
        wr.wr.ud = Ud { ah: back, remote_qpn: received.src_qp, remote_qkey: Q_KEY };
        assert_eq!(post_send((*other).qp, &mut wr).0, 0);
        assert_eq!((poll(other_cq).wr_id, poll(cq).wr_id), (3, 2));
        assert_eq!(&memory[168..172], b"ping");
        assert_eq!((ibv_destroy_ah(there), ibv_destroy_ah(back), ibv_dereg_mr(mr)), (0, 0, 0));
    }
}

unsafe fn found_by(is_v6: bool) {
    // SAFETY: as above.
    unsafe {
        let found = look_up(is_v6, |_| ());
        let [(id, _), (other, _)] = found.ends;
        for qp in [(*id).qp, (*other).qp] {
            assert_eq!(state(qp), IBV_QPS_RTS);
        }
        let told = found.told;
        assert_eq!((told.qp_num, told.qkey), ((*(*other).qp).qp_num, Q_KEY));
        let way = told.ah_attr;
        assert_eq!((way.is_global, way.port_num), (1, 1));
        let ours = (*other).route.addr.ibaddr.sgid.raw;
        assert_eq!(way.grh.dgid.raw, ours, "the other end's GID");
        let mut gid = ibv_gid { raw: [0; 16] };
        assert_eq!(ibv_query_gid((*id).verbs, 1, way.grh.sgid_index.into(), &raw mut gid), 0);
        assert_eq!(gid.raw, (*id).route.addr.ibaddr.sgid.raw);
        ping(&found);
        // The lookup connects nothing.
        let [client, server] = found.channels;
        assert!(!is_told(server));
        assert_eq!((rdma_disconnect(id), rdma_disconnect(other)), (0, 0));
        assert!(!is_told(client) && !is_told(server));
        assert_eq!([(*id).qp, (*other).qp].map(state), [IBV_QPS_ERR; 2]);
        found.destroy();
    }
}

#[test]
fn datagrams_reach_the_destination_of_a_lookup_without_a_connection() {
    // SAFETY: as above.
    unsafe { found_by(false) }
}

#[test]
fn datagrams_over_ipv6_come_from_the_ipv6_gid() {
    if TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("this host has no IPv6");
    }
    // SAFETY: as above.
    unsafe { found_by(true) }
}

#[test]
fn a_lookup_returns_the_q_key_that_the_program_has_set() {
    // SAFETY: as above.
    unsafe {
        let found = look_up(false, |qp| {
            let mut attr: ibv_qp_attr = std::mem::zeroed();
            (attr.qp_state, attr.qkey) = (IBV_QPS_RTS, 0x77);
            assert_eq!(modify(qp, &attr, IBV_QP_STATE | IBV_QP_QKEY), 0);
        });
        assert_eq!(found.told.qkey, 0x77);
        ping(&found);
        found.destroy();
    }
}

/// Checks that a lookup ends with this status. Returns the private data of the event.
unsafe fn fails(channel: *mut rdma_event_channel, status: c_int) -> Vec<u8> {
    // SAFETY: as above.
    let told = unsafe { next(channel) };
    assert_eq!((told.kind, told.status), (UNREACHABLE, status));
    told.private_data
}

#[test]
fn a_refused_lookup_is_reported_and_may_be_repeated() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen_in(UDP, server, ptr::from_mut(&mut address(0)).cast());
        let id = resolved_in(UDP, client, ptr::from_mut(&mut address(port)).cast());
        for _ in 0..2 {
            assert_eq!(rdma_connect(id, ptr::null_mut()), 0);
            let request = expect(server, CONNECT_REQUEST);
            assert_eq!(rdma_reject(request.id, b"no".as_ptr().cast(), 2), 0);
            assert_eq!(fails(client, TURNED_DOWN), b"no");
            assert_eq!(rdma_destroy_id(request.id), 0);
        }
        assert_eq!(rdma_destroy_id(listener), 0);
        assert_eq!(rdma_connect(id, ptr::null_mut()), 0);
        assert_eq!(fails(client, NOBODY), b"");
        assert_eq!(rdma_destroy_id(id), 0);
    }
}

/// `rdma_accept(3)`: `qp_num`, "This field is ignored by the library if a QP has been created".
#[test]
fn programs_may_name_queue_pairs_of_their_own() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen_in(UDP, server, ptr::from_mut(&mut address(0)).cast());
        let id = resolved_in(UDP, client, ptr::from_mut(&mut address(port)).cast());
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let request = expect(server, CONNECT_REQUEST);
        let named = |qp_num| rdma_conn_param { qp_num, ..param(b"") };
        for qp_num in [0, 0x100_0000] {
            let accepted = rdma_accept(request.id, &mut named(qp_num));
            assert_eq!((accepted, errno()), (-1, Some(libc::EINVAL)));
        }
        assert_eq!(rdma_accept(request.id, &mut named(0x12_3456)), 0);
        let event = take(client);
        let told = (*event).param.ud;
        assert_eq!(((*event).event, told.qp_num, told.qkey), (ESTABLISHED, 0x12_3456, Q_KEY));
        assert_eq!((told.private_data, told.private_data_len), (ptr::null(), 0));
        assert_eq!(rdma_ack_cm_event(event), 0);
        for id in [id, request.id, listener] {
            assert_eq!(rdma_destroy_id(id), 0);
        }
    }
}

#[test]
fn ends_of_different_purposes_refuse_each_other() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        for (asks, listens, expected) in
            [(TCP, UDP, (REJECTED, 8)), (UDP, TCP, (UNREACHABLE, NOBODY))]
        {
            let (listener, port) =
                listen_in(listens, server, ptr::from_mut(&mut address(0)).cast());
            let id = resolved_in(asks, client, ptr::from_mut(&mut address(port)).cast());
            let cq = with_qp(id);
            assert_eq!(rdma_connect(id, &mut param(b"hello")), 0);
            let told = next(client);
            assert_eq!(((told.kind, told.status), told.private_data), (expected, vec![]));
            assert!(!is_told(server));
            rdma_destroy_qp(id);
            assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
            assert_eq!(rdma_destroy_id(listener), 0);
        }
    }
}

#[test]
fn a_queue_pair_is_of_the_type_of_its_port_space() {
    // SAFETY: as above.
    unsafe {
        let channel = rdma_create_event_channel();
        for (space, kind) in [(TCP, IBV_QPT_UD), (UDP, IBV_QPT_RC)] {
            let id = resolved_in(space, channel, ptr::from_mut(&mut address(1)).cast());
            let mut init = init_attr(ptr::null_mut(), kind, 4, 4);
            let made = rdma_create_qp(id, ptr::null_mut(), &raw mut init);
            assert_eq!((made, errno()), (-1, Some(libc::EINVAL)));
            assert_eq!(rdma_destroy_id(id), 0);
        }
        let id = new_id_in(UDP, channel);
        assert_eq!((rdma_join_multicast(id), errno()), (-1, Some(libc::EOPNOTSUPP)));
        assert_eq!(rdma_destroy_id(id), 0);
    }
}

/// An answer that accepts, and names this queue pair as the one that takes datagrams.
fn accept(number: u32) -> Vec<u8> {
    let mut message = b"BrCm\x02\0\x01\x23\x45\x67\0\x01".to_vec();
    message.extend_from_slice(&number.to_be_bytes());
    message.extend_from_slice(&[9; 16]);
    message
}

#[test]
fn an_invalid_answer_fails_the_lookup() {
    let of_connection = {
        let mut message = accept(0x12_3456);
        message[6..12].fill(0);
        message
    };
    let unknown_purpose = {
        let mut message = accept(0x12_3456);
        message[11] = 2;
        message
    };
    let answers = [
        accept(0x100_0000),
        accept(u32::MAX),
        accept(0x12_3456)[..31].to_vec(),
        of_connection,
        unknown_purpose,
        Vec::new(),
    ];
    let speaker = Speaker::new();
    // SAFETY: as above.
    unsafe {
        let channel = rdma_create_event_channel();
        for answer in answers {
            let mut to = address(speaker.port());
            let id = resolved_in(UDP, channel, (&raw mut to).cast());
            assert_eq!(rdma_connect(id, ptr::null_mut()), 0);
            speaker.answer(&answer);
            let told = next(channel);
            assert_eq!(told.kind, UNREACHABLE, "{answer:?}");
            assert!(told.status < 0, "{}", told.status);
            assert_eq!(rdma_destroy_id(id), 0);
        }
    }
}

#[test]
fn an_invalid_request_raises_no_event() {
    // SAFETY: as above.
    unsafe {
        let server = rdma_create_event_channel();
        let (listener, port) = listen_in(UDP, server, ptr::from_mut(&mut address(0)).cast());
        let mut requests = [accept(0x100_0000), accept(1), accept(1)];
        requests.iter_mut().for_each(|request| request[4] = 1);
        // A length of private data that does not fit, and an unknown purpose.
        (requests[1][5], requests[2][11]) = (255, 7);
        for request in requests {
            let speaker = Speaker::new();
            speaker.open(port, &request);
            assert!(speaker.hears_end(), "it is answered");
        }
        assert!(!is_told(server));
        assert_eq!(rdma_destroy_id(listener), 0);
    }
}

/// An endpoint at a port of the loopback. Its attributes name no queues.
unsafe fn endpoint(port: u16, flags: c_int) -> *mut rdma_cm_id {
    // SAFETY: the structure consists of numbers and pointers, so zero is valid.
    let mut hints: rdma_addrinfo = unsafe { std::mem::zeroed() };
    (hints.ai_flags, hints.ai_port_space) = (flags, UDP);
    let service = CString::new(port.to_string()).expect("no NUL");
    let (mut found, mut id) = (ptr::null_mut(), ptr::null_mut());
    let mut attr = init_attr(ptr::null_mut(), IBV_QPT_UD, 4, 4);
    // SAFETY: as above.
    unsafe {
        let (node, service) = (c"127.0.0.1".as_ptr(), service.as_ptr());
        assert_eq!(rdma_getaddrinfo(node, service, &raw const hints, &raw mut found), 0);
        assert_eq!((*found).ai_qp_type, IBV_QPT_UD as c_int);
        assert_eq!(rdma_create_ep(&raw mut id, found, ptr::null_mut(), &raw mut attr), 0);
        rdma_freeaddrinfo(found);
    }
    id
}

#[test]
fn endpoints_look_up_in_calls_that_wait() {
    const PASSIVE: c_int = 1;
    // SAFETY: as above.
    unsafe {
        let listener = endpoint(0, PASSIVE);
        assert_eq!(rdma_listen(listener, 0), 0);
        let port = u16::from_be(rdma_get_src_port(listener));
        let asking = thread::spawn(move || {
            let id = endpoint(port, 0);
            assert_eq!(rdma_connect(id, ptr::null_mut()), 0);
            let event = &*(*id).event;
            let told = event.param.ud;
            assert_eq!((event.event, told.qkey), (ESTABLISHED, Q_KEY));
            assert_eq!(rdma_disconnect(id), 0, "nothing is waited for");
            rdma_destroy_ep(id);
            told.qp_num
        });
        let mut id = ptr::null_mut();
        assert_eq!(rdma_get_request(listener, &raw mut id), 0);
        assert_eq!(rdma_accept(id, ptr::null_mut()), 0);
        assert!((*id).event.is_null(), "the request is answered");
        assert_eq!(asking.join().expect("it ends well"), (*(*id).qp).qp_num);
        rdma_destroy_ep(id);
        rdma_destroy_ep(listener);
    }
}

#[test]
fn all_tests_pass_with_a_key() {
    keyed::again("all_tests_pass_with_a_key");
}
