//! rdma_cm with queue pairs that the program creates and connects by itself: `conn_param.qp_num`,
//! `rdma_init_qp_attr`, `rdma_establish`.

mod loopback;

use std::ffi::c_int;
use std::ptr;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::connections::*;
use self::loopback::*;

const CONNECT_RESPONSE: c_int = 5;

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().expect("a number")
}

/// A queue pair that no identifier knows.
unsafe fn own_qp(id: *mut rdma_cm_id) -> (*mut ibv_qp, *mut ibv_cq) {
    // SAFETY: the identifier is resolved, or one of a connection.
    unsafe {
        let cq = ibv_create_cq((*id).verbs, 16, ptr::null_mut(), ptr::null_mut(), 0);
        let mut init = init_attr(cq, IBV_QPT_RC, 4, 4);
        let qp = ibv_create_qp((*id).pd, &raw mut init);
        assert!(!qp.is_null());
        (qp, cq)
    }
}

unsafe fn attributes(id: *mut rdma_cm_id, state: u32) -> Result<(ibv_qp_attr, u32), i32> {
    // SAFETY: the structure consists of numbers, and the identifier exists.
    unsafe {
        let mut attr: ibv_qp_attr = std::mem::zeroed();
        let mut mask = 0x5555;
        attr.qp_state = state;
        attr.dest_qp_num = 77;
        match rdma_init_qp_attr(id, &raw mut attr, &raw mut mask) {
            0 => Ok((attr, mask as u32)),
            _ => {
                assert_eq!((mask, attr.dest_qp_num), (0x5555, 77), "nothing is written");
                Err(errno())
            }
        }
    }
}

unsafe fn step(id: *mut rdma_cm_id, qp: *mut ibv_qp, state: u32) {
    // SAFETY: both exist.
    let (attr, mask) = unsafe { attributes(id, state) }.expect("it is served");
    assert_eq!((attr.qp_state, modify(qp, &attr, mask)), (state, 0));
}

/// Sends a message from one queue pair to the other, with memory of the identifiers' common domain.
unsafe fn send(pd: *mut ibv_pd, from: (*mut ibv_qp, *mut ibv_cq), to: (*mut ibv_qp, *mut ibv_cq)) {
    let mut memory = *b"whole wordsnothing    ";
    // SAFETY: the memory lives until it is deregistered.
    unsafe {
        let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast(), memory.len(), ALL);
        let piece = |at: usize| braid_verbs::Sge {
            addr: memory.as_ptr() as u64 + at as u64,
            len: 11,
            lkey: (*mr).lkey,
        };
        assert_eq!(post_recv(to.0, 1, piece(11)), 0);
        let mut source = piece(0);
        assert_eq!(post_send(from.0, &mut send_wr(2, &mut source)).0, 0);
        assert_eq!((poll(from.1).status, poll(to.1).status), (IBV_WC_SUCCESS, IBV_WC_SUCCESS));
        assert_eq!(ibv_dereg_mr(mr), 0);
    }
    assert_eq!(&memory, b"whole wordswhole words");
}

