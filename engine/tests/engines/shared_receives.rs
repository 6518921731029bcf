//! Shared receive queues, and other parts of the engine for verbs libraries: connecting in the
//! background, attributes that change, and the application's own completions.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Pair, Side, local};
use braid::{
    Access, AsyncEvent, Completion, CreateQpError, Engine, Faults, PostError, QpAttributes,
    QpOptions, QpState, Status, Work, wr,
};

#[test]
fn receives_go_to_whoever_a_message_is_for_whatever_is_lost() {
    let faults = Faults { drop: 0.05, reorder: 0.05, seed: 5, ..Faults::default() };
    let config = braid::EngineConfig { faults, ..local() };
    let b = Side::new(&config, |_| {});
    let srq = b.pd.create_srq(256, 1).unwrap();
    let listener = b.engine.listen(8).unwrap();
    let sides: Vec<(Side, braid::QueuePair)> = (0..3)
        .map(|_| {
            let a = Side::new(&config, |_| {});
            let mut options = QpOptions::new(&b.cq, &b.cq);
            options.srq = Some(srq.clone());
            let qp = b.pd.create_qp(options).unwrap();
            qp.modify(QpState::Init).unwrap();
            crate::pair::connect(&a.qp, &listener, &qp, &[]);
            (a, qp)
        })
        .collect();
    srq.set_limit(100);
    const EACH: usize = 60;
    for id in 0..3 * EACH {
        let start = 64 * id;
        srq.post_recv(wr::recv(id as u64, [b.memory.slice(start..start + 64).unwrap()])).unwrap();
    }
    for (index, (a, _)) in sides.iter().enumerate() {
        a.memory.write_at(0, &[index as u8 + 1; 64]).unwrap();
        for id in 0..EACH {
            a.qp.post_send(wr::send(id as u64, [a.memory.slice(0..64).unwrap()])).unwrap();
        }
    }
    let mut got = [0; 3];
    let until = Instant::now() + PATIENCE;
    while got.iter().sum::<usize>() < 3 * EACH {
        assert!(Instant::now() < until, "only {got:?} have come");
        for Completion { qp, wr_id, status, len, .. } in
            b.cq.wait(Duration::from_millis(100)).unwrap()
        {
            assert_eq!((status, len), (Status::Success, 64));
            let index = sides.iter().position(|(_, other)| other.number() == qp).unwrap();
            got[index] += 1;
            let start = 64 * wr_id as usize;
            assert_eq!(b.bytes(start..start + 64), [index as u8 + 1; 64]);
        }
    }
    assert_eq!(got, [EACH; 3]);
    let low = AsyncEvent::ReceivesLow { srq: srq.number() };
    let events: Vec<AsyncEvent> = std::iter::from_fn(|| b.engine.poll_event()).collect();
    assert_eq!((events.iter().filter(|event| **event == low).count(), srq.limit()), (1, 0));
    assert!(srq.take_back().is_none());
}

#[test]
fn places_of_a_shared_queue_come_back() {
    let side = Side::new(&local(), |_| {});
    let srq = side.pd.create_srq(2, 1).unwrap();
    let post = |id| srq.post_recv(wr::recv(id, [side.memory.slice(0..8).unwrap()]));
    post(1).unwrap();
    post(2).unwrap();
    assert!(matches!(post(3), Err(PostError::QueueFull { capacity: 2, .. })));
    assert_eq!(srq.take_back().map(|wr| wr.id), Some(1));
    post(4).unwrap();
    assert!(side.pd.create_srq(0, 1).is_err() && side.pd.create_srq(1, 1000).is_err());
    let mut options = QpOptions::new(&side.cq, &side.cq);
    options.srq = Some(srq);
    let foreign = side.engine.alloc_pd().create_qp(options);
    assert!(matches!(foreign, Err(CreateQpError::OtherDomain)));
}

#[test]
fn a_queue_pair_with_a_shared_queue_has_no_receives_of_its_own() {
    let side = Side::new(&local(), |_| {});
    let mut options = QpOptions::new(&side.cq, &side.cq);
    options.srq = Some(side.pd.create_srq(2, 1).unwrap());
    let qp = side.pd.create_qp(options).unwrap();
    qp.modify(QpState::Init).unwrap();
    for id in 0..3 {
        let refused = qp.post_recv(wr::recv(id, []));
        assert!(matches!(refused, Err(PostError::SharedReceives)), "{refused:?}");
    }
}

#[test]
fn attributes_hold_from_when_they_are_set() {
    let p = Pair::new(&local());
    let piece = || [p.a.memory.slice(0..8).unwrap()];
    p.a.qp.post_send(wr::write(1, piece(), p.remote.at(0))).unwrap();
    p.successes(&p.a, 1);
    let attributes = QpAttributes {
        access: Access::REMOTE_READ,
        retry_timeout: Duration::from_secs(3),
        rnr_retry: Some(0),
        rnr_delay: Duration::from_micros(100),
    };
    p.b.qp.set_attributes(attributes);
    p.a.qp.post_send(wr::write(2, piece(), p.remote.at(0))).unwrap();
    assert_eq!(p.completions(&p.a, 1)[0].status, Status::RemoteAccess);
}

#[test]
fn completions_of_the_application_are_like_any_other() {
    let engine = Engine::new(local()).unwrap();
    let cq = engine.create_cq(2).unwrap();
    let readable = |cq: &braid::CompletionQueue| {
        let mut fd = libc::pollfd { fd: cq.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: it points to one entry.
        unsafe { libc::poll(&raw mut fd, 1, 0) == 1 }
    };
    let own = Completion {
        qp: braid::QpId::new(7),
        wr_id: 3,
        work: Work::Send,
        status: Status::Flushed,
        len: 0,
        imm: None,
        solicited: false,
        source: braid::QpId::default(),
    };
    cq.request_event(true);
    cq.push(own).unwrap();
    assert!(readable(&cq));
    cq.request_event(false);
    assert!(readable(&cq), "asking again takes nothing away");
    assert!(cq.clear_event() && !cq.clear_event() && !readable(&cq));
    assert_eq!(cq.poll_one().unwrap(), Some(own));
    cq.push(own).unwrap();
    cq.push(own).unwrap();
    assert!(cq.push(own).is_err() && cq.has_overrun());
}
