//! A snapshot of an engine agrees with its queue pairs, paths and counters, while it works.

use std::thread;
use std::time::Duration;

use crate::pair::{Pair, everywhere, local};
use braid::{QpOptions, QpState, RailId, Stream, wr};

const LEN: usize = 1 << 20;

fn write(p: &Pair, id: u64) {
    let piece = p.a.memory.slice(..LEN).unwrap();
    p.a.qp.post_send(wr::write(id, [piece], p.remote.at(0))).unwrap();
}

#[test]
fn a_snapshot_says_what_the_parts_say() {
    everywhere(|p| {
        write(p, 1);
        p.successes(&p.a, 1);
        let metrics = p.a.engine.metrics();
        assert_eq!(metrics.local_addr, p.a.engine.local_addr());
        let [qp] = &metrics.queue_pairs[..] else { panic!("{metrics:?}") };
        assert_eq!((qp.number, qp.state, qp.error), (p.a.qp.number(), QpState::ReadyToSend, None));
        assert_eq!(qp.peer, p.a.qp.remote_addr());
        assert_eq!((qp.outstanding_sends, qp.outstanding_recvs), p.a.qp.outstanding());
        assert!(qp.counters.bytes_sent >= LEN as u64);
        let [flow] = &qp.subflows[..] else { panic!("{qp:?}") };
        assert_eq!((flow.stream, flow.rail), (Stream::Requests, RailId::FIRST));
        assert!(flow.rtt.is_some_and(|rtt| rtt > Duration::ZERO), "{flow:?}");
        assert!(flow.window > 0 && flow.in_flight <= LEN as u64 * 2, "{flow:?}");
        let [to] = &metrics.paths[..] else { panic!("{:?}", metrics.paths) };
        let sent: u64 = to.paths.iter().map(|path| path.counters.sent).sum();
        assert!(sent >= qp.counters.segments_sent, "{to:?}");
        assert!(metrics.counters.datagrams_sent > 0);
        let later = p.a.engine.metrics();
        assert!(later.uptime > metrics.uptime);
        assert!(later.counters.datagrams_sent >= metrics.counters.datagrams_sent);
    });
}

#[test]
fn the_responder_of_a_read_has_a_response_subflow() {
    everywhere(|p| {
        let piece = p.a.memory.slice(..4096).unwrap();
        p.a.qp.post_send(wr::read(1, [piece], p.remote.at(0))).unwrap();
        p.successes(&p.a, 1);
        let metrics = p.b.engine.metrics();
        let streams: Vec<Stream> =
            metrics.queue_pairs[0].subflows.iter().map(|flow| flow.stream).collect();
        assert_eq!(streams, [Stream::Requests, Stream::Responses]);
    });
}

#[test]
fn queue_pairs_of_all_states_and_more_than_are_read_at_once() {
    let p = Pair::new(&local());
    let others: Vec<_> =
        (0..200).map(|_| p.a.pd.create_qp(QpOptions::new(&p.a.cq, &p.a.cq)).unwrap()).collect();
    others[7].modify(QpState::Init).unwrap();
    p.a.qp.disconnect();
    let metrics = p.a.engine.metrics();
    assert_eq!(metrics.queue_pairs.len(), 201);
    for qp in others.iter().chain([&p.a.qp]) {
        let found = metrics.queue_pairs.iter().find(|found| found.number == qp.number()).unwrap();
        assert_eq!((found.state, found.error), (qp.state(), qp.error()));
    }
}

#[test]
fn many_snapshots_disturb_nothing() {
    let p = Pair::new(&local());
    thread::scope(|scope| {
        let looks =
            scope.spawn(|| (0..50).map(|_| p.a.engine.metrics().queue_pairs.len()).sum::<usize>());
        (0..20).for_each(|id| write(&p, id));
        p.successes(&p.a, 20);
        assert_eq!(looks.join().unwrap(), 50);
    });
}
