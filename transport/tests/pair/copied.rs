//! READs of memory that the driver copies before a response leaves, and atomics that it cannot
//! carry out.

use braid_transport::{
    Access, Admit, AtomicOp, Endpoint, EndpointConfig, Memory, PdId, QpConfig, QpSlot, RecvWr,
    Refusal, Regions, RemoteAddr, SendOp, SendWr, SgList, Sge, Status, Transmit, TransmitBody,
};
use braid_wire::{NakCode, Opcode, Time};

use crate::kit::{self, Host, NAME};

const BASE: u64 = 1 << 20;
const LEN: u32 = 10_000;
/// Where the driver of the tests puts its copy; no region has it.
const COPY: Sge = Sge { addr: 0xC0_0000, len: LEN, lkey: 0 };

/// Memory of which the lower half has to be copied, and in which atomics fail.
struct Device {
    regions: Regions,
    key: u32,
}

impl Memory for Device {
    fn regions(&self) -> &Regions {
        &self.regions
    }

    fn atomic(&self, _: u64, _: AtomicOp) -> Option<u64> {
        None
    }

    fn must_be_copied(&self, addr: u64) -> bool {
        addr < 2 * BASE
    }
}

/// A requester, and a responder whose memory is a device's.
struct Ends {
    now: Time,
    requester: Host,
    responder: Host,
    slot: QpSlot,
    memory: Device,
}

impl Ends {
    fn new() -> Self {
        let now = Time::from_nanos(1_000_000);
        let config = EndpointConfig::default();
        let [mut requester, mut responder] =
            [(); 2].map(|()| Host::new(now, config, kit::paths(4)));
        let remote = kit::remote(NAME, 7);
        let slot = requester.connect(now, NAME, QpConfig::default(), remote);
        assert_eq!(responder.connect(now, NAME, QpConfig::default(), remote), slot);
        let mut regions = Regions::new([0; 16]);
        let key = kit::register(&mut regions, PdId(0), BASE..4 * BASE, Access::ALL);
        Ends { now, requester, responder, slot, memory: Device { regions, key } }
    }

    fn post(&mut self, op: SendOp, len: u32) {
        let sges = SgList::from([Sge { addr: 3 * BASE, len, lkey: self.memory.key }]);
        let wr = SendWr { id: 0, op, sges, signalled: true, solicited: false, fence: false };
        self.requester.endpoint.post_send(self.now, self.slot, wr).unwrap();
    }

    fn remote(&self, addr: u64) -> RemoteAddr {
        RemoteAddr { addr, rkey: self.memory.key }
    }

    /// Moves all packets that leave one end to the other. Returns them.
    fn carry(&mut self, from_requester: bool) -> Vec<Transmit> {
        let (now, slot) = (self.now, self.slot);
        let (from, to) = match from_requester {
            true => (&mut self.requester, &mut self.responder),
            false => (&mut self.responder, &mut self.requester),
        };
        let sent: Vec<Transmit> = from.transmit(now).flat_map(kit::split).collect();
        for packet in &sent {
            match &packet.body {
                TransmitBody::Segment { header, path, .. } => {
                    let arrival = kit::arrival(header, *path);
                    let admit = to.endpoint.on_arrival(now, slot, &arrival, &self.memory);
                    match admit {
                        Admit::Take(_) => to.endpoint.placed(now, slot, &self.memory),
                        other => assert_eq!(other, Admit::Refuse(Refusal::State)),
                    }
                }
                TransmitBody::Ack(ack) => to.on_ack(now, slot, ack),
                TransmitBody::Credit(_) | TransmitBody::Control(_) | TransmitBody::Probe(_) => {}
            }
        }
        sent
    }
}

/// The opcodes of the segments, and the addresses that they are read from.
fn segments(sent: &[Transmit]) -> Vec<(Opcode, Vec<Sge>)> {
    let segment = |packet: &Transmit| match &packet.body {
        TransmitBody::Segment { header, gather, .. } => Some((header.opcode, gather.to_vec())),
        _ => None,
    };
    sent.iter().filter_map(segment).collect()
}

fn waiting(endpoint: &Endpoint, slot: QpSlot, from: u64) -> Option<(u64, Sge)> {
    endpoint.waiting_read(slot, from).map(|read| (read.response, read.memory))
}

#[test]
fn response_waits_for_the_copy_and_leaves_from_it() {
    let mut ends = Ends::new();
    let (slot, key) = (ends.slot, ends.memory.key);
    ends.post(SendOp::Read { remote: ends.remote(BASE + 64) }, LEN);
    // The second READ is answered after the first one, although its memory needs no copy.
    ends.post(SendOp::Read { remote: ends.remote(2 * BASE) }, 8);
    ends.carry(true);
    assert_eq!(segments(&ends.carry(false)), [], "the copy is missing");
    let memory = Sge { addr: BASE + 64, len: LEN, lkey: key };
    assert_eq!(waiting(&ends.responder.endpoint, slot, 0), Some((0, memory)));
    assert_eq!(waiting(&ends.responder.endpoint, slot, 1), None);

    // Neither a copy of another length nor one of another response counts.
    ends.responder.endpoint.serve_read(slot, 0, Sge { len: LEN - 1, ..COPY });
    ends.responder.endpoint.serve_read(slot, 1, Sge { len: 8, ..COPY });
    assert_eq!(segments(&ends.carry(false)), []);

    ends.responder.endpoint.serve_read(slot, 0, COPY);
    assert_eq!(waiting(&ends.responder.endpoint, slot, 0), None);
    let sent = segments(&ends.carry(false));
    let (last, copied) = sent.split_last().unwrap();
    let mut at = COPY.addr;
    for (opcode, gather) in copied {
        assert_eq!(*opcode, Opcode::ReadResponse);
        assert_eq!((gather.len(), gather[0].addr, gather[0].lkey), (1, at, 0));
        at += u64::from(gather[0].len);
    }
    assert_eq!(at, COPY.addr + u64::from(LEN), "the whole message leaves from the copy");
    assert_eq!(last.1, [Sge { addr: 2 * BASE, len: 8, lkey: key }]);
    assert_eq!(ends.requester.completions().count(), 2);

    // The copy is needed until the response is acknowledged.
    assert_eq!(ends.responder.endpoint.oldest_response(slot), 0);
    ends.carry(true);
    ends.now = ends.requester.next_timeout().unwrap();
    ends.requester.run_timers(ends.now);
    ends.carry(true);
    assert_eq!(ends.responder.endpoint.oldest_response(slot), 2);
}

#[test]
fn atomic_that_cannot_be_carried_out_is_refused() {
    let mut ends = Ends::new();
    let receive = RecvWr { id: 1, sges: SgList::new() };
    ends.responder.endpoint.post_recv(ends.now, ends.slot, receive).unwrap();
    ends.post(SendOp::FetchAdd { remote: ends.remote(BASE), add: 1 }, 8);
    ends.post(SendOp::Send { imm: None }, 0);
    ends.carry(true);
    let nak = ends.carry(false).into_iter().find_map(|packet| match packet.body {
        TransmitBody::Ack(ack) => ack.nak.map(|(code, _)| code),
        _ => None,
    });
    assert_eq!(nak, Some(NakCode::RemoteOperational));
    let done: Vec<_> = ends.requester.completions().collect();
    assert!(done.iter().all(|completion| completion.status != Status::Success));
    assert_eq!(done.len(), 2);
    let received: Vec<_> = ends.responder.completions().collect();
    assert!(received.iter().all(|completion| completion.status != Status::Success));
}
