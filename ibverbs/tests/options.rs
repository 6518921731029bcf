//! Options of identifiers (`rdma_set_option(3)`).

mod loopback;

use std::ffi::c_int;
use std::net::UdpSocket;
use std::ptr;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::connections::*;
use self::loopback::queried;

const TOS: c_int = 0;
const REUSE_ADDR: c_int = 1;
const AF_ONLY: c_int = 2;
const ACK_TIMEOUT: c_int = 3;

/// Sets an option of the level `RDMA_OPTION_ID`. Returns 0 or the errno.
fn set<T>(id: *mut rdma_cm_id, name: c_int, mut value: T) -> c_int {
    set_at(0, id, name, (&raw mut value).cast(), size_of::<T>())
}

fn set_at(
    level: c_int,
    id: *mut rdma_cm_id,
    name: c_int,
    value: *mut std::ffi::c_void,
    len: usize,
) -> c_int {
    // SAFETY: the identifier exists, and the value has this length.
    match unsafe { rdma_set_option(id, level, name, value, len) } {
        0 => 0,
        _ => errno(),
    }
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().expect("an errno")
}

/// Binds to a port of the loopback. Returns 0 or the errno.
fn bind(id: *mut rdma_cm_id, port: u16) -> c_int {
    // SAFETY: the identifier exists.
    match unsafe { rdma_bind_addr(id, ptr::from_mut(&mut address(port)).cast()) } {
        0 => 0,
        _ => errno(),
    }
}

fn listens(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the identifier exists.
    match unsafe { rdma_listen(id, 1) } {
        0 => 0,
        _ => errno(),
    }
}

#[test]
fn options_that_are_not_served_are_refused() {
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let channel = rdma_create_event_channel();
        let id = new_id(channel);
        let mut value = [0u64; 8];
        let value: *mut std::ffi::c_void = value.as_mut_ptr().cast();
        // `RDMA_OPTION_IB_PATH`, and names and levels that do not exist.
        for (level, name) in [(1, 1), (1, 0), (0, 4), (0, -1), (2, 0)] {
            assert_eq!(set_at(level, id, name, value, 8), libc::ENOSYS, "{level}, {name}");
        }
        for (name, len) in [(TOS, 1), (REUSE_ADDR, 4), (AF_ONLY, 4), (ACK_TIMEOUT, 1)] {
            for wrong in [0, len - 1, len + 1] {
                assert_eq!(set_at(0, id, name, value, wrong), libc::EINVAL, "{name}, {wrong}");
            }
            assert_eq!(set_at(0, id, name, ptr::null_mut(), len), libc::EINVAL, "{name}");
        }
        assert_eq!(set(id, ACK_TIMEOUT, 32u8), libc::EINVAL);
        assert_eq!(bind(id, 0), 0);
        assert_eq!(set(id, AF_ONLY, 1), libc::EINVAL, "it is bound");
        let datagrams = new_id_in(UDP, channel);
        assert_eq!(set(datagrams, ACK_TIMEOUT, 5u8), libc::EINVAL, "they have none");
        assert_eq!((rdma_destroy_id(id), rdma_destroy_id(datagrams)), (0, 0));
        rdma_destroy_event_channel(channel);
    }
}

/// The ack timeout and the traffic class of a queue pair.
fn service(qp: *mut ibv_qp) -> (u8, u8) {
    let attr = queried(qp, IBV_QP_TIMEOUT | IBV_QP_AV);
    (attr.timeout, attr.ah_attr.grh.traffic_class)
}

#[test]
fn the_ack_timeout_and_the_type_of_service_are_those_of_the_queue_pair() {
    // SAFETY: as above.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen(server);
        let id = resolved(client, port);
        let cq = with_qp(id);
        assert_eq!((set(id, ACK_TIMEOUT, 21u8), set(id, TOS, 0x68u8)), (0, 0));
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let request = expect(server, CONNECT_REQUEST);
        let other_cq = with_qp(request.id);
        assert_eq!(set(request.id, ACK_TIMEOUT, 9u8), 0);
        assert_eq!(rdma_accept(request.id, &mut param(b"")), 0);
        expect(client, ESTABLISHED);
        expect(server, ESTABLISHED);
        assert_eq!(service((*id).qp), (21, 0x68));
        assert_eq!(service((*request.id).qp), (9, 0));
        for (id, cq) in [(id, cq), (request.id, other_cq)] {
            rdma_destroy_qp(id);
            assert_eq!((ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0));
        }
        assert_eq!(rdma_destroy_id(listener), 0);
    }
}

#[test]
fn a_reused_address_is_shared_until_somebody_listens() {
    // SAFETY: as above.
    unsafe {
        let channel = rdma_create_event_channel();
        let [first, second, third, plain] = [(); 4].map(|()| new_id(channel));
        assert_eq!((set(first, REUSE_ADDR, 1), bind(first, 0)), (0, 0));
        let port = u16::from_be(rdma_get_src_port(first));
        assert_eq!(bind(plain, port), libc::EADDRINUSE, "it does not share");
        assert_eq!((set(second, REUSE_ADDR, 1), bind(second, port)), (0, 0));
        assert_eq!((listens(first), listens(second)), (0, libc::EADDRINUSE));
        assert_eq!(set(first, REUSE_ADDR, 1), libc::EINVAL, "a listener has its port alone");
        assert_eq!((set(third, REUSE_ADDR, 1), bind(third, port)), (0, libc::EADDRINUSE));
        for id in [first, second, third, plain] {
            assert_eq!(rdma_destroy_id(id), 0);
        }
        rdma_destroy_event_channel(channel);
    }
}

#[test]
fn a_listener_of_one_family_leaves_the_other_its_port() {
    if UdpSocket::bind("[::]:0").is_err() {
        return eprintln!("this host has no IPv6");
    }
    // SAFETY: as above.
    unsafe {
        let channel = rdma_create_event_channel();
        let mut any: libc::sockaddr_in6 = std::mem::zeroed();
        any.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        for is_only in [false, true] {
            let listener = new_id(channel);
            assert_eq!(set(listener, AF_ONLY, c_int::from(is_only)), 0);
            assert_eq!(rdma_bind_addr(listener, (&raw mut any).cast()), 0);
            assert_eq!(listens(listener), 0);
            let port = u16::from_be(rdma_get_src_port(listener));
            let other = new_id(channel);
            let expected = if is_only { 0 } else { libc::EADDRINUSE };
            assert_eq!(bind(other, port), expected, "IPv6 alone: {is_only}");
            assert_eq!((rdma_destroy_id(listener), rdma_destroy_id(other)), (0, 0));
        }
        rdma_destroy_event_channel(channel);
    }
}
