//! Queue pairs of type UD whose peers are not Braid's libibverbs: they speak plain RoCEv2. The peer
//! here is an engine at UDP port 4791, which the library cannot tell from an RNIC, or another
//! process on the library.

mod loopback;
mod own_network;

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, ptr};

use braid::{
    Access, Completion, CompletionQueue, Engine, EngineConfig, MemoryRegion, QpId, RoceDatagram,
    RoceUd, RoceUdOptions, SharedReceiveQueue, Status, Work, wr,
};
use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::*;
use self::own_network::in_network_of;

/// The variable of the process that answers.
const ECHO: &str = "BRAID_TEST_ECHO";
const PATIENCE: Duration = Duration::from_secs(20);
const GRH: usize = 40;
/// The high bit of a Q_Key stands for the queue pair's own.
const OWN_KEY: u32 = 1 << 31;

/// Two interfaces beside the loopback, with an address each.
const INTERFACES: &str = "ip link add d1 type veth peer name d2 && \
    for n in 1 2; do ip addr add 10.9.$n.1/24 dev d$n && ip link set d$n up || exit; done; \
    for n in $(seq 100); do [ $(ip link show up | grep -c 'state UP') = 2 ] && break; \
    sleep 0.05; done";

/// Runs this test in a network namespace with [`INTERFACES`].
fn in_own_network(test: &str, variables: &[(&str, &str)]) -> bool {
    in_network_of(INTERFACES, test, variables)
}

/// A peer that speaks RoCEv2.
struct Peer {
    engine: Engine,
    cq: CompletionQueue,
    srq: SharedReceiveQueue,
    memory: MemoryRegion,
    qp: RoceUd,
}

impl Peer {
    fn at(ip: [u8; 4], number: u32) -> Self {
        let bind = SocketAddr::new(ip.into(), 4791);
        let engine = Engine::new(EngineConfig { bind, ..Default::default() }).expect("an engine");
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(512).expect("a queue"));
        let memory = pd.alloc_mr(1 << 16, Access::LOCAL_WRITE).expect("memory");
        let srq = pd.create_srq(256, 1).expect("a queue");
        let options = RoceUdOptions::new(QpId::new(number), KEY, &cq, &srq);
        let qp = engine.roce_ud(4791, &options).expect("a network of its own");
        Peer { engine, cq, srq, memory, qp }
    }

    fn gid(&self) -> ibv_gid {
        gid(self.engine.local_addr().ip())
    }

    fn post(&self, id: u64) {
        let at = 1024 * (id as usize % 64);
        let piece = self.memory.slice(at..at + 1024).expect("it fits");
        self.srq.post_recv(wr::recv(id, [piece])).expect("there is room");
    }

    fn send(&self, to: *mut ibv_qp, imm: u32, q_key: u32, payload: &[u8]) {
        let address = self.qp.address(([127, 0, 0, 1], 4791).into()).expect("the loopback");
        let mut datagram = RoceDatagram::new(u64::MAX, QpId::new(number(to)), q_key);
        (datagram.imm, datagram.signalled) = (Some(imm), false);
        self.qp.send(&datagram, &address, payload).expect("there is room");
    }

    fn received(&self) -> Completion {
        let done = self.cq.wait_one(PATIENCE).expect("the queue").expect("a completion in time");
        assert_eq!((done.status, done.work), (Status::Success, Work::Recv));
        done
    }
}

fn gid(ip: IpAddr) -> ibv_gid {
    let IpAddr::V4(ip) = ip else { panic!("an IPv4 address") };
    ibv_gid { raw: ip.to_ipv6_mapped().octets() }
}

fn ready(side: &Side, cq: *mut ibv_cq) -> *mut ibv_qp {
    let qp = side.qp(cq, IBV_QPT_UD, 128, 128);
    take_datagrams(qp);
    qp
}

fn send(qp: *mut ibv_qp, id: u64, piece: &mut braid_verbs::Sge, to: Ud) {
    let mut wr = send_wr(id, piece);
    (wr.wr.ud, wr.opcode, wr.imm_data) = (to, IBV_WR_SEND_WITH_IMM, (id as u32).to_be());
    assert_eq!(post_send(qp, &mut wr).0, 0);
}

fn sent(cq: *mut ibv_cq, id: u64) {
    let wc = poll(cq);
    assert_eq!((wc.wr_id, wc.status, wc.opcode), (id, IBV_WC_SUCCESS, IBV_WC_SEND));
}

