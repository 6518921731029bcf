//! Devices with two GIDs, of an IPv4 and an IPv6 address of their interface. Each object uses the
//! GID that it names.

mod loopback;

use std::ffi::c_int;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv6Addr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::ptr;

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::connections::*;
use self::loopback::*;

/// The variable that makes this process the second one of a test.
const ROLE: &str = "BRAID_TEST_OTHER_PROCESS";
const INDICES: [u8; 2] = [0, 1];

/// The loopback device, if this machine has IPv6. Containers often have none, and then there is
/// nothing to test.
fn dual_stack() -> Option<Side> {
    UdpSocket::bind("[::1]:0").is_ok().then(Side::open)
}

fn raw(gid: ibv_gid) -> [u8; 16] {
    // SAFETY: both members of the union are plain bytes.
    unsafe { gid.raw }
}

fn gids(side: &Side) -> [ibv_gid; 2] {
    INDICES.map(|index| side.gid_at(index).expect("an address of each IP version"))
}

fn empty_entry() -> ibv_gid_entry {
    // SAFETY: the structure consists of numbers, so zero is valid.
    unsafe { std::mem::zeroed() }
}

#[test]
fn the_table_has_the_ipv4_address_first_and_the_ipv6_address_second() {
    let Some(side) = dual_stack() else { return };
    let mapped = std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
    assert_eq!(gids(&side).map(raw), [mapped, Ipv6Addr::LOCALHOST.octets()]);
    assert!(side.gid_at(2).is_none());
    let size = size_of::<ibv_gid_entry>();
    let mut entries = [(); 3].map(|()| empty_entry());
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let mut port: ibv_port_attr = std::mem::zeroed();
        assert_eq!(ibv_query_port(side.context, 1, (&raw mut port).cast()), 0);
        assert_eq!(port.gid_tbl_len, 2);
        let table = |entries: &mut [ibv_gid_entry]| {
            _ibv_query_gid_table(side.context, entries.as_mut_ptr(), entries.len(), 0, size)
        };
        assert_eq!(table(&mut entries[..1]), -(libc::EINVAL as isize), "there is no room");
        assert_eq!(table(&mut entries), 2);
        for (index, entry) in (0..).zip(&entries[..2]) {
            let mut one = empty_entry();
            assert_eq!(_ibv_query_gid_ex(side.context, 1, index, &raw mut one, 0, size), 0);
            assert_eq!((raw(one.gid), one.gid_index), (raw(entry.gid), index));
        }
        let code = _ibv_query_gid_ex(side.context, 1, 2, entries.as_mut_ptr(), 0, size);
        assert_eq!(code, libc::ENODATA);
    }
}

