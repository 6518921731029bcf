//! The memory of a queue pair, counted by the allocator.
//!
//! There is only one test function, because allocations of others in this process would count too.

mod kit;

use std::alloc::System;
use std::mem::size_of;
use std::time::Duration;

use braid_cc::CubicConfig;
use braid_transport::{
    EndpointConfig, QpConfig, QpSlot, QueuePair, RecvWr, Remote, SendOp, Transmit,
};
use braid_wire::{QpId, RailId, Time};
use cap::Cap;

use self::kit::{Everything, Host, NAME};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const QPS: usize = 1000;
/// Bytes of a receive.
const LEN: u32 = 1 << 20;
/// Limit for an idle, connected queue pair.
const IDLE_BYTES: usize = 4096;
/// Limit for the rest after a queue pair had a lot in flight.
const DRAINED_BYTES: usize = 8 << 10;

/// One side; queue pair `i` has the number `i + 2` on both.
struct Side {
    host: Host,
    slots: Vec<QpSlot>,
}

impl Side {
    fn new() -> Self {
        let host = Host::new(Time::ZERO, EndpointConfig::default(), kit::paths(16));
        Side { host, slots: Vec::with_capacity(QPS) }
    }

    fn connect(&mut self, index: usize) {
        let name = (QpId::new(index as u32 + 2), NAME.1);
        // The usual controller, but no time passes here for its window to grow in.
        let cc = CubicConfig { start_window: Some(64 << 20), ..CubicConfig::default() }.into();
        let config = QpConfig { cc, ..QpConfig::default() };
        let remote = Remote { mtu: 1024, ..kit::remote(name, 0) };
        self.slots.push(self.host.connect(Time::ZERO, name, config, remote));
    }

    fn receive(&mut self, now: Time, packet: &Transmit, memory: &Everything) {
        let slot = self.slots[kit::peer_of(&packet.body).get() as usize - 2];
        self.host.receive(now, slot, packet, memory);
    }
}

/// Carries everything there and back until nothing moves any more.
fn exchange(now: Time, sides: &mut [Side; 2], memory: &Everything) {
    let mut idle = 0;
    while idle < 2 {
        let [a, b] = sides;
        idle += 1;
        for packet in a.host.transmit(now) {
            b.receive(now, &packet, memory);
            b.host.completions().for_each(drop);
            idle = 0;
        }
        sides.swap(0, 1);
    }
}

/// Everything at once on one queue pair, in both directions; nothing is delivered yet.
fn load(sides: &mut [Side; 2], index: usize, memory: &Everything) {
    for side in sides {
        let slot = side.slots[index];
        for id in 0..64 {
            let wr = RecvWr { id, sges: memory.sges(LEN) };
            side.host.endpoint.post_recv(Time::ZERO, slot, wr).unwrap();
        }
        for _ in 0..32 {
            let remote = memory.remote();
            let ops = [
                (SendOp::Send { imm: None }, 60_000),
                (SendOp::Write { remote, imm: Some(1) }, 60_000),
                (SendOp::Read { remote }, 60_000),
                (SendOp::FetchAdd { remote, add: 1 }, 8),
            ];
            for (op, len) in ops {
                side.host.endpoint.post_send(Time::ZERO, slot, memory.work(op, len)).unwrap();
            }
        }
    }
}

#[test]
fn queue_pair_memory_is_bounded_idle_and_drained() {
    assert!(size_of::<QueuePair>() <= 1024, "{} bytes", size_of::<QueuePair>());
    let memory = Everything::new();
    let mut sides = [Side::new(), Side::new()];
    let before = ALLOCATOR.allocated();
    for index in 0..QPS {
        sides.iter_mut().for_each(|side| side.connect(index));
    }
    let idle = (ALLOCATOR.allocated() - before) / (2 * QPS);
    assert!(idle <= IDLE_BYTES, "an idle, connected queue pair costs {idle} bytes");

    let before = ALLOCATOR.allocated();
    const BUSY: usize = 20;
    (0..BUSY).for_each(|index| load(&mut sides, index, &memory));
    exchange(Time::from_nanos(1), &mut sides, &memory);
    assert_eq!(sides.each_ref().map(|side| side.host.endpoint.in_flight(RailId::FIRST)), [0, 0]);
    let later = Time::ZERO + Duration::from_secs(1);
    sides.iter_mut().for_each(|side| side.host.on_timeout(later));
    let kept = ALLOCATOR.allocated().saturating_sub(before) / (2 * BUSY);
    println!("idle: {idle} bytes; after a load: {kept} bytes more");
    assert!(kept <= DRAINED_BYTES, "a drained queue pair keeps {kept} bytes");
}
