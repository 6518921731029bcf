//! Requests that fail: the status at both ends, and the fate of the other work requests.

use std::time::Duration;

use braid_transport::{
    Access, EndCause, EventKind, FailedWork, QpConfig, QpState, RemoteAddr, SendOp, Status, Work,
};

use crate::host::BASE;
use crate::pair::{ACK_TIMEOUT, MEMORY, Pair, RETRIES};

fn write(remote: RemoteAddr) -> SendOp {
    SendOp::Write { remote, imm: None }
}

/// Checks that both ends have failed: the statuses of host 0's work requests, and host 1's cause.
fn check(pair: &mut Pair, statuses: &[Status], cause: EndCause) {
    let ended: Vec<Status> = pair.completions(0).iter().map(|done| done.status).collect();
    assert_eq!(ended, statuses);
    let failed = statuses.iter().copied().find(|status| *status != Status::Success).unwrap();
    let error = pair.hosts[0].qp.error().expect("it has failed");
    assert_eq!(error.work.map(|work: FailedWork| work.status), Some(failed));
    assert_eq!(pair.hosts[0].events(), [EventKind::Ended(error)]);
    let error = pair.hosts[1].qp.error().expect("the peer knows");
    assert_eq!(error.cause, cause);
    assert_eq!(pair.hosts[1].events(), [EventKind::Ended(error)]);
    for host in &pair.hosts {
        assert_eq!(host.qp.state(), QpState::Error);
        assert_eq!(host.qp.next_timeout(), None);
    }
}

#[test]
fn forbidden_access_fails_at_both_ends() {
    let other = |remote: RemoteAddr, addr: u64, rkey: u32| RemoteAddr {
        addr: remote.addr + addr,
        rkey: remote.rkey ^ rkey,
    };
    let ops: [fn(RemoteAddr) -> SendOp; 3] =
        [write, |remote| SendOp::Read { remote }, |remote| SendOp::FetchAdd { remote, add: 1 }];
    for op in ops {
        for (addr, rkey) in [(0, 1), (MEMORY as u64, 0), (MEMORY as u64 - 4096 + 8, 0)] {
            let mut pair = Pair::new(&QpConfig::default());
            let far = pair.far(0);
            let bad = op(other(far, addr, rkey));
            let len = if bad.is_atomic() { 8 } else { 4096 };
            // An atomic near the end is allowed.
            if bad.is_atomic() && addr + 8 <= MEMORY as u64 && rkey == 0 {
                continue;
            }
            pair.post(1, write(far), 2000);
            pair.post(2, bad, len);
            pair.post(3, write(far), 100);
            pair.carry(|_| false);
            let cause = EndCause::RefusedHere(Status::RemoteAccess);
            check(&mut pair, &[Status::Success, Status::RemoteAccess, Status::Flushed], cause);
        }
    }
}

#[test]
fn queue_pair_forbids_what_the_region_allows() {
    let config = QpConfig { access: Access::REMOTE_READ, ..QpConfig::default() };
    let mut pair = Pair::new(&config);
    let remote = pair.far(0);
    pair.post(1, SendOp::Read { remote }, 100);
    pair.post(2, write(remote), 100);
    pair.carry(|_| false);
    let cause = EndCause::RefusedHere(Status::RemoteAccess);
    check(&mut pair, &[Status::Success, Status::RemoteAccess], cause);
}

#[test]
fn send_that_is_too_long_fails_its_receive() {
    for len in [1001, 5000] {
        let mut pair = Pair::new(&QpConfig::default());
        pair.post_receive(10, 1000);
        pair.post_receive(11, 1000);
        pair.post(1, SendOp::Send { imm: None }, len);
        pair.carry(|_| false);
        let cause = EndCause::RefusedHere(Status::LocalLength);
        check(&mut pair, &[Status::RemoteInvalidRequest], cause);
        let received: Vec<_> =
            pair.completions(1).iter().map(|done| (done.wr_id, done.status)).collect();
        assert_eq!(received, [(10, Status::LocalLength), (11, Status::Flushed)]);
    }
}

