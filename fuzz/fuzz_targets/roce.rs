//! Fuzzes a queue pair of plain RoCEv2 with packets of its peer. Each is two bytes of length and
//! its bytes, without ICRC.
#![no_main]

use std::time::Duration;

use braid_transport::{
    Access, Admit, AtomicOp, Memory, PdId, QpConfig, QpState, QueuePair, RcArrival, RcQp, RcRemote,
    RecvWr, Region, Regions, RemoteAddr, RoceMtu, SendOp, SendWr, SgList, Sge,
};
use braid_wire::{ICRC_LEN, QpId, RcHeader, RcPacket, Time, Token};
use libfuzzer_sys::fuzz_target;

const BASE: u64 = 1 << 32;
const LEN: u64 = 1 << 16;

struct Everything(Regions);

impl Memory for Everything {
    fn regions(&self) -> &Regions {
        &self.0
    }

    fn atomic(&self, addr: u64, _: AtomicOp) -> u64 {
        assert!((BASE..=BASE + LEN - 8).contains(&addr) && addr.is_multiple_of(8));
        0
    }
}

fuzz_target!(|input: &[u8]| {
    let mut memory = Everything(Regions::new([0; 16]));
    let access = Access::ALL;
    let region = Region { pd: PdId(0), addr: BASE, iova: BASE, len: LEN, access, nics: None };
    let key = memory.0.insert(region).expect("there is room");
    let mut qp = QueuePair::new(QpId::new(2), Token(0), QpConfig::default());
    qp.modify(QpState::Init).expect("it is in RESET");
    let remote = RcRemote {
        qp: QpId::new(3),
        send_psn: 0,
        recv_psn: 0,
        mtu: RoceMtu::B256,
        max_rd_atomic: 4,
        ack_timeout: Duration::from_millis(1),
        retry_count: 7,
        window: 16,
    };
    let mut qp = RcQp::new(qp, remote).expect("it is in INIT");
    let sges = |len| SgList::from([Sge { addr: BASE, len, lkey: key }]);
    let far = RemoteAddr { addr: BASE, rkey: key };
    for (id, op) in
        [SendOp::Read { remote: far }, SendOp::Send { imm: None }].into_iter().enumerate()
    {
        let wr = SendWr {
            id: id as u64,
            op,
            sges: sges(1000),
            signalled: true,
            solicited: false,
            fence: false,
        };
        qp.post_send(wr).expect("there is room");
        qp.post_recv(RecvWr { id: id as u64, sges: sges(1000) }).expect("there is room");
    }
    let (mut now, mut rest) = (Time::from_nanos(1), input);
    while let Some((&[high, low], behind)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([high, low]) % 512).min(behind.len());
        let (body, later) = behind.split_at(len);
        rest = later;
        now += Duration::from_micros(300);
        // The answers to a READ of 1 GiB take long, and the next packet may end them.
        std::iter::from_fn(|| qp.poll_transmit(now)).take(64).for_each(drop);
        if qp.next_timeout().is_some_and(|at| at <= now) {
            qp.on_timeout(now);
        }
        let packet = [body, &[0; ICRC_LEN]].concat();
        let Ok(RcPacket { header, payload }) = RcPacket::decode(&packet) else { continue };
        let mut again = Vec::new();
        header.encode(payload.len(), &mut again);
        again.extend_from_slice(payload);
        again.resize(again.len() + RcHeader::padding(payload.len()) + ICRC_LEN, 0);
        assert_eq!(RcPacket::decode(&again), Ok(RcPacket { header, payload }));
        let arrival = RcArrival { header: &header, len: payload.len() as u32 };
        if let Admit::Take(_) = qp.on_arrival(now, &arrival, &memory) {
            qp.placed(now, &memory);
        }
    }
    // Each work request has ended once, or has not yet.
    if qp.state() == QpState::Error {
        assert_eq!(std::iter::from_fn(|| qp.poll_ended()).count(), 4);
    }
});
