//! Every operation, over sockets and in memory, driven by threads and by the application.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::pair::{MEMORY, Pair, everywhere, local};
use braid::wr::SendWrExt;
use braid::{Work, wr};

/// Bytes that encode their offset.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn write() {
    everywhere(|p| {
        for len in [1, 8, 255, 256, 4096, 4097, 100_000, MEMORY] {
            let data = pattern(len);
            p.a.memory.write_at(0, &data).unwrap();
            let piece = p.a.memory.slice(..len).unwrap();
            p.a.qp.post_send(wr::write(len as u64, [piece], p.remote.at(0))).unwrap();
            let done = p.successes(&p.a, 1);
            assert_eq!((done[0].work, done[0].wr_id), (Work::Write, len as u64));
            assert!(p.b.bytes(0..len) == data, "{len} bytes");
        }
        p.quiet(Duration::from_millis(5));
    });
}

#[test]
fn write_with_immediate_data() {
    everywhere(|p| {
        p.b.qp.post_recv(wr::recv(5, [])).unwrap();
        p.a.memory.write_at(0, b"immediate").unwrap();
        let piece = p.a.memory.slice(..9).unwrap();
        p.a.qp.post_send(wr::write_imm(1, [piece], p.remote.at(64), 0xFEED)).unwrap();
        let done = p.successes(&p.b, 1)[0];
        assert_eq!((done.wr_id, done.work, done.len), (5, Work::RecvWriteImm, 9));
        assert_eq!(done.imm, Some(0xFEED));
        assert_eq!(p.b.bytes(64..73), b"immediate");
        p.successes(&p.a, 1);
    });
}

