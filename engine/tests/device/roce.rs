//! Device memory of queue pairs that speak plain RoCEv2. Arrivals are copied there, and nothing
//! is sent from there.

use std::time::Duration;

use braid::wr;
use braid::{EndCause, RoceRemote, Status};
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
fn device_memory_is_not_sent() {
    let gpu = Gpu::new();
    let p = pair();
    let near = device(&p.a, LEN);
    p.a.qp.post_send(wr::write(1, [near.slice(..LEN).unwrap()], p.remote.at(0))).unwrap();
    assert_eq!(p.completions(&p.a, 1)[0].status, Status::LocalProtection);
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
