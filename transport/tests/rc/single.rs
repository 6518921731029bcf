//! Single events, packet by packet.

use braid_transport::{EventKind, QpConfig, QpState, RcRemote, SendOp, Status};
use braid_wire::{Aeth, RcNak, RcOpcode, Syndrome};

use crate::host::Host;
use crate::pair::{MEMORY, Pair, remote};

fn opcodes(packets: &[(braid_wire::RcHeader, Vec<u8>)]) -> Vec<RcOpcode> {
    packets.iter().map(|(header, _)| header.opcode).collect()
}

#[test]
fn message_is_cut_at_the_path_mtu() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.post(1, SendOp::Write { remote, imm: Some(7) }, 2049);
    pair.post_receive(9, 0);
    let packets = pair.sends(0);
    use RcOpcode::*;
    assert_eq!(opcodes(&packets), [WriteFirst, WriteMiddle, WriteLastImm]);
    let psns: Vec<u32> = packets.iter().map(|(header, _)| header.psn).collect();
    assert_eq!(psns, [100, 101, 102]);
    let asks: Vec<bool> = packets.iter().map(|(header, _)| header.ack_request).collect();
    assert_eq!(asks, [false, false, true]);
    let (first, _) = packets[0];
    assert_eq!((first.address, first.rkey, first.dma_len), (remote.addr, remote.rkey, 2049));
    pair.deliver(1, &packets);
    let answers = pair.sends(1);
    let aeth = Some(Aeth { syndrome: Syndrome::UNLIMITED, msn: 1 });
    assert_eq!(
        (opcodes(&answers), answers[0].0.psn, answers[0].0.aeth),
        (vec![Acknowledge], 102, aeth)
    );
    pair.deliver(0, &answers);
    assert_eq!(pair.completions(0)[0].status, Status::Success);
    assert_eq!(pair.completions(1)[0].imm, Some(7));
}

#[test]
fn gap_is_reported_once_and_closed_by_going_back() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.post(1, SendOp::Write { remote, imm: None }, 4096);
    let packets = pair.sends(0);
    pair.deliver(1, &packets[..1]);
    pair.deliver(1, &packets[2..]);
    let answers = pair.sends(1);
    assert_eq!(answers.len(), 1);
    let aeth = Some(Aeth { syndrome: Syndrome::Nak(RcNak::Sequence), msn: 0 });
    assert_eq!((answers[0].0.psn, answers[0].0.aeth), (101, aeth));
    pair.deliver(0, &answers);
    let again = pair.sends(0);
    assert_eq!(again.iter().map(|(header, _)| header.psn).collect::<Vec<_>>(), [101, 102, 103]);
    // The same NAK again is no news.
    pair.deliver(0, &answers);
    assert!(pair.sends(0).is_empty());
    pair.deliver(1, &again);
    pair.carry(|_| false);
    assert_eq!(pair.completions(0)[0].status, Status::Success);
    assert_eq!(pair.hosts[0].qp.counters().retransmitted, 3);
}

#[test]
fn lost_read_response_is_asked_for_from_its_place_on() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    let bytes: Vec<u8> = (0..5000_u32).map(|at| at as u8).collect();
    pair.hosts[1].memory.write(0, &bytes);
    pair.post(1, SendOp::Read { remote }, 5000);
    let request = pair.sends(0);
    pair.deliver(1, &request);
    let responses = pair.sends(1);
    use RcOpcode::*;
    let (first, middle, last) = (ReadResponseFirst, ReadResponseMiddle, ReadResponseLast);
    assert_eq!(opcodes(&responses), [first, middle, middle, middle, last]);
    pair.deliver(0, &responses[..2]);
    pair.deliver(0, &responses[3..]);
    let again = pair.sends(0);
    let (header, _) = again[0];
    assert_eq!((again.len(), header.psn, header.opcode), (1, 102, ReadRequest));
    assert_eq!((header.address, header.dma_len), (remote.addr + 2048, 5000 - 2048));
    pair.deliver(1, &again);
    let responses = pair.sends(1);
    assert_eq!(opcodes(&responses), [first, middle, last]);
    pair.deliver(0, &responses);
    assert_eq!(pair.completions(0)[0].status, Status::Success);
    assert_eq!(pair.hosts[0].memory.read(0, 5000), bytes);
}