#[test]
fn datagrams_pass_in_both_directions() {
    if !in_own_network("datagrams_pass_in_both_directions", &[]) {
        return;
    }
    let mut side = Side::open();
    let (cq, recv_cq) = (side.cq(256), side.cq(256));
    let mut attr = init_attr(cq, IBV_QPT_UD, 128, 128);
    attr.recv_cq = recv_cq;
    // SAFETY: the domain and the queues exist.
    let qp = unsafe { ibv_create_qp(side.pd, &raw mut attr) };
    take_datagrams(qp);
    // Number 17 belongs to no Braid process.
    let peer = Peer::at([127, 0, 0, 2], 17);
    let ah = handle_from(&side, 0, peer.gid());
    side.memory[..4].copy_from_slice(b"ping");
    let mut piece = side.sge(0, 4);
    let to = |remote_qkey| Ud { ah, remote_qpn: 17, remote_qkey };
    // Own key of the queue pair, the same one, and another.
    for (id, key) in [(1, OWN_KEY), (2, KEY)] {
        peer.post(id);
        send(qp, id, &mut piece, to(key));
        sent(cq, id);
        let done = peer.received();
        assert_eq!((done.source.get(), done.len, done.imm), (number(qp), 44, Some(id as u32)));
    }
    peer.post(3);
    send(qp, 3, &mut piece, to(KEY + 1));
    sent(cq, 3);

    // The peer answers: a datagram that finds no receive, one with another key, and good ones.
    peer.send(qp, 4, KEY, b"lost");
    assert!(poll_within(recv_cq, Duration::from_millis(100)).is_none());
    assert_eq!(post_recv(qp, 60, side.sge(4096, 43)), 0);
    assert_eq!(post_recv(qp, 61, side.sge(4096, 256)), 0);
    peer.send(qp, 5, KEY + 1, b"lost");
    peer.send(qp, 6, KEY, b"pong");
    peer.send(qp, 7, KEY, b"pong");
    let short = poll(recv_cq);
    assert_eq!((short.wr_id, short.status), (60, IBV_WC_LOC_LEN_ERR));
    let mut wc = poll(recv_cq);
    assert_eq!((wc.wr_id, wc.status, wc.opcode), (61, IBV_WC_SUCCESS, IBV_WC_RECV));
    assert_eq!((wc.byte_len, wc.src_qp, wc.qp_num), (44, 17, number(qp)));
    assert_eq!((wc.wc_flags, wc.imm_data), (IBV_WC_GRH | IBV_WC_WITH_IMM, 7_u32.to_be()));
    assert_eq!((wc.slid, wc.sl, wc.pkey_index), (0, 0, 0));
    let received = &side.memory[4096..4096 + 44];
    assert_eq!(
        (received[20], &received[32..36], &received[36..40]),
        (0x45, &[127, 0, 0, 2][..], &[127, 0, 0, 1][..])
    );
    assert_eq!(&received[GRH..], b"pong");
    assert_eq!(state(qp), IBV_QPS_RTS);

    // The header leads back.
    let grh = side.memory[4096..].as_mut_ptr();
    // SAFETY: all of them exist.
    let back = unsafe { ibv_create_ah_from_wc(side.pd, &raw mut wc, grh, 1) };
    assert!(!back.is_null());
    // The receive of the datagram with another key is still there.
    send(qp, 8, &mut piece, Ud { ah: back, remote_qpn: wc.src_qp, remote_qkey: KEY });
    sent(cq, 8);
    assert_eq!(peer.received().imm, Some(8));

    // ERR flushes, and nothing arrives until RTR.
    assert_eq!(post_recv(qp, 62, side.sge(4096, 256)), 0);
    assert_eq!(to_state(qp, IBV_QPS_ERR), 0);
    let flushed = poll(recv_cq);
    assert_eq!((flushed.wr_id, flushed.status), (62, IBV_WC_WR_FLUSH_ERR));
    peer.send(qp, 9, KEY, b"lost");
    assert!(poll_within(recv_cq, Duration::from_millis(100)).is_none());
    assert_eq!(to_state(qp, IBV_QPS_RESET), 0);
    take_datagrams(qp);
    peer.post(10);
    send(qp, 10, &mut piece, to(KEY));
    sent(cq, 10);
    assert_eq!(post_recv(qp, 63, side.sge(4096, 256)), 0);
    assert_eq!(peer.received().imm, Some(10));
    peer.send(qp, 11, KEY, b"pong");
    assert_eq!(poll(recv_cq).imm_data, 11_u32.to_be());
    // SAFETY: all of them exist.
    unsafe {
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_ah(ah), ibv_destroy_ah(back)), (0, 0, 0))
    };
}

