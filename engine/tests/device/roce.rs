//! Device memory of queue pairs that speak plain RoCEv2. Messages are sent from there and arrive
//! there; READs by the peer are refused.

use std::time::Duration;

use braid::wr;
use braid::{EndCause, QpState, RoceRemote, Status};
use cuda_substitute::Behaviour;

use crate::gpu::Gpu;
use crate::pair::{Pair, Side, local};
use crate::{LEN, device, pattern};

fn pair() -> Pair {
    let [a, b] = [(); 2].map(|()| Side::new(&local(), |_| {}));
    let end_of = |side: &Side| {
        let addr = side.engine.local_addr();
        let mut end = RoceRemote::new(addr.ip(), side.qp.number());
        end.port = addr.port();
        (end.ack_timeout, end.retry_count) = (Duration::from_millis(20), 100);
        end
    };
    a.qp.connect_roce(&end_of(&b)).unwrap();
    b.qp.connect_roce(&end_of(&a)).unwrap();
    let remote = b.memory.remote();
    Pair { a, b, remote }
}

#[test]
fn arrivals_and_atomics_reach_the_device() {
    let gpu = Gpu::new();
    let p = pair();
    let (near, far) = (device(&p.a, LEN), device(&p.b, LEN));
    gpu.slow_down(0, 200);
    let data = pattern(9, 50_000);
    p.a.memory.write_at(0, &data).unwrap();
    let piece = p.a.memory.slice(..data.len()).unwrap();
    p.a.qp.post_send(wr::write(1, [piece], far.remote().at(64))).unwrap();
    p.successes(&p.a, 1);
    assert!(gpu.peek(&far, 64, data.len()) == data, "WRITE");
    p.b.qp.post_recv(wr::recv(2, [far.slice(1 << 20..(1 << 20) + data.len()).unwrap()])).unwrap();
    p.a.qp.post_send(wr::send(3, [piece])).unwrap();
    p.successes(&p.b, 1);
    assert!(gpu.peek(&far, 1 << 20, data.len()) == data, "SEND");
    p.successes(&p.a, 1);
    p.b.memory.write_at(0, &data).unwrap();
    p.a.qp.post_send(wr::read(4, [near.slice(..data.len()).unwrap()], p.remote.at(0))).unwrap();
    p.successes(&p.a, 1);
    assert!(gpu.peek(&near, 0, data.len()) == data, "READ");
    far.write_at(0, &40_u64.to_ne_bytes()).unwrap();
    let result = near.slice(8..16).unwrap();
    p.a.qp.post_send(wr::fetch_add(5, result, far.remote().at(0), 2)).unwrap();
    p.successes(&p.a, 1);
    assert_eq!(gpu.peek(&near, 8, 8), 40_u64.to_ne_bytes());
    assert_eq!(gpu.peek(&far, 0, 8), 42_u64.to_ne_bytes());
}

#[test]
fn messages_leave_from_the_device() {
    let gpu = Gpu::new();
    let p = pair();
    gpu.slow_down(0, 2_000);
    let near = device(&p.a, LEN);
    const PART: usize = 60_000;
    let data = pattern(3, 8 * PART);
    gpu.poke(&near, 0, &data);
    for part in 0..8 {
        let at = part * PART;
        let piece = near.slice(at..at + PART).unwrap();
        match part % 2 {
            0 => p.a.qp.post_send(wr::write(part as u64, [piece], p.remote.at(at as u64))),
            _ => {
                p.b.post_recv(part as u64, at..at + PART);
                p.a.qp.post_send(wr::send(part as u64, [piece]))
            }
        }
        .unwrap();
    }
    // Requests of the host's memory, READs and atomics wait for their turn.
    let word = p.a.memory.slice(..8).unwrap();
    p.b.memory.write_at(LEN - 8, &40_u64.to_ne_bytes()).unwrap();
    p.a.qp.post_send(wr::fetch_add(8, word, p.remote.at((LEN - 8) as u64), 2)).unwrap();
    let done = p.successes(&p.a, 9);
    assert!(done.iter().enumerate().all(|(index, done)| done.wr_id == index as u64), "{done:?}");
    assert!(p.b.bytes(0..data.len()) == data);
    assert_eq!(p.b.bytes(LEN - 8..LEN), 42_u64.to_ne_bytes());
    p.successes(&p.b, 4);
}

#[test]
fn more_than_the_memory_for_copies_leaves_in_turn() {
    let gpu = Gpu::new();
    let p = pair();
    let near = device(&p.a, LEN);
    let data = pattern(4, LEN);
    gpu.poke(&near, 0, &data);
    for id in 0..20 {
        p.a.qp.post_send(wr::write(id, [near.slice(..LEN).unwrap()], p.remote.at(0))).unwrap();
    }
    p.successes(&p.a, 20);
    assert!(p.b.bytes(0..LEN) == data);
}

#[test]
fn failing_copy_of_a_message_ends_the_connection() {
    let gpu = Gpu::new();
    for refuses_after in [1, 3] {
        let p = pair();
        let near = device(&p.a, LEN);
        gpu.behave(Behaviour { refuses_after, longest_us: 500, ..Behaviour::default() });
        for id in 0..6 {
            // Apart, so that each message is a copy of its own.
            let at = id as usize * 50_000;
            let piece = near.slice(at..at + 40_000).unwrap();
            p.a.qp.post_send(wr::write(id, [piece], p.remote.at(at as u64))).unwrap();
        }
        let done = p.completions(&p.a, 6);
        assert!(done.iter().enumerate().all(|(id, done)| done.wr_id == id as u64), "{done:?}");
        assert_eq!(done[5].status, Status::Flushed);
        assert_eq!(p.a.qp.error().unwrap().cause, EndCause::DeviceMemory);
        gpu.behave(Behaviour::default());
    }
}

#[test]
fn ends_with_messages_that_wait_for_copies_flush_them() {
    let gpu = Gpu::new();
    for reset in [false, true] {
        let p = pair();
        let near = device(&p.a, LEN);
        gpu.slow_down(2_000, 8_000);
        for id in 0..6 {
            let piece = near.slice(..LEN).unwrap();
            p.a.qp.post_send(wr::write(id, [piece], p.remote.at(0))).unwrap();
        }
        if reset {
            p.a.qp.modify(QpState::Reset).unwrap();
        } else {
            p.a.qp.disconnect();
            let done = p.completions(&p.a, 6);
            assert!(done.iter().all(|done| done.status == Status::Flushed), "{done:?}");
        }
        assert_eq!(gpu.record().under_way, 0, "a copy goes on after the end");
        gpu.slow_down(0, 0);
    }
}

#[test]
fn device_memory_is_not_read() {
    let gpu = Gpu::new();
    let p = pair();
    let far = device(&p.b, LEN);
    let piece = p.a.memory.slice(..4096).unwrap();
    p.a.qp.post_send(wr::read(1, [piece], far.remote().at(0))).unwrap();
    assert_ne!(p.completions(&p.a, 1)[0].status, Status::Success);
    drop(gpu);
}

#[test]
fn failing_copy_ends_the_connection() {
    let gpu = Gpu::new();
    let p = pair();
    let far = device(&p.b, LEN);
    gpu.behave(Behaviour { fails_after: 1, ..Behaviour::default() });
    let piece = p.a.memory.slice(..4096).unwrap();
    p.a.qp.post_send(wr::write(1, [piece], far.remote().at(0))).unwrap();
    assert_ne!(p.completions(&p.a, 1)[0].status, Status::Success);
    assert_eq!(p.b.qp.error().unwrap().cause, EndCause::DeviceMemory);
}
