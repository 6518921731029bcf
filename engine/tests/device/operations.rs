//! Every operation from and to device memory.

use braid::wr::{self, SendWrExt};
use braid::{Completion, MemoryRegion, Sge, Status, Work};

use crate::gpu::Gpu;
use crate::pair::Pair;
use crate::{LEN, device, everywhere, pattern};

/// Delays of copies, in microseconds.
const DELAYS: [(u64, u64); 3] = [(0, 0), (0, 300), (3_000, 9_000)];

fn piece(region: &MemoryRegion, at: usize, len: usize) -> Sge {
    region.slice(at..at + len).unwrap()
}

/// Checks bytes of device memory at once, beside all streams: a completion has told that they are
/// there.
fn check(gpu: &Gpu, region: &MemoryRegion, at: usize, expected: &[u8], what: &str) {
    assert!(gpu.peek(region, at, expected.len()) == expected, "{what}");
}

#[test]
fn every_operation_moves_bytes_of_devices() {
    everywhere(|gpu, p| {
        let (near, far) = (device(&p.a, LEN), device(&p.b, LEN));
        assert!(near.is_device() && !p.a.memory.is_device());
        for (round, (shortest, longest)) in DELAYS.into_iter().enumerate() {
            gpu.slow_down(shortest, longest);
            let seed = round as u32;
            for len in [1, 8, 4000, 300_000] {
                let data = pattern(seed + len as u32, len);
                gpu.poke(&near, 100, &data);

                let remote = far.remote();
                p.a.qp.post_send(wr::write(1, [piece(&near, 100, len)], remote.at(64))).unwrap();
                p.successes(&p.a, 1);
                check(gpu, &far, 64, &data, "WRITE");

                p.a.qp.post_send(wr::read(2, [piece(&near, 1 << 20, len)], remote.at(64))).unwrap();
                p.successes(&p.a, 1);
                check(gpu, &near, 1 << 20, &data, "READ");

                p.b.qp.post_recv(wr::recv(3, [piece(&far, 1 << 20, len)])).unwrap();
                p.a.qp.post_send(wr::send(4, [piece(&near, 100, len)])).unwrap();
                assert_eq!(p.successes(&p.b, 1)[0].len, len as u32);
                check(gpu, &far, 1 << 20, &data, "SEND");
                p.successes(&p.a, 1);

                let piece = [piece(&near, 100, len)];
                p.b.qp.post_recv(wr::recv(5, [])).unwrap();
                p.a.qp.post_send(wr::write_imm(6, piece, remote.at(2 << 20), 77)).unwrap();
                assert_eq!(p.successes(&p.b, 1)[0].imm, Some(77));
                check(gpu, &far, 2 << 20, &data, "WRITE with immediate data");
                p.successes(&p.a, 1);
            }
        }
        assert_eq!(gpu.record().under_way, 0);
    });
}

#[test]
fn atomics_execute_in_device_memory() {
    everywhere(|gpu, p| {
        gpu.slow_down(0, 500);
        let (near, far) = (device(&p.a, 4096), device(&p.b, 4096));
        far.write_at(8, &40_u64.to_ne_bytes()).unwrap();
        let result = || u64::from_ne_bytes(gpu.peek(&near, 16, 8).try_into().unwrap());
        let word = || u64::from_ne_bytes(gpu.peek(&far, 8, 8).try_into().unwrap());
        let add = wr::fetch_add(1, piece(&near, 16, 8), far.remote().at(8), 2);
        p.a.qp.post_send(add).unwrap();
        p.successes(&p.a, 1);
        assert_eq!((result(), word()), (40, 42));
        let swap =
            |compare| wr::compare_swap(2, piece(&near, 16, 8), far.remote().at(8), compare, 7);
        p.a.qp.post_send(swap(1)).unwrap();
        p.successes(&p.a, 1);
        assert_eq!((result(), word()), (42, 42), "the comparison fails");
        p.a.qp.post_send(swap(42)).unwrap();
        p.successes(&p.a, 1);
        assert_eq!((result(), word()), (42, 7));
        // A counter in memory of the host, whose result lands in the device.
        p.b.memory.store_u64(0, 5).unwrap();
        let add = wr::fetch_add(3, piece(&near, 16, 8), p.remote.at(0), 1);
        p.a.qp.post_send(add).unwrap();
        p.successes(&p.a, 1);
        assert_eq!((result(), p.b.memory.load_u64(0).unwrap()), (5, 6));
    });
}