#[test]
fn a_gid_leads_to_those_of_its_ip_version_alone() {
    let Some(side) = dual_stack() else { return };
    let [v4, v6] = gids(&side);
    let qp = side.qp(side.cq(16), IBV_QPT_RC, 4, 4);
    to_init(qp);
    for (index, gid) in [(0, v6), (1, v4), (2, v4), (2, v6), (u8::MAX, v6)] {
        assert_eq!(to_rtr_from(qp, index, gid, number(qp) ^ 1), libc::EINVAL, "{index}");
        assert_eq!(state(qp), IBV_QPS_INIT);
        assert!(handle_from(&side, index, gid).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
    }
    assert_eq!(to_rtr_from(qp, 1, v6, number(qp) ^ 1), 0);
    // SAFETY: the queue pair exists.
    assert_eq!(unsafe { ibv_destroy_qp(qp) }, 0);
}

#[test]
fn datagrams_go_from_the_gid_that_their_handle_names_and_lead_back() {
    let Some(mut side) = dual_stack() else { return };
    let (cq, other_cq) = (side.cq(64), side.cq(64));
    let [one, other] = [cq, other_cq].map(|cq| side.qp(cq, IBV_QPT_UD, 8, 8));
    take_datagrams(one);
    take_datagrams(other);
    for (index, gid) in INDICES.into_iter().zip(gids(&side)) {
        let ah = handle_from(&side, index, gid);
        side.memory[..4].copy_from_slice(&[index; 4]);
        assert_eq!(post_recv(other, 1, side.sge(4096, 256)), 0);
        let to = Ud { ah, remote_qpn: number(other), remote_qkey: KEY };
        let mut piece = side.sge(0, 4);
        let mut wr = send_wr(2, &mut piece);
        wr.wr.ud = to;
        assert_eq!(post_send(one, &mut wr).0, 0);
        let (sent, mut received) = (poll(cq), poll(other_cq));
        assert_eq!((sent.status, received.status, received.wr_id), (0, 0, 1));
        let grh = &mut side.memory[4096..4096 + 44];
        assert_eq!((&grh[8..24], &grh[24..40]), (&raw(gid)[..], &raw(gid)[..]));
        assert_eq!(grh[40..], [index; 4]);
        let mut back: ibv_ah_attr = handle_attributes();
        let grh = grh.as_mut_ptr();
        // SAFETY: all of them exist.
        unsafe {
            let code = ibv_init_ah_from_wc(side.context, 1, &raw mut received, grh, &raw mut back);
            assert_eq!((code, back.grh.sgid_index), (0, index));
            let way_back = ibv_create_ah_from_wc(side.pd, &raw mut received, grh, 1);
            assert!(!way_back.is_null());
            assert_eq!((ibv_destroy_ah(way_back), ibv_destroy_ah(ah)), (0, 0));
        }
    }
    // SAFETY: as above.
    unsafe { assert_eq!((ibv_destroy_qp(one), ibv_destroy_qp(other)), (0, 0)) };
}

fn handle_attributes() -> ibv_ah_attr {
    // SAFETY: the structure consists of numbers, so zero is valid.
    unsafe { std::mem::zeroed() }
}

#[test]
fn connections_by_address_and_port_are_of_the_version_of_their_addresses() {
    let Some(side) = dual_stack() else { return };
    let [_, v6] = gids(&side).map(raw);
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    unsafe {
        let (server, client) = (rdma_create_event_channel(), rdma_create_event_channel());
        let (listener, port) = listen_at(server, ptr::from_mut(&mut address_v6(0)).cast());
        let id = resolved_to(client, ptr::from_mut(&mut address_v6(port)).cast());
        let cq = with_qp(id);
        assert_eq!(rdma_connect(id, &mut param(b"")), 0);
        let request = expect(server, CONNECT_REQUEST);
        for id in [id, request.id] {
            assert_eq!((*id).route.addr.ibaddr.sgid.raw, v6);
            assert_eq!((*id).route.addr.ibaddr.dgid.raw, v6);
        }
        let other_cq = with_qp(request.id);
        let mut memory = vec![7u8; 128];
        let mr = ibv_reg_mr((*id).pd, memory.as_mut_ptr().cast(), memory.len(), ALL);
        let piece = |offset: u64| braid_verbs::Sge {
            addr: (*mr).addr as u64 + offset,
            len: 64,
            lkey: (*mr).lkey,
        };
        assert_eq!(post_recv((*request.id).qp, 9, piece(64)), 0);
        assert_eq!(rdma_accept(request.id, &mut param(b"")), 0);
        expect(client, ESTABLISHED);
        expect(server, ESTABLISHED);
        assert_eq!(post_send((*id).qp, &mut send_wr(8, &mut piece(0))).0, 0);
        assert_eq!((poll(cq).status, poll(other_cq).status), (IBV_WC_SUCCESS, IBV_WC_SUCCESS));
        for (id, cq) in [(id, cq), (request.id, other_cq)] {
            assert_eq!(rdma_disconnect(id), 0);
            rdma_destroy_qp(id);
            assert_eq!(ibv_destroy_cq(cq), 0);
        }
        expect(client, DISCONNECTED);
        expect(server, DISCONNECTED);
        assert_eq!((rdma_destroy_id(id), rdma_destroy_id(request.id)), (0, 0));
        assert_eq!((rdma_destroy_id(listener), ibv_dereg_mr(mr)), (0, 0));
        rdma_destroy_event_channel(server);
        rdma_destroy_event_channel(client);
    }
}

/// The queue pairs of a process, one for each GID, and their description for the other process.
struct Ends {
    side: Side,
    cq: *mut ibv_cq,
    qps: [*mut ibv_qp; 2],
}

impl Ends {
    fn new(side: Side) -> Self {
        let cq = side.cq(64);
        let qps = INDICES.map(|index| {
            let qp = side.qp(cq, IBV_QPT_RC, 8, 8);
            to_init(qp);
            assert_eq!(post_recv(qp, index.into(), side.sge(4096 * usize::from(index + 1), 64)), 0);
            qp
        });
        Ends { side, cq, qps }
    }

    fn numbers(&self) -> String {
        let [one, other] = self.qps.map(number);
        format!("numbers {one} {other}")
    }

    /// Connects each queue pair with the one of the same index, whose number is in this line.
    fn connect(&self, line: &str) {
        let numbers = line.split_whitespace().skip(1).map(|number| number.parse().unwrap());
        for (index, number) in INDICES.into_iter().zip(numbers) {
            let (qp, gid) = (self.qps[usize::from(index)], self.side.gid_at(index).unwrap());
            assert_eq!(to_rtr_from(qp, index, gid, number), 0);
            to_rts(qp, 7);
        }
    }

    /// Sends one message by each queue pair.
    fn send(&mut self, byte: u8) {
        self.side.memory[..64].fill(byte);
        for qp in self.qps {
            assert_eq!(post_send(qp, &mut send_wr(100, &mut self.side.sge(0, 64))).0, 0);
        }
    }

    /// Waits until this many work requests have completed successfully.
    fn complete(&self, count: usize) {
        (0..count).for_each(|_| assert_eq!(poll(self.cq).status, IBV_WC_SUCCESS));
    }

    fn has(&self, byte: u8) -> bool {
        let received = |index: u8| &self.side.memory[4096 * usize::from(index + 1)..][..64];
        INDICES.iter().all(|index| received(*index) == [byte; 64])
    }
}

/// The second process, which ends when this is dropped.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        // The process may have ended by itself.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn two_processes_are_connected_by_both_versions_at_once() {
    let Some(side) = dual_stack() else { return };
    let mut other = Command::new(std::env::current_exe().unwrap());
    other.args(["--exact", "the_other_process", "--nocapture"]).env(ROLE, "1");
    let spawned = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut other = Other(spawned.unwrap());
    let mut ends = Ends::new(side);
    writeln!(other.0.stdin.take().unwrap(), "{}", ends.numbers()).unwrap();
    // The reader stays open until the process has ended, because it writes more.
    let mut said = BufReader::new(other.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = said.find(|line| line.starts_with("numbers")).expect("what it has");
    ends.connect(&line);
    ends.send(1);
    ends.complete(4);
    assert!(ends.has(2), "what the other process has sent by each");
    let ended: c_int = other.0.wait().unwrap().code().unwrap();
    assert_eq!(ended, 0);
}

/// The part of the second process. Run as a test, this does nothing.
#[test]
fn the_other_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut ends = Ends::new(Side::open());
    println!("\n{}", ends.numbers());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    ends.connect(&line);
    ends.complete(2);
    assert!(ends.has(1), "what the first process has sent by each");
    ends.send(2);
    ends.complete(2);
    // SAFETY: both exist. The other end has received all messages.
    ends.qps.iter().for_each(|qp| assert_eq!(unsafe { ibv_destroy_qp(*qp) }, 0));
}
