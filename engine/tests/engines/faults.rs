//! Everything arrives once and intact, whatever happens below the protocol.

use std::time::Duration;

use crate::pair::{Pair, configs_for_faults, local};
use braid::{Crc, EngineConfig, Faults, LbPolicy, wr};

/// Runs every operation under faults and checks every byte.
fn survive(name: &str, config: &EngineConfig) {
    println!("-- {name}");
    every_operation_arrives(&Pair::new(config));
}

/// Runs every operation and checks every byte.
pub(crate) fn every_operation_arrives(p: &Pair) {
    let data: Vec<u8> = (0..1 << 20).map(|i: u32| (i * 7 + i / 997) as u8).collect();
    p.a.memory.write_at(0, &data).unwrap();
    p.b.memory.write_at(3 << 20, &data[..100_000]).unwrap();
    let piece = |range| p.a.memory.slice(range).unwrap();
    for id in 0..32 {
        p.b.post_recv(id, (1 << 20) + 4096 * id as usize..(1 << 20) + 4096 * (id as usize + 1));
    }
    for id in 0..32 {
        p.a.qp.post_send(wr::send(id, [piece(id as usize..id as usize + 3000)])).unwrap();
        p.a.qp
            .post_send(wr::fetch_add(id, piece(2 << 20..(2 << 20) + 8), p.remote.at(2 << 20), 1))
            .unwrap();
    }
    p.a.qp.post_send(wr::write(50, [piece(0..1 << 20)], p.remote.at(0))).unwrap();
    p.a.qp
        .post_send(wr::read(51, [piece(3 << 20..(3 << 20) + 100_000)], p.remote.at(3 << 20)))
        .unwrap();
    p.successes(&p.a, 66);
    let received = p.successes(&p.b, 32);
    assert!(received.iter().map(|c| c.wr_id).eq(0..32), "in posting order");
    for id in 0..32 {
        let start = (1 << 20) + 4096 * id;
        assert!(p.b.bytes(start..start + 3000) == data[id..id + 3000], "message {id}");
    }
    assert!(p.b.bytes(0..1 << 20) == data, "the WRITE");
    assert!(p.a.bytes(3 << 20..(3 << 20) + 100_000) == data[..100_000], "the READ");
    assert_eq!(p.b.memory.load_u64(2 << 20), Ok(32), "each atomic once");
    p.quiet(Duration::from_millis(5));
}

fn everywhere(faults: Faults) {
    for (name, config) in configs_for_faults() {
        survive(name, &EngineConfig { faults, ..config });
    }
}

#[test]
fn loss() {
    everywhere(Faults { drop: 0.05, seed: 11, ..Faults::default() });
}

#[test]
fn reordering() {
    everywhere(Faults { reorder: 0.2, seed: 12, ..Faults::default() });
}

#[test]
fn duplication() {
    everywhere(Faults { duplicate: 0.3, seed: 13, ..Faults::default() });
}

#[test]
fn corruption() {
    everywhere(Faults { corrupt: 0.05, seed: 14, ..Faults::default() });
}

#[test]
fn all_of_it_under_every_path_policy() {
    let faults = Faults {
        drop: 0.03,
        reorder: 0.05,
        duplicate: 0.05,
        corrupt: 0.03,
        seed: 15,
        ..Faults::default()
    };
    for lb in [LbPolicy::ECMP, LbPolicy::ROUND_ROBIN, LbPolicy::OBLIVIOUS] {
        for paths in [1, 64] {
            let config = EngineConfig { faults, lb, paths, ..local() };
            survive(&format!("{lb:?} over {paths} paths"), &config);
        }
    }
}

#[test]
fn small_packets_and_no_payload_check() {
    let faults = Faults { drop: 0.02, reorder: 0.05, seed: 16, ..Faults::default() };
    survive("mtu 512", &EngineConfig { mtu: Some(512), crc: Some(Crc::Off), faults, ..local() });
}

#[test]
fn corrupted_packets_are_counted() {
    let faults = Faults { corrupt: 0.2, seed: 17, ..Faults::default() };
    let p = Pair::new(&EngineConfig { faults, ..local() });
    let piece = p.a.memory.slice(..100_000).unwrap();
    p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
    p.successes(&p.a, 1);
    let counters = p.b.engine.counters();
    assert!(counters.payload_check > 0, "{counters:?}");
}
