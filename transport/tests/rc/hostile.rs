//! A peer that sends anything: nothing panics, nothing is written that was not allowed, and the
//! number of answers stays limited.

use braid_cc::ReactionPointConfig;
use braid_transport::{Admit, Landing, QpConfig, SendOp};
use braid_wire::{Aeth, AtomicOperands, RcHeader, RcOpcode, RcPosition, Syndrome};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::host::{BASE, QP};
use crate::pair::{MEMORY, Pair};

/// Packets of a peer, most of which are near to what is expected.
fn anything(rng: &mut Pcg64Mcg, rkey: u32) -> (RcHeader, Vec<u8>) {
    let opcode = RcOpcode::ALL[rng.random_range(0..RcOpcode::ALL.len())];
    let own_psn = [100, 200][rng.random_range(0..2)];
    let psn = match rng.random_range(0..8) {
        0 => rng.random_range(0..1 << 24),
        _ => own_psn + rng.random_range(0..6) - 1,
    };
    let position = opcode.position();
    let len = match rng.random_range(0..10) {
        _ if !opcode.has_payload() => 0,
        0 => [0, 1, 1023, 1024, 1025, 4096][rng.random_range(0..6)],
        _ if position.ends() => rng.random_range(1..=1024),
        _ => 1024,
    };
    let dma_len = match rng.random_range(0..10) {
        0 => rng.random(),
        _ if position == RcPosition::Only && opcode.has_payload() => len as u32,
        _ => 3 * 1024 + 10,
    };
    let syndrome = Syndrome::from_byte(match rng.random_range(0..3) {
        0 => rng.random(),
        1 => 0x1F,
        _ => 0x60 | rng.random_range(0..5),
    });
    let operands = AtomicOperands { swap_or_add: rng.random(), compare: 0 };
    let header = RcHeader {
        solicited: rng.random(),
        ack_request: rng.random(),
        address: BASE.wrapping_add_signed(rng.random_range(-64..MEMORY as i64 + 64)),
        rkey: if rng.random_bool(0.9) { rkey } else { rng.random() },
        dma_len,
        imm: rng.random(),
        aeth: opcode.has_aeth().then_some(Aeth { syndrome, msn: rng.random_range(0..1 << 24) }),
        operands: Some(operands),
        original: rng.random(),
        ..RcHeader::new(opcode, QP[0], psn)
    };
    (header, vec![0xEE; len])
}

#[test]
fn anything_may_arrive() {
    let mut taken = 0;
    for seed in 0..4000 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let config = QpConfig { max_rd_atomic: 4, ..QpConfig::default() };
        let mut pair = Pair::with(&config, |remote| {
            remote.dcqcn = (seed % 2 == 0).then(|| ReactionPointConfig::new(1_000_000_000));
        });
        let remote = pair.far(0);
        pair.post(1, SendOp::Read { remote }, 3000);
        pair.post(2, SendOp::Write { remote, imm: None }, 3000);
        pair.post(3, SendOp::FetchAdd { remote, add: 1 }, 8);
        let sges = pair.hosts[0].memory.sge(0, 3000);
        pair.hosts[0].qp.post_recv(braid_transport::RecvWr { id: 9, sges }).unwrap();
        pair.sends(0);
        let key = pair.hosts[0].memory.key;
        for _ in 0..60 {
            let (header, payload) = anything(&mut rng, key);
            // The host checks that the landing lies in its memory and takes the whole payload.
            let admit = pair.hosts[0].take(pair.now, (&header, rng.random()), &payload);
            taken += u64::from(matches!(admit, Admit::Take(Landing::Payload(_))));
            if rng.random_bool(0.3) {
                let most = 4 * (1 << 30) / 1024;
                let answers = pair.hosts[0].transmit(pair.now).into_iter().count();
                assert!(answers <= most);
            }
            if rng.random_bool(0.1) {
                pair.pass_time();
            }
        }
        // Whatever was asked for, the queue of answers ends.
        pair.hosts[0].qp.modify(braid_transport::QpState::Error).unwrap();
        let ids: Vec<u64> =
            pair.hosts[0].ended().iter().map(|ended| ended.completion.wr_id).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 3, 9], "seed {seed}: {ids:?}");
    }
    assert!(taken > 1000, "{taken}");
}

#[test]
fn repeated_reads_do_not_pile_up() {
    let mut pair = Pair::new(&QpConfig { max_rd_atomic: 4, ..QpConfig::default() });
    let remote = pair.far(0);
    pair.post(1, SendOp::Read { remote }, 16 * 1024);
    let request = pair.sends(0);
    for _ in 0..1000 {
        pair.deliver(1, &request);
    }
    assert_eq!(pair.sends(1).len(), 16, "one response");
}

/// Each part of a READ may be asked for again, and the responses may wait for the rate.
#[test]
fn parts_of_a_read_do_not_pile_up() {
    let mut pair = Pair::new(&QpConfig { max_rd_atomic: 4, ..QpConfig::default() });
    let key = pair.hosts[1].memory.key;
    let mut ask = |psn: u32, packets: u32| {
        let header = RcHeader {
            address: BASE + u64::from(psn - 100) * 1024,
            rkey: key,
            dma_len: packets * 1024,
            ..RcHeader::new(RcOpcode::ReadRequest, QP[1], psn)
        };
        pair.hosts[1].take(pair.now, (&header, false), &[])
    };
    assert!(matches!(ask(100, 60), Admit::Take(_)));
    (100..160).for_each(|psn| assert_eq!(ask(psn, 1), Admit::Duplicate));
    let sent: Vec<u32> = pair.sends(1).iter().map(|(header, _)| header.psn).collect();
    assert_eq!(sent, [156, 157, 158, 159], "the latest, as many as resources");
}