#[test]
fn lists_mix_memory_of_hosts_and_devices() {
    everywhere(|gpu, p| {
        gpu.slow_down(0, 1_000);
        let (near, far) = (device(&p.a, LEN), device(&p.b, LEN));
        let data = pattern(3, 100_000);
        gpu.poke(&near, 0, &data[..30_001]);
        p.a.memory.write_at(0, &data[30_001..70_000]).unwrap();
        gpu.poke(&near, 50_000, &data[70_000..]);
        let sent =
            [piece(&near, 0, 30_001), piece(&p.a.memory, 0, 39_999), piece(&near, 50_000, 30_000)];
        let received = [
            piece(&p.b.memory, 7, 10_000),
            piece(&far, 9, 60_000),
            piece(&p.b.memory, 20_000, 30_000),
        ];
        let check = |what| {
            assert!(p.b.bytes(7..10_007) == data[..10_000], "{what}");
            check(gpu, &far, 9, &data[10_000..70_000], what);
            assert!(p.b.bytes(20_000..50_000) == data[70_000..], "{what}");
        };
        p.b.qp.post_recv(wr::recv(1, received)).unwrap();
        p.a.qp.post_send(wr::send(2, sent)).unwrap();
        p.successes(&p.b, 1);
        check("SEND");
        p.successes(&p.a, 1);

        gpu.poke(&far, 9, &vec![0; 60_000]);
        let remote = p.a.memory.remote();
        p.a.memory.write_at(200_000, &data).unwrap();
        p.b.qp.post_send(wr::read(3, received, remote.at(200_000))).unwrap();
        p.successes(&p.b, 1);
        check("READ");
    });
}

#[test]
fn work_requests_keep_their_order_around_copies() {
    everywhere(|gpu, p| {
        gpu.slow_down(100, 2_000);
        let near = device(&p.a, LEN);
        let far = device(&p.b, LEN);
        // Each third message lies in memory of the host, and does not overtake the others.
        const COUNT: usize = 60;
        for index in 0..COUNT {
            let len = 100 + 700 * (index % 7);
            let from = if index % 3 == 0 { &p.a.memory } else { &near };
            let to = if index % 2 == 0 { &p.b.memory } else { &far };
            let (at, data) = (index * 10_000, pattern(index as u32, len));
            if from.is_device() {
                gpu.poke(from, at, &data);
            } else {
                from.write_at(at, &data).unwrap();
            }
            p.b.qp.post_recv(wr::recv(index as u64, [piece(to, at, len)])).unwrap();
            let send = wr::send(index as u64, [piece(from, at, len)]);
            let send = if index % 5 == 1 { send.unsignalled() } else { send };
            p.a.qp.post_send(send).unwrap();
        }
        let mut done: Vec<Completion> = Vec::new();
        p.until("receives", || {
            let before = done.len();
            p.b.cq.poll(&mut done, 8).unwrap();
            for (index, completion) in done.iter().enumerate().skip(before) {
                assert_eq!((completion.wr_id, completion.status), (index as u64, Status::Success));
                let to = if index % 2 == 0 { &p.b.memory } else { &far };
                let expected = pattern(index as u32, 100 + 700 * (index % 7));
                let got = match to.is_device() {
                    true => gpu.peek(to, index * 10_000, expected.len()),
                    false => p.b.bytes(index * 10_000..index * 10_000 + expected.len()),
                };
                assert!(got == expected, "message {index}");
            }
            done.len() == COUNT
        });
        let sent = p.successes(&p.a, COUNT - COUNT.div_ceil(5));
        assert!(sent.windows(2).all(|two| two[0].wr_id < two[1].wr_id));
        assert!(sent.iter().all(|completion| completion.work == Work::Send));
    });
}

#[test]
fn reads_see_what_was_written_before() {
    everywhere(|gpu, p| {
        gpu.slow_down(0, 2_000);
        let (near, far) = (device(&p.a, LEN), device(&p.b, LEN));
        for round in 0..20 {
            let data = pattern(round, 50_000);
            gpu.poke(&near, 0, &data);
            let remote = far.remote().at(0);
            p.a.qp
                .post_send(wr::write(1, [piece(&near, 0, 50_000)], remote).unsignalled())
                .unwrap();
            let read = wr::read(2, [piece(&near, 1 << 20, 50_000)], remote);
            p.a.qp.post_send(read).unwrap();
            p.successes(&p.a, 1);
            check(gpu, &near, 1 << 20, &data, "READ behind WRITE");
        }
    });
}

#[test]
fn messages_may_be_longer_than_the_memory_for_copies() {
    const LONG: usize = 40 << 20;
    let gpu = Gpu::new();
    let p = Pair::new(&crate::pair::local());
    let (near, far) = (device(&p.a, LONG), device(&p.b, LONG));
    let data = pattern(1, LONG);
    gpu.poke(&near, 0, &data);
    let all = [near.slice(..).unwrap()];
    p.a.qp.post_send(wr::write(1, all, far.remote().at(0))).unwrap();
    p.successes(&p.a, 1);
    check(&gpu, &far, 0, &data, "WRITE");
    gpu.poke(&near, 0, &vec![0; LONG]);
    p.a.qp.post_send(wr::read(2, all, far.remote().at(0))).unwrap();
    p.successes(&p.a, 1);
    check(&gpu, &near, 0, &data, "READ");
}
