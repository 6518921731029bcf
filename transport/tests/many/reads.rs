//! READs and atomics, as many at a time as the peer serves.

use std::time::Duration;

use braid_transport::{QpConfig, QpCounters, RemoteAddr, SendOp, TransmitBody};
use braid_wire::{AtomicOperands, DataHeader, NakCode, Opcode};

use crate::hosts::{FIRST_PSN, Settings, World};
use crate::kit;

const SECOND: Duration = Duration::from_secs(1);

/// As an application does that keeps `depth` requests outstanding until `count` have completed.
fn keep_asking(world: &mut World, op: SendOp, len: u32, depth: usize, count: usize) {
    for posted in 0..count {
        world.run(posted.saturating_sub(depth - 1), SECOND);
        world.post(0, op, len);
    }
    world.run(count, SECOND);
}

/// Nothing was lost, so there are no retransmissions and no time-outs.
fn assert_undisturbed(world: &World) {
    let QpCounters { timeouts, retransmitted, .. } = world.hosts[0].counters();
    assert_eq!((timeouts, retransmitted), (0, 0), "time-outs, requests sent again");
    let QpCounters { timeouts, retransmitted, .. } = world.hosts[1].counters();
    assert_eq!((timeouts, retransmitted), (0, 0), "time-outs, answers sent again");
    assert_eq!(world.hosts[1].refusals, []);
    assert_eq!(world.hosts[0].refusals, []);
}

#[test]
fn pipelined_reads_and_atomics_run_without_a_refusal_or_a_time_out() {
    for max_rd_atomic in [1, 4, 16, 64, 255] {
        let qp = QpConfig { max_rd_atomic, ..QpConfig::default() };
        for bytes_per_us in [100, 10_000] {
            let settings = Settings { qp: qp.clone(), bytes_per_us, ..Settings::default() };
            let mut world = World::new(settings.clone());
            let remote = world.memory.remote();
            keep_asking(&mut world, SendOp::Read { remote }, 8, 64, 2_000);
            assert_undisturbed(&world);
            let mut world = World::new(settings);
            keep_asking(&mut world, SendOp::FetchAdd { remote, add: 1 }, 8, 64, 2_000);
            assert_undisturbed(&world);
        }
    }
}

#[test]
fn responses_acknowledge_their_requests() {
    let mut world = World::new(Settings::default());
    let remote = world.memory.remote();
    keep_asking(&mut world, SendOp::Read { remote }, 8, 8, 1_000);
    assert_undisturbed(&world);
    let acks = world.hosts[0].counters().acks_received;
    assert!(acks <= 10, "{acks} acknowledgements of 1,000 requests");
}

/// Sends requests with these PSNs, counted from the first, and takes no answer. Returns the number
/// of answers, and the NAK of the serving host.
fn ask_without_listening(psns: impl Iterator<Item = u32>) -> (usize, Option<NakCode>) {
    let mut world = World::new(Settings::default());
    for psn in psns {
        world.inject(1, &fetch_add(&world, psn));
    }
    let (mut answers, mut nak) = (0, None);
    for body in world.drain(1) {
        match body {
            TransmitBody::Segment { header, .. } => {
                answers += usize::from(header.opcode == Opcode::AtomicResponse);
            }
            TransmitBody::Ack(ack) => nak = nak.or(ack.nak.map(|(code, _)| code)),
            TransmitBody::Credit(..) | TransmitBody::Control(..) | TransmitBody::Probe(..) => {}
        }
    }
    (answers, nak)
}

#[test]
fn requests_beyond_max_rd_atomic_are_refused() {
    assert_eq!(ask_without_listening(0..128), (128, None));
    assert_eq!(ask_without_listening(0..200), (128, Some(NakCode::InvalidRequest)));
    // All wait for the one before them, which comes last.
    assert_eq!(ask_without_listening((1..128).chain([0])), (128, None));
    assert_eq!(ask_without_listening((1..200).chain([0])), (0, Some(NakCode::InvalidRequest)));
}

fn fetch_add(world: &World, psn: u32) -> DataHeader {
    let RemoteAddr { addr, rkey } = world.memory.remote();
    let qp = world.hosts[1].inner.endpoint.qp(world.hosts[1].slots[0]);
    let name = (qp.id(), qp.token());
    DataHeader {
        number: psn,
        address: addr,
        rkey,
        message_len: 8,
        operands: Some(AtomicOperands { swap_or_add: 1, compare: 0 }),
        ..kit::header(world.now, Opcode::FetchAdd, name, FIRST_PSN + psn)
    }
}