#[test]
fn queue_pairs_of_the_program_connect_with_the_attributes_of_identifiers() {
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let channel = rdma_create_event_channel();
        let (listener, port) = listen(channel);
        let client = resolved(channel, port);
        let near = own_qp(client);
        step(client, near.0, IBV_QPS_INIT);
        assert_eq!(attributes(client, IBV_QPS_RTR).err(), Some(libc::EINVAL), "nobody answered");
        assert_eq!(rdma_establish(client), -1);
        let mut asks = param(b"request");
        asks.qp_num = number(near.0);
        assert_eq!(rdma_connect(client, &raw mut asks), 0);

        let asked = take(channel);
        assert_eq!(((*asked).event, (*asked).param.conn.qp_num), (CONNECT_REQUEST, asks.qp_num));
        let server = (*asked).id;
        assert_eq!(rdma_ack_cm_event(asked), 0);
        let far = own_qp(server);
        [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS].iter().for_each(|to| step(server, far.0, *to));
        assert_eq!((rdma_accept(server, ptr::null_mut()), errno()), (-1, libc::EINVAL));
        let mut answers = param(b"answer");
        answers.qp_num = number(far.0);
        assert_eq!(rdma_accept(server, &raw mut answers), 0);

        let answered = take(channel);
        let said = (*answered).param.conn;
        assert_eq!(((*answered).id, (*answered).event), (client, CONNECT_RESPONSE));
        assert_eq!((said.qp_num, said.private_data_len), (answers.qp_num, 6));
        assert_eq!(rdma_ack_cm_event(answered), 0);
        for to in [IBV_QPS_RTR, IBV_QPS_RTS] {
            step(client, near.0, to);
        }
        assert_eq!(rdma_establish(client), 0);
        assert_eq!(expect(channel, ESTABLISHED).id, server);
        assert_eq!((rdma_establish(client), errno()), (-1, libc::EINVAL), "it is established");
        send((*client).pd, near, far);
        send((*client).pd, far, near);

        assert_eq!(rdma_disconnect(client), 0);
        let ended = [expect(channel, DISCONNECTED).id, expect(channel, DISCONNECTED).id];
        assert!(ended.contains(&client) && ended.contains(&server));
        for (id, (qp, cq)) in [(client, near), (server, far)] {
            assert_eq!((ibv_destroy_qp(qp), ibv_destroy_cq(cq), rdma_destroy_id(id)), (0, 0, 0));
        }
        assert_eq!(rdma_destroy_id(listener), 0);
        rdma_destroy_event_channel(channel);
    }
}

#[test]
fn invalid_connections_are_refused_and_nothing_is_written() {
    // SAFETY: as above.
    unsafe {
        let channel = rdma_create_event_channel();
        let (listener, port) = listen(channel);
        let unresolved = new_id(channel);
        assert_eq!(attributes(unresolved, IBV_QPS_INIT).err(), Some(libc::EINVAL));
        let client = resolved(channel, port);
        for state in [IBV_QPS_RESET, IBV_QPS_ERR, 99] {
            assert_eq!(attributes(client, state).err(), Some(libc::EINVAL), "state {state}");
        }
        assert_eq!(rdma_init_qp_attr(client, ptr::null_mut(), ptr::null_mut()), -1);
        assert_eq!((rdma_connect(client, ptr::null_mut()), errno()), (-1, libc::EINVAL));
        let mut asks = param(b"");
        asks.qp_num = 1 << 24;
        assert_eq!((rdma_connect(client, &raw mut asks), errno()), (-1, libc::EINVAL));
        // An identifier with a queue pair connects it by itself.
        with_qp(client);
        assert_eq!((rdma_establish(client), errno()), (-1, libc::EINVAL));
        rdma_destroy_qp(client);
        for id in [unresolved, client, listener] {
            assert_eq!(rdma_destroy_id(id), 0);
        }
        rdma_destroy_event_channel(channel);
    }
}

#[test]
fn datagram_queue_pairs_follow_the_attributes_of_identifiers() {
    // SAFETY: as above.
    unsafe {
        let channel = rdma_create_event_channel();
        let (listener, port) = listen_in(UDP, channel, ptr::from_mut(&mut address(0)).cast());
        let id = resolved_in(UDP, channel, ptr::from_mut(&mut address(port)).cast());
        let cq = ibv_create_cq((*id).verbs, 16, ptr::null_mut(), ptr::null_mut(), 0);
        let mut init = init_attr(cq, IBV_QPT_UD, 4, 4);
        let qp = ibv_create_qp((*id).pd, &raw mut init);
        [IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS].iter().for_each(|to| step(id, qp, *to));
        assert_eq!(state(qp), IBV_QPS_RTS);
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_cq(cq)), (0, 0));
        for id in [id, listener] {
            assert_eq!(rdma_destroy_id(id), 0);
        }
        rdma_destroy_event_channel(channel);
    }
}
