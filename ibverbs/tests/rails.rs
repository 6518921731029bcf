//! A device of several addresses.

mod loopback;

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};

use braid_ibverbs::*;
use braid_verbs::abi::*;

use self::loopback::*;

/// The metrics of this process, over HTTP.
fn metrics(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: braid\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Packets that have left over a rail.
fn sent(text: &str, rail: u8) -> u64 {
    let is_of_rail = |line: &&str| {
        line.starts_with("braid_path_sent_total") && line.contains(&format!("rail=\"{rail}\""))
    };
    let count = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64;
    text.lines().filter(is_of_rail).map(count).sum()
}

/// The only test of this process, because it sets the environment.
#[test]
fn a_device_of_two_rails_uses_both() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = [
        ("BRAID_RAILS", "127.0.0.1,127.0.0.2;127.0.0.3".to_owned()),
        ("BRAID_LOSS_RECOVERY", "ooo-window".to_owned()),
        ("BRAID_METRICS", format!("127.0.0.1:{port}")),
    ];
    // SAFETY: no other thread of this process reads or changes the environment.
    settings.iter().for_each(|(name, value)| unsafe { std::env::set_var(name, value) });
    let mut count = 0;
    // SAFETY: the calls follow the man pages, with the results of earlier calls.
    let [first, second] = unsafe {
        let list = ibv_get_device_list(&raw mut count);
        let devices = [*list, *list.add(1)];
        ibv_free_device_list(list);
        devices
    };
    assert_eq!(count, 2);
    let gid = |side: &Side| {
        // SAFETY: both members of the union are plain bytes.
        let raw = unsafe { side.gid().raw };
        std::net::Ipv6Addr::from(raw).to_ipv4_mapped().map(IpAddr::V4)
    };
    assert_eq!(gid(&Side::on(second)), Some([127, 0, 0, 3].into()));

    let side = Side::on(first);
    assert_eq!(gid(&side), Some([127, 0, 0, 1].into()));
    let cq = side.cq(64);
    let (one, other) = (side.qp(cq, IBV_QPT_RC, 8, 8), side.qp(cq, IBV_QPT_RC, 8, 8));
    connect(&side, one, other);
    // Each 64 KiB take the rail with the least load.
    let mut memory = vec![0u8; 1 << 20];
    let start = memory.as_mut_ptr();
    // SAFETY: the domain and the memory exist.
    let mr = unsafe { ibv_reg_mr(side.pd, start.cast(), memory.len(), ALL) };
    // SAFETY: the region has just been made.
    let key = unsafe { (*mr).lkey };
    let mut piece = braid_verbs::Sge { addr: start as u64, len: 1 << 18, lkey: key };
    let remote_addr = start as u64 + (1 << 19);
    let mut rounds = 0;
    while [0, 1].iter().any(|rail| sent(&metrics(port), *rail) < 100) {
        assert!(rounds < 1000, "one rail carries nothing:\n{}", metrics(port));
        for id in 0..8 {
            let mut wr = send_wr(id, &mut piece);
            (wr.opcode, wr.wr.rdma) = (IBV_WR_RDMA_WRITE, Rdma { remote_addr, rkey: key });
            assert_eq!(post_send(one, &mut wr).0, 0);
        }
        (0..8).for_each(|_| assert_eq!(poll(cq).status, IBV_WC_SUCCESS));
        rounds += 1;
    }
    // SAFETY: all of them exist.
    unsafe {
        assert_eq!((ibv_destroy_qp(one), ibv_destroy_qp(other), ibv_dereg_mr(mr)), (0, 0, 0));
    }
}
