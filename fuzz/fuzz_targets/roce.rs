//! Fuzzes a queue pair of plain RoCEv2 with packets of its peer, and the communication manager with
//! those that go to queue pair 1. Each is two bytes of length and its bytes, without ICRC.
#![no_main]

use std::net::IpAddr;
use std::time::Duration;

use braid_cc::ReactionPointConfig;
use braid_transport::{
    Access, Admit, AtomicOp, CmEventKind, CmManager, Memory, PdId, QpConfig, QpState, QueuePair,
    RcArrival, RcQp, RcRemote, RecvWr, Region, Regions, RemoteAddr, RoceMtu, SendOp, SendWr,
    SgList, Sge,
};
use braid_wire::{
    CmMad, CmRejectReason, ICRC_LEN, IpCmHeader, QpId, RcHeader, RcPacket, Time, Token, UdPacket,
    network_header_ends,
};
use libfuzzer_sys::fuzz_target;

/// The host that sends the packets.
const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const BASE: u64 = 1 << 32;
const LEN: u64 = 1 << 16;

struct Everything(Regions);

impl Memory for Everything {
    fn regions(&self) -> &Regions {
        &self.0
    }

    fn atomic(&self, addr: u64, _: AtomicOp) -> Option<u64> {
        assert!((BASE..=BASE + LEN - 8).contains(&addr) && addr.is_multiple_of(8));
        Some(0)
    }
}

/// Takes a packet of the UD service, and answers requests.
fn on_datagram(now: Time, packet: &[u8], manager: &mut CmManager) {
    let Ok(UdPacket { header, payload }) = UdPacket::decode(packet) else { return };
    let mut again = Vec::new();
    header.encode(payload, &mut again);
    again.extend_from_slice(&[0; ICRC_LEN]);
    assert_eq!(UdPacket::decode(&again), Ok(UdPacket { header, payload }));
    if let Some((from, to)) = payload.first_chunk().and_then(network_header_ends) {
        assert_eq!(from.is_ipv4(), to.is_ipv4());
    }
    if let Ok(mad) = CmMad::decode(payload) {
        assert_eq!(CmMad::decode(&mad.encode()), Ok(mad));
    }
    manager.on_mad(now, HOST, payload);
    let sent = std::iter::from_fn(|| manager.poll_transmit()).count();
    assert!(sent <= 1, "an answer is no longer than its cause");
    while let Some(event) = manager.poll_event() {
        match event.kind {
            CmEventKind::Requested(request) => {
                assert!(IpCmHeader::port(request.service).is_some());
            }
            CmEventKind::LookedUp(lookup) => {
                assert!(IpCmHeader::datagram_port(lookup.service).is_some());
            }
            _ => continue,
        }
        manager.reject(now, event.id, CmRejectReason::CONSUMER, &[]);
    }
    manager.on_timeout(now);
    std::iter::from_fn(|| manager.poll_transmit()).for_each(drop);
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
        dcqcn: Some(ReactionPointConfig::new(1_000_000_000)),
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
    let mut manager = CmManager::new([0; 16], 1, 0);
    manager.listen(IpCmHeader::service(0));
    manager.listen(IpCmHeader::datagram_service(0));
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
        on_datagram(now, &packet, &mut manager);
        let Ok(RcPacket { header, payload }) = RcPacket::decode(&packet) else { continue };
        let mut again = Vec::new();
        header.encode(payload.len(), &mut again);
        again.extend_from_slice(payload);
        again.resize(again.len() + RcHeader::padding(payload.len()) + ICRC_LEN, 0);
        assert_eq!(RcPacket::decode(&again), Ok(RcPacket { header, payload }));
        // The byte that the ICRC leaves out is as good as any for a mark.
        let congestion = packet[4] & 1 == 1;
        let arrival = RcArrival { header: &header, len: payload.len() as u32, congestion };
        if let Admit::Take(_) = qp.on_arrival(now, &arrival, &memory) {
            qp.placed(now, &memory);
        }
    }
    // Each work request has ended once, or has not yet.
    if qp.state() == QpState::Error {
        assert_eq!(std::iter::from_fn(|| qp.poll_ended()).count(), 4);
    }
});