#[test]
fn receive_whose_memory_is_gone_is_an_operational_error() {
    let mut pair = Pair::new(&QpConfig::default());
    pair.post_receive(10, 1000);
    let key = pair.hosts[1].memory.key;
    assert!(pair.hosts[1].memory.regions.remove(key));
    pair.post(1, SendOp::Send { imm: None }, 10);
    pair.carry(|_| false);
    check(&mut pair, &[Status::RemoteOperational], EndCause::LocalMemory);
    let done = pair.completions(1);
    assert_eq!((done[0].work, done[0].status), (Work::Recv, Status::LocalProtection));
}

#[test]
fn own_memory_that_is_gone_fails_the_request() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.post(1, write(remote), 10);
    pair.post(2, write(remote), 10);
    let key = pair.hosts[0].memory.key;
    pair.hosts[0].memory.regions.remove(key);
    pair.carry(|_| false);
    let statuses: Vec<Status> = pair.completions(0).iter().map(|done| done.status).collect();
    assert_eq!(statuses, [Status::LocalProtection, Status::Flushed]);
}

#[test]
fn read_whose_memory_goes_fails_at_both_ends() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(0);
    pair.post(1, SendOp::Read { remote }, 10_000);
    let request = pair.sends(0);
    pair.deliver(1, &request);
    let first = pair.hosts[1].transmit(pair.now).expect("a response");
    let key = pair.hosts[1].memory.key;
    pair.hosts[1].memory.regions.remove(key);
    pair.deliver(0, &[first]);
    pair.carry(|_| false);
    let cause = EndCause::RefusedHere(Status::RemoteAccess);
    check(&mut pair, &[Status::RemoteAccess], cause);
}

#[test]
fn missing_receive_is_retried_as_often_as_configured() {
    for limit in [0, 3] {
        let rnr_delay = Duration::from_micros(640);
        let config = QpConfig { rnr_retry: Some(limit), rnr_delay, ..QpConfig::default() };
        let mut pair = Pair::new(&config);
        let begin = pair.now;
        pair.post(1, SendOp::Send { imm: None }, 10);
        pair.carry(|_| false);
        while pair.hosts[0].qp.state() != QpState::Error {
            assert!(pair.pass_time());
            pair.carry(|_| false);
        }
        assert_eq!(pair.now - begin, rnr_delay * limit.into());
        let done = pair.completions(0);
        assert_eq!(done[0].status, Status::RnrRetryExceeded);
        assert_eq!(pair.hosts[0].qp.error().unwrap().cause, EndCause::PeerNotReady);
        assert_eq!(pair.hosts[1].qp.state(), QpState::ReadyToSend);
    }
}

#[test]
fn dead_peer_is_noticed_after_all_retries() {
    let mut pair = Pair::new(&QpConfig::default());
    let (begin, remote) = (pair.now, pair.far(0));
    pair.post(1, SendOp::Read { remote }, 100);
    pair.post(2, write(remote), 100);
    pair.carry(|_| true);
    while pair.hosts[0].qp.state() != QpState::Error {
        assert!(pair.pass_time());
        pair.carry(|_| true);
    }
    assert_eq!(pair.now - begin, ACK_TIMEOUT * (u32::from(RETRIES) + 1));
    let statuses: Vec<Status> = pair.completions(0).iter().map(|done| done.status).collect();
    assert_eq!(statuses, [Status::RetryExceeded, Status::Flushed]);
    assert_eq!(pair.hosts[0].qp.error().unwrap().cause, EndCause::PeerSilent);
}

#[test]
fn misaligned_atomic_of_a_peer_is_an_invalid_request() {
    let mut pair = Pair::new(&QpConfig::default());
    let remote = pair.far(8);
    pair.post(1, SendOp::FetchAdd { remote, add: 1 }, 8);
    let (mut header, _) = pair.sends(0).remove(0);
    header.address += 4;
    let admit = pair.hosts[1].take(pair.now, (&header, false), &[]);
    assert!(matches!(admit, braid_transport::Admit::Refuse(_)));
    let answer = pair.sends(1);
    pair.deliver(0, &answer);
    let cause = EndCause::RefusedHere(Status::RemoteInvalidRequest);
    check(&mut pair, &[Status::RemoteInvalidRequest], cause);
    assert_eq!(pair.hosts[1].memory.read(0, 64), [0; 64]);
    assert_eq!(header.address, BASE + 12);
}
