//! Marks, CNPs and the rate of DCQCN, packet by packet.

use std::time::Duration;

use braid_cc::ReactionPointConfig;
use braid_transport::{QpConfig, RcRemote, SendOp, Status};
use braid_wire::{RcHeader, RcOpcode};

use crate::host::QP;
use crate::pair::Pair;

const LINE: u64 = 1_000_000_000;

fn with_dcqcn() -> Pair {
    Pair::with(&QpConfig::default(), |remote| {
        remote.dcqcn = Some(ReactionPointConfig::new(LINE));
        remote.ack_timeout = Duration::from_millis(67);
    })
}

fn deliver_marked(pair: &mut Pair, to: usize, packets: &[(RcHeader, Vec<u8>)]) {
    for (_, bytes) in packets {
        assert!(pair.hosts[to].receive(pair.now, bytes, true), "a wrong ICRC");
    }
}

fn cnps(packets: &[(RcHeader, Vec<u8>)]) -> usize {
    let is_cnp = |header: &RcHeader| header.opcode == RcOpcode::CongestionNotification;
    packets.iter().filter(|(header, _)| is_cnp(header)).count()
}

/// The peer answers marks with CNPs, and the option is off here: they are counted, and change
/// nothing.
#[test]
fn marks_of_requests_are_answered_by_a_cnp_in_50_us() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.post(1, SendOp::Write { remote, imm: None }, 40 * 1024);
    let requests = pair.sends(0);
    assert_eq!(requests.len(), 40);
    deliver_marked(&mut pair, 1, &requests[..20]);
    let answers = pair.sends(1);
    assert_eq!((cnps(&answers), answers[0].0.opcode), (1, RcOpcode::CongestionNotification));
    assert_eq!((answers[0].0.qp, answers[0].0.psn), (QP[0], 0));
    pair.deliver(0, &answers);
    pair.now += Duration::from_nanos(49_999);
    deliver_marked(&mut pair, 1, &requests[20..30]);
    assert_eq!(cnps(&pair.sends(1)), 0);
    pair.now += Duration::from_nanos(1);
    deliver_marked(&mut pair, 1, &requests[30..]);
    let answers = pair.sends(1);
    assert_eq!(cnps(&answers), 1);
    pair.deliver(0, &answers);
    assert_eq!(pair.completions(0)[0].status, Status::Success);
    let counters = [0, 1].map(|host| pair.hosts[host].qp.counters());
    assert_eq!(counters.map(|one| one.marks_received), [0, 40]);
    assert_eq!(counters.map(|one| one.cnps_sent), [0, 2]);
    assert_eq!(counters.map(|one| one.cnps_received), [2, 0]);
    assert_eq!(pair.hosts[0].qp.subflow().bits_per_second, None);
}

#[test]
fn marks_of_read_responses_reduce_the_rate_of_the_responder() {
    let mut pair = with_dcqcn();
    let remote = pair.far(0);
    pair.post(1, SendOp::Read { remote }, 16 * 1024);
    let requests = pair.sends(0);
    pair.deliver(1, &requests);
    let responses = pair.sends(1);
    deliver_marked(&mut pair, 0, &responses);
    let answers = pair.sends(0);
    assert_eq!(cnps(&answers), 1);
    pair.deliver(1, &answers);
    let rates = pair.hosts.each_ref().map(|host| host.qp.subflow().bits_per_second);
    assert_eq!(rates, [Some(LINE), Some(LINE / 2)], "no packet of the requester was marked");
}

/// A mark of an acknowledgement is counted. Its sender has no rate for acknowledgements.
#[test]
fn marked_acknowledgements_are_counted_only() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.post(1, SendOp::Write { remote, imm: None }, 10);
    let requests = pair.sends(0);
    pair.deliver(1, &requests);
    let answers = pair.sends(1);
    deliver_marked(&mut pair, 0, &answers);
    assert_eq!(cnps(&pair.sends(0)), 0);
    assert_eq!(pair.hosts[0].qp.counters().marks_received, 1);
}

/// Sends until the work requests end. Everything is marked. Returns the time that it took.
fn all_marked(pair: &mut Pair, requests: usize) -> Duration {
    let begin = pair.now;
    let mut done = 0;
    while done < requests {
        let mut is_quiet = true;
        for host in [0, 1] {
            let packets = pair.sends(host);
            is_quiet &= packets.is_empty();
            deliver_marked(pair, 1 - host, &packets);
        }
        let ended = pair.completions(0);
        assert!(ended.iter().all(|one| one.status == Status::Success));
        done += ended.len();
        if is_quiet && done < requests {
            assert!(pair.pass_time(), "nothing is due after {done} of {requests}");
        }
    }
    Duration::from_nanos(pair.now.as_nanos() - begin.as_nanos())
}

/// CNPs without end bring the rate to the minimum. Everything arrives all the same, and no time-out
/// expires.
#[test]
fn work_ends_at_the_minimum_rate() {
    for op in [
        (|remote| SendOp::Write { remote, imm: None }) as fn(braid_transport::RemoteAddr) -> SendOp,
        |remote| SendOp::Read { remote },
    ] {
        let change = |remote: &mut RcRemote| {
            let mut config = ReactionPointConfig::new(LINE);
            (config.additive_bits_per_second, config.hyper_bits_per_second) = (0, 0);
            remote.dcqcn = Some(config);
        };
        let mut pair = Pair::with(&QpConfig::default(), change);
        let remote = pair.far(0);
        (0..4).for_each(|id| pair.post(id, op(remote), 200 * 1024));
        let took = all_marked(&mut pair, 4);
        let timeouts: u64 = pair.hosts.iter().map(|host| host.qp.counters().timeouts).sum();
        assert_eq!(timeouts, 0);
        // A packet in an eighth of the time-out of 1 ms, or the like.
        let least = Duration::from_micros(800 * 125) * 9 / 10;
        assert!(took > least, "{took:?}");
        let sender = &pair.hosts[usize::from(matches!(op(remote), SendOp::Read { .. }))];
        let rate = sender.qp.subflow().bits_per_second.expect("DCQCN is on");
        assert!(rate < LINE / 10, "{rate}");
    }
}