#[test]
fn atomic_is_carried_out_once_and_answered_twice() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.hosts[1].memory.write(0, &41_u64.to_ne_bytes());
    pair.post(1, SendOp::FetchAdd { remote, add: 1 }, 8);
    let request = pair.sends(0);
    pair.deliver(1, &request);
    assert_eq!(pair.sends(1).len(), 1);
    // The response is lost.
    assert!(pair.pass_time());
    let again = pair.sends(0);
    assert_eq!(again[0].0, request[0].0);
    pair.deliver(1, &again);
    let answers = pair.sends(1);
    assert_eq!(answers[0].0.original, 41);
    pair.deliver(0, &answers);
    assert_eq!(pair.hosts[0].memory.word(0), 41);
    assert_eq!(pair.hosts[1].memory.word(0), 42);
}

#[test]
fn long_read_is_asked_for_in_pieces_that_the_peer_has_resources_for() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.post(1, SendOp::Read { remote }, 100 * 1024);
    let requests = pair.sends(0);
    let lens: Vec<u32> = requests.iter().map(|(header, _)| header.dma_len).collect();
    assert_eq!(lens, [16 * 1024; 4], "max_rd_atomic is 4");
    pair.deliver(1, &requests);
    pair.carry(|_| false);
    assert_eq!(pair.completions(0)[0].status, Status::Success);
}

#[test]
fn fenced_request_waits_for_the_read_before_it() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.post(1, SendOp::Read { remote }, 10);
    let write = pair.wr(2, SendOp::Write { remote, imm: None }, 10);
    let fenced = braid_transport::SendWr { fence: true, ..write };
    pair.hosts[0].qp.post_send(fenced).unwrap();
    let requests = pair.sends(0);
    assert_eq!(opcodes(&requests), [RcOpcode::ReadRequest]);
    pair.deliver(1, &requests);
    let responses = pair.sends(1);
    pair.deliver(0, &responses);
    assert_eq!(opcodes(&pair.sends(0)), [RcOpcode::WriteOnly]);
}

#[test]
fn drained_queue_finishes_what_it_has_begun() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.post(1, SendOp::Write { remote, imm: None }, 10);
    let requests = pair.sends(0);
    pair.hosts[0].qp.modify(QpState::SendQueueDrained).unwrap();
    pair.post(2, SendOp::Write { remote, imm: None }, 10);
    assert!(pair.hosts[0].events().is_empty() && pair.sends(0).is_empty());
    pair.deliver(1, &requests);
    let answers = pair.sends(1);
    pair.deliver(0, &answers);
    assert_eq!(pair.hosts[0].events(), [EventKind::Drained]);
    assert!(pair.sends(0).is_empty());
    pair.hosts[0].qp.modify(QpState::ReadyToSend).unwrap();
    pair.carry(|_| false);
    assert_eq!(pair.completions(0).len(), 2);
}

#[test]
fn short_messages_share_acknowledgements() {
    let mut pair = Pair::new(&QpConfig { max_send_wr: 64, ..QpConfig::default() });
    let remote = pair.far(0);
    (0..64).for_each(|id| pair.post(id, SendOp::Write { remote, imm: None }, 8));
    pair.carry(|_| false);
    assert_eq!(pair.completions(0).len(), 64);
    assert!(pair.hosts[1].qp.counters().acks_sent <= 4);
}

#[test]
fn sending_parameters_may_be_set_until_work_is_posted() {
    let mut pair = Pair::new(&QpConfig::default());
    let mut sending = remote(0);
    (sending.send_psn, sending.recv_psn) = (0xAB_CDEF, 1);
    let expecting = RcRemote { recv_psn: sending.send_psn, ..remote(1) };
    pair.hosts[1] = Host::new(1, QpConfig::default(), expecting, MEMORY);
    assert!(pair.hosts[0].qp.set_sending(&sending));
    let far = pair.far(0);
    pair.post(1, SendOp::Write { remote: far, imm: None }, 10);
    assert!(!pair.hosts[0].qp.set_sending(&remote(0)), "work was posted");
    let packets = pair.sends(0);
    assert_eq!(packets[0].0.psn, 0xAB_CDEF);
    pair.deliver(1, &packets);
    let answers = pair.sends(1);
    pair.deliver(0, &answers);
    assert_eq!(pair.completions(0)[0].status, Status::Success);
    assert!(!pair.hosts[0].qp.set_sending(&remote(0)), "a packet was sent");
}