#[test]
fn destinations_that_do_not_answer_as_braid_get_all_datagrams_in_order() {
    if !in_own_network("destinations_that_do_not_answer_as_braid_get_all_datagrams_in_order", &[]) {
        return;
    }
    let side = Side::open();
    let cq = side.cq(256);
    let qp = ready(&side, cq);
    // This number would lead to UDP port 20483, which is closed.
    let peer = Peer::at([127, 0, 0, 2], 3 << 12 | 5);
    let ah = handle_from(&side, 0, peer.gid());
    let to = Ud { ah, remote_qpn: peer.qp.number().get(), remote_qkey: KEY };
    (0..100).for_each(|id| peer.post(id));
    let mut piece = side.sge(0, 4);
    let began = Instant::now();
    for id in 0..100 {
        send(qp, id, &mut piece, to);
    }
    assert!(began.elapsed() < Duration::from_millis(200), "posting does not wait for an answer");
    (0..100).for_each(|id| sent(cq, id));
    let order: Vec<u32> = (0..100).map(|_| peer.received().imm.expect("it has")).collect();
    assert_eq!(order, Vec::from_iter(0..100));
    assert!(began.elapsed() < Duration::from_secs(3), "the question is bounded");
    // The answer is known now.
    let again = Instant::now();
    peer.post(0);
    send(qp, 100, &mut piece, to);
    sent(cq, 100);
    assert_eq!(peer.received().imm, Some(100));
    assert!(again.elapsed() < Duration::from_millis(200));
}

#[test]
fn datagrams_longer_than_the_path_mtu_are_not_sent_and_complete() {
    if !in_own_network("datagrams_longer_than_the_path_mtu_are_not_sent_and_complete", &[]) {
        return;
    }
    let mtu = Command::new("ip").args(["link", "set", "lo", "mtu", "1500"]).status();
    assert!(mtu.is_ok_and(|status| status.success()));
    let side = Side::open();
    let cq = side.cq(16);
    let qp = ready(&side, cq);
    let peer = Peer::at([127, 0, 0, 2], 17);
    let to = Ud { ah: handle_from(&side, 0, peer.gid()), remote_qpn: 17, remote_qkey: KEY };
    peer.post(0);
    send(qp, 1, &mut side.sge(0, 1025), to);
    sent(cq, 1);
    send(qp, 2, &mut side.sge(0, 900), to);
    sent(cq, 2);
    assert_eq!(peer.received().imm, Some(2));
}

#[test]
fn datagrams_are_lost_while_the_port_is_taken() {
    if !in_own_network("datagrams_are_lost_while_the_port_is_taken", &[]) {
        return;
    }
    let taken = UdpSocket::bind("127.0.0.1:4791").expect("a network of its own");
    let side = Side::open();
    let cq = side.cq(16);
    let qp = ready(&side, cq);
    let peer = Peer::at([127, 0, 0, 2], 17);
    let to = Ud { ah: handle_from(&side, 0, peer.gid()), remote_qpn: 17, remote_qkey: KEY };
    peer.post(0);
    send(qp, 1, &mut side.sge(0, 4), to);
    sent(cq, 1);
    drop(taken);
    let lost = peer.cq.wait_one(Duration::from_millis(100)).expect("the queue");
    assert_eq!(lost, None);
    // Braid is reached all the same.
    assert_eq!(post_recv(qp, 5, side.sge(4096, 256)), 0);
    send(qp, 2, &mut side.sge(0, 4), Ud { ah: handle(&side), remote_qpn: number(qp), ..to });
    let mut ids = [poll(cq).wr_id, poll(cq).wr_id];
    ids.sort_unstable();
    assert_eq!(ids, [2, 5]);
    // A new beginning finds the port free.
    assert_eq!(to_state(qp, IBV_QPS_RESET), 0);
    take_datagrams(qp);
    send(qp, 3, &mut side.sge(0, 4), to);
    sent(cq, 3);
    assert_eq!(peer.received().imm, Some(3));
}

