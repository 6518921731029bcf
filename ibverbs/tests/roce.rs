//! Queue pairs whose peer is not Braid's libibverbs: they speak plain RoCEv2. The peer here is an
//! engine at UDP port 4791, which the library cannot tell from an RNIC.

mod loopback;
mod own_network;

use std::mem;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use braid::{
    Access, CompletionQueue, Engine, EngineConfig, MemoryRegion, QpId, QpOptions, QpState,
    QueuePair, RoceMtu, RoceRemote, Status, wr,
};
use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::*;
use self::own_network::in_own_network;

const PATIENCE: Duration = Duration::from_secs(20);
const LEN: usize = 40_000;
/// PSNs that wrap soon.
const PSNS: [u32; 2] = [0xFF_FFFE, 0xFF_FFF8];

/// A peer that speaks RoCEv2.
struct Peer {
    engine: Engine,
    cq: CompletionQueue,
    qp: QueuePair,
    memory: MemoryRegion,
}

impl Peer {
    fn at(ip: [u8; 4]) -> Self {
        let bind = SocketAddr::new(ip.into(), 4791);
        let engine = Engine::new(EngineConfig { bind, ..Default::default() }).expect("an engine");
        let (pd, cq) = (engine.alloc_pd(), engine.create_cq(64).expect("a queue"));
        let memory = pd.alloc_mr(2 * LEN, Access::ALL).expect("memory");
        let mut options = QpOptions::new(&cq, &cq);
        options.config.rnr_retry = Some(1);
        let qp = pd.create_qp(options).expect("a queue pair");
        qp.modify(QpState::Init).expect("from RESET");
        Peer { engine, cq, qp, memory }
    }

    fn gid(&self) -> ibv_gid {
        gid(self.engine.local_addr().ip())
    }

    /// Connects to a queue pair of the library at 127.0.0.1.
    fn connect(&self, theirs: *mut ibv_qp) {
        let mut remote = RoceRemote::new([127, 0, 0, 1].into(), QpId::new(number(theirs)));
        [remote.recv_psn, remote.send_psn] = PSNS;
        remote.mtu = Some(RoceMtu::B1024);
        remote.max_rd_atomic = 1;
        self.qp.connect_roce(&remote).expect("no packet is exchanged");
    }

    fn success(&self) -> braid::Completion {
        let done = self.cq.wait_one(PATIENCE).expect("the queue").expect("a completion in time");
        assert_eq!(done.status, Status::Success);
        done
    }
}

fn gid(ip: IpAddr) -> ibv_gid {
    let IpAddr::V4(ip) = ip else { panic!("an IPv4 address") };
    ibv_gid { raw: ip.to_ipv6_mapped().octets() }
}

/// Moves a queue pair of the library to RTR. Returns the errno value.
fn to_rtr_of(qp: *mut ibv_qp, gid: ibv_gid, remote: u32, path_mtu: u32) -> i32 {
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut attr: ibv_qp_attr = unsafe { mem::zeroed() };
    (attr.qp_state, attr.path_mtu, attr.dest_qp_num) = (IBV_QPS_RTR, path_mtu, remote);
    (attr.max_dest_rd_atomic, attr.min_rnr_timer, attr.rq_psn) = (1, 1, PSNS[1]);
    (attr.ah_attr.is_global, attr.ah_attr.port_num, attr.ah_attr.grh.dgid) = (1, 1, gid);
    modify(qp, &attr, RTR)
}

fn to_rts_of(qp: *mut ibv_qp) {
    // SAFETY: as above.
    let mut attr: ibv_qp_attr = unsafe { mem::zeroed() };
    (attr.qp_state, attr.timeout, attr.retry_cnt) = (IBV_QPS_RTS, 14, 7);
    // rxe serves 128, and perftest hands that number on.
    (attr.rnr_retry, attr.max_rd_atomic, attr.sq_psn) = (1, 128, PSNS[0]);
    assert_eq!(modify(qp, &attr, RTS), 0);
}

/// A queue pair of the library that is connected to a peer.
fn connected(side: &Side, cq: *mut ibv_cq, peer: &Peer) -> *mut ibv_qp {
    let qp = side.qp(cq, IBV_QPT_RC, 8, 8);
    to_init(qp);
    assert_eq!(to_rtr_of(qp, peer.gid(), peer.qp.number().get(), IBV_MTU_1024), 0);
    to_rts_of(qp);
    peer.connect(qp);
    qp
}