#[test]
fn send_in_posting_order() {
    everywhere(|p| {
        for id in 0..20 {
            p.b.post_recv(id, 8192 * id as usize..8192 * (id as usize + 1));
        }
        let data = pattern(5000);
        p.a.memory.write_at(0, &data).unwrap();
        for id in 0..20 {
            let piece = p.a.memory.slice(..5000 - id as usize).unwrap();
            p.a.qp.post_send(wr::send_imm(id, [piece], id as u32).solicited()).unwrap();
        }
        let done = p.successes(&p.b, 20);
        for (id, c) in done.iter().enumerate() {
            assert_eq!((c.wr_id, c.len, c.imm), (id as u64, 5000 - id as u32, Some(id as u32)));
            assert!(c.solicited);
            assert!(p.b.bytes(8192 * id..8192 * id + c.len as usize) == data[..c.len as usize]);
        }
        let ids: Vec<u64> = p.successes(&p.a, 20).iter().map(|c| c.wr_id).collect();
        assert_eq!(ids, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn send_before_the_receive_is_posted() {
    everywhere(|p| {
        p.a.qp.post_send_inline(wr::send(1, []), b"early").unwrap();
        p.quiet(Duration::from_millis(2));
        p.b.post_recv(9, 0..64);
        assert_eq!(p.successes(&p.b, 1)[0].wr_id, 9);
        assert_eq!(p.b.bytes(0..5), b"early");
        p.successes(&p.a, 1);
    });
}

#[test]
fn read() {
    everywhere(|p| {
        for len in [1, 4096, 300_000] {
            let data = pattern(len);
            p.b.memory.write_at(7, &data).unwrap();
            let piece = p.a.memory.slice(3..3 + len).unwrap();
            p.a.qp.post_send(wr::read(1, [piece], p.remote.at(7))).unwrap();
            assert_eq!(p.successes(&p.a, 1)[0].work, Work::Read);
            assert!(p.a.bytes(3..3 + len) == data, "{len} bytes");
        }
    });
}

#[test]
fn atomics() {
    everywhere(|p| {
        let result = p.a.memory.slice(16..24).unwrap();
        p.b.memory.store_u64(8, 40).unwrap();
        p.a.qp.post_send(wr::fetch_add(1, result, p.remote.at(8), 2)).unwrap();
        assert_eq!(p.successes(&p.a, 1)[0].work, Work::FetchAdd);
        assert_eq!((p.a.memory.load_u64(16), p.b.memory.load_u64(8)), (Ok(40), Ok(42)));
        for (compare, held) in [(41, 42), (42, 42)] {
            p.a.qp.post_send(wr::compare_swap(2, result, p.remote.at(8), compare, 7)).unwrap();
            assert_eq!(p.successes(&p.a, 1)[0].work, Work::CompareSwap);
            assert_eq!(p.a.memory.load_u64(16), Ok(held));
        }
        assert_eq!(p.b.memory.load_u64(8), Ok(7));
    });
}

#[test]
fn scatter_and_gather() {
    everywhere(|p| {
        let data = pattern(9000);
        p.a.memory.write_at(0, &data).unwrap();
        let pieces = [0..10, 10..11, 11..5000, 5000..9000];
        let pieces = pieces.map(|range| p.a.memory.slice(range).unwrap());
        let places = [0..4000, 100_000..100_001, 200_000..210_000];
        let places = places.map(|range| p.b.memory.slice(range).unwrap());
        p.b.qp.post_recv(wr::recv(1, places)).unwrap();
        p.a.qp.post_send(wr::send(1, pieces)).unwrap();
        assert_eq!(p.successes(&p.b, 1)[0].len, 9000);
        let mut landed = p.b.bytes(0..4000);
        landed.extend(p.b.bytes(100_000..100_001));
        landed.extend(p.b.bytes(200_000..204_999));
        assert!(landed == data);
        p.successes(&p.a, 1);
    });
}

#[test]
fn inline_data_is_copied_at_once() {
    everywhere(|p| {
        p.b.post_recv(1, 0..64);
        p.b.post_recv(2, 64..128);
        let mut data = *b"before";
        p.a.qp.post_send_inline(wr::send(1, []), &data).unwrap();
        data = *b"after ";
        p.a.qp.post_send_inline(wr::send(2, []), &data).unwrap();
        p.a.qp.post_send_inline(wr::write(3, [], p.remote.at(128)), &[7; 256]).unwrap();
        p.successes(&p.b, 2);
        p.successes(&p.a, 3);
        assert_eq!(p.b.bytes(0..6), b"before");
        assert_eq!(p.b.bytes(64..70), b"after ");
        assert_eq!(p.b.bytes(128..384), [7; 256]);
    });
}

#[test]
fn messages_without_bytes() {
    everywhere(|p| {
        p.b.qp.post_recv(wr::recv(1, [])).unwrap();
        p.a.qp.post_send(wr::send(1, [])).unwrap();
        p.a.qp.post_send(wr::write(2, [], p.remote.at(0))).unwrap();
        assert_eq!(p.successes(&p.b, 1)[0].len, 0);
        p.successes(&p.a, 2);
    });
}

#[test]
fn unsignalled_work_frees_its_place_and_says_nothing() {
    everywhere(|p| {
        let depth = 128;
        let piece = p.a.memory.slice(..64).unwrap();
        for round in 0..4 {
            for id in 0..depth {
                let wr = wr::write(id, [piece], p.remote.at(64 * id)).unsignalled();
                p.a.qp.post_send(wr).unwrap();
            }
            p.until("free places", || p.a.qp.outstanding().0 == 0);
            assert_eq!(p.a.cq.poll_one(), Ok(None), "round {round}");
        }
        p.a.qp.post_send(wr::write(77, [piece], p.remote.at(0))).unwrap();
        assert_eq!(p.successes(&p.a, 1)[0].wr_id, 77);
    });
}

#[test]
fn a_fenced_send_carries_what_the_read_has_fetched() {
    everywhere(|p| {
        p.b.post_recv(1, 1 << 20..(1 << 20) + 100_000);
        p.b.memory.write_at(0, &pattern(100_000)).unwrap();
        let piece = p.a.memory.slice(..100_000).unwrap();
        p.a.qp.post_send(wr::read(1, [piece], p.remote.at(0))).unwrap();
        p.a.qp.post_send(wr::send(2, [piece]).fenced()).unwrap();
        p.successes(&p.b, 1);
        p.successes(&p.a, 2);
        assert!(p.b.bytes(1 << 20..(1 << 20) + 100_000) == pattern(100_000));
    });
}

#[test]
fn both_directions_at_once() {
    everywhere(|p| {
        let back = p.a.memory.remote();
        let data = pattern(1 << 20);
        p.a.memory.write_at(0, &data).unwrap();
        p.b.memory.write_at(0, &data).unwrap();
        for id in 0..8 {
            let (from_a, from_b) = (p.a.memory.slice(..1 << 20), p.b.memory.slice(..1 << 20));
            p.a.qp.post_send(wr::write(id, [from_a.unwrap()], p.remote.at(1 << 20))).unwrap();
            p.b.qp.post_send(wr::write(id, [from_b.unwrap()], back.at(1 << 20))).unwrap();
        }
        p.successes(&p.a, 8);
        p.successes(&p.b, 8);
        assert!(p.a.bytes(1 << 20..2 << 20) == data && p.b.bytes(1 << 20..2 << 20) == data);
    });
}

#[test]
fn waiting_for_completions() {
    everywhere(|p| {
        let piece = p.a.memory.slice(..1 << 20).unwrap();
        let serving = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let (b, on) = (&p.b, &serving);
            // If the application drives the engines, the passive side has to be driven too.
            scope.spawn(move || {
                while on.load(Ordering::Relaxed) {
                    b.cq.wait(Duration::from_millis(1)).unwrap();
                }
            });
            for id in 0..20 {
                p.a.qp.post_send(wr::write(id, [piece], p.remote.at(0))).unwrap();
                let done = p.a.cq.wait(crate::pair::PATIENCE).unwrap();
                assert_eq!(done.iter().map(|c| c.wr_id).collect::<Vec<_>>(), [id]);
            }
            serving.store(false, Ordering::Relaxed);
        });
        assert!(p.a.cq.wait(Duration::from_millis(1)).unwrap().is_empty());
    });
}

#[test]
fn several_workers_share_an_engine() {
    let config = braid::EngineConfig { progress: braid::Progress::Threads(3), ..local() };
    let p = Pair::new(&config);
    let listener = p.b.engine.listen(8).unwrap();
    let mut queue_pairs = Vec::new();
    for _ in 0..6 {
        let create = |side: &crate::pair::Side| {
            side.pd.create_qp(braid::QpOptions::new(&side.cq, &side.cq)).unwrap()
        };
        let (from, to) = (create(&p.a), create(&p.b));
        crate::pair::connect(&from, &listener, &to, &[]);
        queue_pairs.push((from, to));
    }
    p.a.memory.write_at(0, &pattern(1 << 20)).unwrap();
    let piece = p.a.memory.slice(..1 << 20).unwrap();
    for (from, _) in &queue_pairs {
        from.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
    }
    p.successes(&p.a, 6);
    assert!(p.b.bytes(0..1 << 20) == pattern(1 << 20));
    let ports: HashSet<u16> =
        queue_pairs.iter().filter_map(|(from, _)| from.remote_addr()).map(|a| a.port()).collect();
    assert_eq!(ports.len(), 3, "each worker has a port of its own: {ports:?}");
}