#[test]
fn with_always_the_port_is_needed() {
    if !in_own_network("with_always_the_port_is_needed", &[("BRAID_ROCE", "always")]) {
        return;
    }
    let taken = UdpSocket::bind("127.0.0.1:4791").expect("a network of its own");
    let side = Side::open();
    let qp = side.qp(side.cq(16), IBV_QPT_UD, 8, 8);
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut attr: ibv_qp_attr = unsafe { std::mem::zeroed() };
    (attr.qp_state, attr.port_num, attr.qkey) = (IBV_QPS_INIT, 1, KEY);
    let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    assert_eq!(modify(qp, &attr, mask), 0);
    assert_eq!(to_state(qp, IBV_QPS_RTR), libc::EADDRINUSE);
    assert_eq!(state(qp), IBV_QPS_INIT);
    drop(taken);
    assert_eq!(to_state(qp, IBV_QPS_RTR), 0);
}

/// The device with this address.
fn side_at(addr: Ipv4Addr) -> Side {
    let mut count = 0;
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let list = ibv_get_device_list(&raw mut count);
        let found = (0..count as usize)
            .map(|at| Side::on(*list.add(at)))
            .find(|side| side.gid_at(0).is_some_and(|own| own.raw == gid(addr.into()).raw));
        ibv_free_device_list(list);
        found.expect("a device of that address")
    }
}

/// Sends each datagram back to where it came from, by its header.
fn echo() {
    let mut side = side_at([10, 9, 2, 1].into());
    let cq = side.cq(256);
    let qp = ready(&side, cq);
    for id in 0..64 {
        assert_eq!(post_recv(qp, id, side.sge(1024 * id as usize, 1024)), 0);
    }
    println!("\nQPN {}", number(qp));
    io::stdout().flush().expect("it is piped");
    loop {
        let mut wc = poll(cq);
        assert_eq!(wc.status, IBV_WC_SUCCESS);
        if wc.opcode != IBV_WC_RECV {
            continue;
        }
        let at = 1024 * wc.wr_id as usize;
        let grh = side.memory[at..].as_mut_ptr();
        // SAFETY: all of them exist.
        let ah = unsafe { ibv_create_ah_from_wc(side.pd, &raw mut wc, grh, 1) };
        let to = Ud { ah, remote_qpn: wc.src_qp, remote_qkey: KEY };
        let mut piece = side.sge(at + GRH, wc.byte_len - GRH as u32);
        send(qp, u64::from(u32::from_be(wc.imm_data)), &mut piece, to);
        assert_eq!(post_recv(qp, wc.wr_id, side.sge(at, 1024)), 0);
    }
}

#[test]
fn two_processes_that_want_rocev2_alone_exchange_datagrams() {
    let test = "two_processes_that_want_rocev2_alone_exchange_datagrams";
    if env::var_os(ECHO).is_some() {
        return echo();
    }
    if !in_own_network(test, &[("BRAID_ROCE", "always")]) {
        return;
    }
    let mut other = Command::new(env::current_exe().expect("this test"));
    other.args(["--exact", test, "--nocapture"]).env(ECHO, "1");
    let mut other = other.stdout(Stdio::piped()).spawn().expect("this test");
    let said = BufReader::new(other.stdout.take().expect("it is piped")).lines();
    let qpn = said.map_while(Result::ok).find_map(|line| line.strip_prefix("QPN ")?.parse().ok());
    let mut side = side_at([10, 9, 1, 1].into());
    let (cq, recv_cq) = (side.cq(64), side.cq(64));
    let mut attr = init_attr(cq, IBV_QPT_UD, 16, 16);
    attr.recv_cq = recv_cq;
    // SAFETY: the domain and the queues exist.
    let qp = unsafe { ibv_create_qp(side.pd, &raw mut attr) };
    take_datagrams(qp);
    let ah = handle_from(&side, 0, gid([10, 9, 2, 1].into()));
    assert_ne!(ah, ptr::null_mut());
    let to = Ud { ah, remote_qpn: qpn.expect("it begins"), remote_qkey: KEY };
    for id in 0..200 {
        let text = format!("datagram {id}");
        side.memory[..text.len()].copy_from_slice(text.as_bytes());
        assert_eq!(post_recv(qp, id, side.sge(4096, 1024)), 0);
        send(qp, id, &mut side.sge(0, text.len() as u32), to);
        sent(cq, id);
        let wc = poll(recv_cq);
        assert_eq!((wc.wr_id, wc.status, wc.src_qp), (id, IBV_WC_SUCCESS, to.remote_qpn));
        assert_eq!(wc.imm_data, (id as u32).to_be());
        // A header of IPv4, and not of Braid's own protocol.
        assert_eq!(side.memory[4096 + 20], 0x45);
        assert_eq!(&side.memory[4096 + GRH..4096 + wc.byte_len as usize], text.as_bytes());
    }
    other.kill().expect("it runs");
    other.wait().expect("it was killed");
}