fn pattern(salt: usize) -> Vec<u8> {
    (0..LEN).map(|at| (at * 7 + at / 256 + salt) as u8).collect()
}

#[test]
fn every_operation_arrives_in_both_directions() {
    if in_own_network("every_operation_arrives_in_both_directions", &[]) {
        exchange_everything();
    }
}

/// Two engines stand for two other processes. The first reads the port until it ends.
#[test]
fn every_operation_arrives_if_another_process_has_the_port() {
    if !in_own_network("every_operation_arrives_if_another_process_has_the_port", &[]) {
        return;
    }
    let others = [(); 2].map(|()| {
        let bind = ([127, 0, 0, 1], 0).into();
        let engine = Engine::new(EngineConfig { bind, ..Default::default() }).expect("an engine");
        engine.roce_port(([127, 0, 0, 2], 4791).into()).expect("it can be shared");
        engine
    });
    exchange_everything();
    for other in others {
        drop(other);
        exchange_everything();
    }
}

fn exchange_everything() {
    let mut side = Side::open();
    let cq = side.cq(16);
    let peer = Peer::at([127, 0, 0, 2]);
    let qp = connected(&side, cq, &peer);
    let (remote, local) = (peer.memory.remote(), side.memory.as_ptr() as u64);
    let succeeds = |wr: &mut ibv_send_wr| {
        assert_eq!(post_send(qp, wr).0, 0);
        let wc = poll(cq);
        assert_eq!((wc.status, wc.wr_id, wc.qp_num), (IBV_WC_SUCCESS, wr.wr_id, number(qp)));
    };
    // The library asks.
    side.memory[..LEN].copy_from_slice(&pattern(1));
    let mut piece = side.sge(0, LEN as u32);
    let mut wr = send_wr(1, &mut piece);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = Rdma { remote_addr: remote.addr, rkey: remote.rkey };
    succeeds(&mut wr);
    let mut found = vec![0; LEN];
    peer.memory.read_at(0, &mut found).expect("it is there");
    assert_eq!(found, pattern(1));
    peer.memory.write_at(LEN, &pattern(2)).expect("it fits");
    (wr.wr_id, wr.opcode, wr.wr.rdma.remote_addr) = (2, 4, remote.addr + LEN as u64);
    succeeds(&mut wr);
    assert_eq!(side.memory[..LEN], pattern(2));
    peer.qp.post_recv(wr::recv(3, [peer.memory.slice(..LEN).unwrap()])).unwrap();
    (wr.wr_id, wr.opcode) = (3, IBV_WR_SEND);
    succeeds(&mut wr);
    assert_eq!(peer.success().len as usize, LEN);
    peer.memory.read_at(0, &mut found).expect("it is there");
    assert_eq!(found, pattern(2));
    peer.memory.write_at(0, &7_u64.to_le_bytes()).expect("it fits");
    let mut word = side.sge(0, 8);
    let mut add = send_wr(4, &mut word);
    add.opcode = 6;
    add.wr.atomic = Atomic { remote_addr: remote.addr, compare_add: 5, swap: 0, rkey: remote.rkey };
    succeeds(&mut add);
    assert_eq!(side.memory[..8], 7_u64.to_le_bytes());

    // The peer asks, while the program looks at its queue for the SEND only.
    // SAFETY: the region exists.
    let rkey = unsafe { (*side.mr).rkey };
    let at = |offset: usize| braid::RemoteAddr { addr: local + offset as u64, rkey };
    peer.memory.write_at(0, &pattern(3)).expect("it fits");
    let piece = || [peer.memory.slice(..LEN).unwrap()];
    peer.qp.post_send(wr::write(5, piece(), at(LEN))).unwrap();
    peer.success();
    assert_eq!(side.memory[LEN..2 * LEN], pattern(3));
    peer.qp.post_send(wr::read(6, [peer.memory.slice(LEN..).unwrap()], at(LEN))).unwrap();
    peer.success();
    peer.memory.read_at(LEN, &mut found).expect("it is there");
    assert_eq!(found, pattern(3));
    assert_eq!(post_recv(qp, 7, side.sge(0, LEN as u32)), 0);
    peer.qp.post_send(wr::send(7, piece())).unwrap();
    let wc = poll(cq);
    assert_eq!((wc.status, wc.wr_id, wc.byte_len as usize), (IBV_WC_SUCCESS, 7, LEN));
    peer.success();
    assert_eq!(side.memory[..LEN], pattern(3));
    assert!(peer.engine.counters().unknown_qp == 0 && peer.qp.error().is_none());
    // SAFETY: the queue pair exists.
    assert_eq!(unsafe { ibv_destroy_qp(qp) }, 0);
}

#[test]
fn errors_have_the_statuses_of_a_nic() {
    if !in_own_network("errors_have_the_statuses_of_a_nic", &[]) {
        return;
    }
    let side = Side::open();
    let cq = side.cq(16);
    let peer = Peer::at([127, 0, 0, 2]);
    let remote = peer.memory.remote();
    let mut piece = side.sge(0, 8);
    let mut wr = send_wr(1, &mut piece);
    wr.wr.rdma = Rdma { remote_addr: remote.addr, rkey: remote.rkey ^ 1 };
    for (opcode, status) in
        [(IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR), (IBV_WR_SEND, IBV_WC_RNR_RETRY_EXC_ERR)]
    {
        let qp = connected(&side, cq, &peer);
        wr.opcode = opcode;
        assert_eq!(post_send(qp, &mut wr).0, 0);
        assert_eq!(post_send(qp, &mut wr).0, 0);
        let ends = [poll(cq), poll(cq)].map(|wc| wc.status);
        assert_eq!(ends, [status, IBV_WC_WR_FLUSH_ERR]);
        assert_eq!(state(qp), IBV_QPS_ERR);
        peer.qp.modify(QpState::Reset).expect("any state");
    }
    // Nobody is at that address: eight tries of 67 ms.
    let qp = side.qp(cq, IBV_QPT_RC, 8, 8);
    to_init(qp);
    assert_eq!(to_rtr_of(qp, gid([127, 0, 0, 3].into()), 17, IBV_MTU_1024), 0);
    to_rts_of(qp);
    let began = Instant::now();
    assert_eq!(post_send(qp, &mut wr).0, 0);
    assert_eq!(poll(cq).status, IBV_WC_RETRY_EXC_ERR);
    assert!(began.elapsed() >= 7 * Duration::from_nanos(4096 << 14));
}

#[test]
fn refused_connections_leave_the_queue_pair_in_init() {
    if !in_own_network("refused_connections_leave_the_queue_pair_in_init", &[]) {
        return;
    }
    let side = Side::open();
    let peer = gid([127, 0, 0, 2].into());
    let taken = UdpSocket::bind("127.0.0.1:4791").expect("a network of its own");
    let rc = side.qp(side.cq(16), IBV_QPT_RC, 8, 8);
    let uc = side.qp(side.cq(16), IBV_QPT_UC, 8, 8);
    to_init(rc);
    // Number 17 belongs to no Braid process.
    assert_eq!(to_rtr_of(rc, peer, 17, IBV_MTU_1024), libc::EADDRINUSE);
    assert_eq!(state(rc), IBV_QPS_INIT);
    drop(taken);
    let mtu = Command::new("ip").args(["link", "set", "lo", "mtu", "1500"]).status();
    assert!(mtu.is_ok_and(|status| status.success()));
    assert_eq!(to_rtr_of(rc, peer, 17, 5), libc::EINVAL, "a path MTU of 4096");
    assert_eq!(to_rtr_of(rc, peer, 17, IBV_MTU_1024), 0);
    assert_eq!(to_state(rc, IBV_QPS_RESET), 0);
    to_init(rc);
    assert_eq!(to_rtr_of(rc, peer, 17, IBV_MTU_1024), 0, "the number is free again");
    // SAFETY: the structure consists of numbers, so zero is valid.
    let mut attr: ibv_qp_attr = unsafe { mem::zeroed() };
    (attr.qp_state, attr.port_num) = (IBV_QPS_INIT, 1);
    assert_eq!(modify(uc, &attr, INIT), 0);
    (attr.qp_state, attr.path_mtu, attr.dest_qp_num) = (IBV_QPS_RTR, IBV_MTU_1024, 17);
    (attr.ah_attr.is_global, attr.ah_attr.port_num, attr.ah_attr.grh.dgid) = (1, 1, peer);
    let mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    assert_eq!(modify(uc, &attr, mask), libc::EOPNOTSUPP);
}
