//! Errors and the reports of them to the application.

use std::time::{Duration, Instant};

use crate::pair::{MEMORY, Pair, Side, configs, everywhere, local};
use braid::wr::SendWrExt;
use braid::{
    Access, AccessError, CqError, CreateQpError, DestinationGroups, Engine, EngineConfig,
    EngineError, MemoryError, MemoryRegion, PostError, QpOptions, QpState, RegisterError,
    RemoteAddr, SendWr, Sge, Status, wr,
};

#[test]
fn posting_in_a_wrong_state() {
    let side = Side::new(&local(), |_| {});
    let piece = side.memory.slice(..8).unwrap();
    let refused = side.qp.post_send(wr::send(1, [piece])).unwrap_err();
    assert_eq!(refused, PostError::State { state: QpState::Init, queue: "send" });
    side.qp.modify(QpState::Reset).unwrap();
    let refused = side.qp.post_recv(wr::recv(1, [piece])).unwrap_err();
    assert_eq!(refused, PostError::State { state: QpState::Reset, queue: "receive" });
    assert!(refused.to_string().contains("RESET"), "{refused}");
    assert!(side.qp.modify(QpState::ReadyToSend).is_err());
}

#[test]
fn local_memory_is_checked_when_posting() {
    everywhere(|p| {
        let post = |piece| p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap_err();
        let good = p.a.memory.slice(..64).unwrap();
        let key = good.lkey;
        let outside = Sge { addr: good.addr + MEMORY as u64 - 63, ..good };
        assert!(matches!(post(outside), PostError::Access(AccessError::Bounds { .. })));
        let unknown = Sge { lkey: key ^ 0xFF, ..good };
        assert!(matches!(post(unknown), PostError::Access(AccessError::Key { .. })));
        let foreign = p.a.engine.alloc_pd().alloc_mr(64, Access::ALL).unwrap();
        let foreign = post(foreign.slice(..).unwrap());
        assert!(matches!(foreign, PostError::Access(AccessError::Domain { .. })));

        let read_only = p.a.pd.alloc_mr(64, Access::NONE).unwrap();
        let piece = read_only.slice(..).unwrap();
        let permission = |posted: Result<(), PostError>| {
            assert!(matches!(posted, Err(PostError::Access(AccessError::Permission { .. }))));
        };
        permission(p.a.qp.post_recv(wr::recv(1, [piece])));
        permission(p.a.qp.post_send(wr::read(1, [piece], p.remote.at(0))));
        p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
        p.successes(&p.a, 1);
    });
}

#[test]
fn malformed_work_is_refused() {
    let p = Pair::new(&local());
    let piece = p.a.memory.slice(..16).unwrap();
    let word = p.a.memory.slice(..8).unwrap();
    let post = |wr: SendWr| p.a.qp.post_send(wr).unwrap_err();
    assert_eq!(post(wr::send(1, vec![piece; 17])), PostError::TooManySges { count: 17, max: 16 });
    assert_eq!(
        post(wr::fetch_add(1, piece, p.remote.at(0), 1)),
        PostError::AtomicLength { count: 1, len: 16 }
    );
    assert!(matches!(
        post(wr::fetch_add(1, word, p.remote.at(4), 1)),
        PostError::AtomicAlignment { .. }
    ));
    assert_eq!(
        p.a.qp.post_send_inline(wr::send(1, []), &[0; 257]),
        Err(PostError::InlineTooLong { len: 257, max: 256 })
    );
    assert!(p.a.qp.post_send_inline(wr::read(1, [], p.remote.at(0)), &[0; 8]).is_err());
}

#[test]
fn a_full_queue_takes_no_more_and_then_again() {
    let p = Pair::with(&local(), |options| *options = options.clone().queues(4, 4));
    for id in 0..4 {
        p.b.post_recv(id, 0..64);
    }
    let full = p.b.qp.post_recv(wr::recv(9, [])).unwrap_err();
    assert_eq!(full, PostError::QueueFull { capacity: 4, queue: "recv" });
    for id in 0..4 {
        p.a.qp.post_send_inline(wr::send(id, []), b"x").unwrap();
    }
    p.successes(&p.b, 4);
    p.successes(&p.a, 4);
    // These have no receives, so they stay.
    for id in 0..4 {
        p.a.qp.post_send_inline(wr::send(id, []), b"x").unwrap();
    }
    let full = p.a.qp.post_send_inline(wr::send(9, []), b"x").unwrap_err();
    assert_eq!(full, PostError::QueueFull { capacity: 4, queue: "send" });
    for id in 0..4 {
        p.b.post_recv(id, 0..64);
    }
    p.successes(&p.b, 4);
    p.successes(&p.a, 4);
    p.b.post_recv(1, 0..64);
    p.a.qp.post_send_inline(wr::send(10, []), b"x").unwrap();
    p.successes(&p.a, 1);
}

/// A violation of the peer's protection, and the bytes that it targets.
struct Breach {
    name: &'static str,
    target: RemoteAddr,
    len: usize,
}

/// The violations with the regions that they target, whose keys exist.
fn breaches(p: &Pair) -> (Vec<Breach>, [MemoryRegion; 2]) {
    let none = p.b.pd.alloc_mr(4096, Access::LOCAL_WRITE).unwrap();
    let foreign = p.b.engine.alloc_pd().alloc_mr(4096, Access::ALL).unwrap();
    let gone = p.b.pd.alloc_mr(4096, Access::ALL).unwrap().remote();
    let breach = |name, target, len| Breach { name, target, len };
    let breaches = vec![
        breach("wrong key", RemoteAddr { rkey: p.remote.rkey ^ 0x155, ..p.remote.at(0) }, 64),
        breach("deregistered", gone.at(0), 64),
        breach("before the start", p.remote.at(u64::MAX), 64),
        breach("past the end", p.remote.at(MEMORY as u64 - 63), 64),
        breach("far past the end", p.remote.at(MEMORY as u64 - 4096), 100_000),
        breach("no permission", none.remote().at(0), 64),
        breach("foreign domain", foreign.remote().at(0), 64),
    ];
    (breaches, [none, foreign])
}

#[test]
fn a_breach_of_remote_memory_changes_nothing_and_fails() {
    for (name, config) in configs() {
        for index in 0..7 {
            for write in [true, false] {
                let p = Pair::new(&config);
                let (mut breaches, _regions) = breaches(&p);
                let Breach { name: what, target, len } = breaches.swap_remove(index);
                println!("-- {name}: {what}, write: {write}");
                p.a.memory.write_at(0, &vec![0xAA; len]).unwrap();
                let piece = p.a.memory.slice(..len).unwrap();
                let wr = if write {
                    wr::write(1, [piece], target)
                } else {
                    wr::read(1, [piece], target)
                };
                p.a.qp.post_send(wr).unwrap();
                let done = p.completions(&p.a, 1)[0];
                assert_eq!((done.wr_id, done.status), (1, Status::RemoteAccess));
                assert_eq!(p.a.qp.state(), QpState::Error);
                if write {
                    assert!(p.b.bytes(0..MEMORY).iter().all(|byte| *byte == 0), "{what}");
                } else {
                    assert!(p.a.bytes(0..len).iter().all(|byte| *byte == 0xAA), "{what}");
                }
            }
        }
    }
}

#[test]
fn work_behind_a_failure_is_flushed_in_order() {
    everywhere(|p| {
        let piece = p.a.memory.slice(..64).unwrap();
        p.a.post_recv(100, 0..64);
        p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
        let wrong = RemoteAddr { rkey: p.remote.rkey ^ 0x155, ..p.remote.at(0) };
        p.a.qp.post_send(wr::write(2, [piece], wrong).unsignalled()).unwrap();
        p.a.qp.post_send(wr::write(3, [piece], p.remote.at(0)).unsignalled()).unwrap();
        p.a.qp.post_send(wr::write(4, [piece], p.remote.at(0))).unwrap();
        let done = p.completions(&p.a, 5);
        let sends = done.iter().filter(|c| !c.work.is_recv()).map(|c| (c.wr_id, c.status));
        let expected = [
            (1, Status::Success),
            (2, Status::RemoteAccess),
            (3, Status::Flushed),
            (4, Status::Flushed),
        ];
        assert_eq!(sends.collect::<Vec<_>>(), expected);
        assert!(done.iter().any(|c| (c.wr_id, c.status) == (100, Status::Flushed)));
        p.a.qp.post_send(wr::write(5, [piece], p.remote.at(0))).unwrap();
        assert_eq!(p.completions(&p.a, 1)[0].status, Status::Flushed);
        assert_eq!(p.a.qp.outstanding(), (0, 0));
    });
}

#[test]
fn a_message_too_long_for_its_receive() {
    everywhere(|p| {
        p.b.post_recv(1, 0..10);
        p.a.memory.write_at(0, &[1; 11]).unwrap();
        let piece = p.a.memory.slice(..11).unwrap();
        p.a.qp.post_send(wr::send(2, [piece])).unwrap();
        assert_eq!(p.completions(&p.a, 1)[0].status, Status::RemoteInvalidRequest);
        assert_eq!(p.completions(&p.b, 1)[0].status, Status::LocalLength);
        assert_eq!(p.b.bytes(0..11), [0; 11]);
    });
}

#[test]
fn an_overrun_completion_queue_takes_its_queue_pairs_down() {
    everywhere(|p| {
        let small = p.a.engine.create_cq(4).unwrap();
        let qp = p.a.pd.create_qp(QpOptions::new(&small, &small)).unwrap();
        let other = p.b.pd.create_qp(QpOptions::new(&p.b.cq, &p.b.cq)).unwrap();
        let listener = p.b.engine.listen(1).unwrap();
        crate::pair::connect(&qp, &listener, &other, &[]);
        let piece = p.a.memory.slice(..64).unwrap();
        for id in 0..20 {
            qp.post_send(wr::write(id, [piece], p.remote.at(0))).unwrap();
        }
        p.until("ERR", || qp.state() == QpState::Error);
        for id in 0..4 {
            assert_eq!(small.poll_one().unwrap().unwrap().wr_id, id);
        }
        assert_eq!(small.poll_one(), Err(CqError::Overrun { capacity: 4 }));
        // The other queue pair continues.
        p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
        p.successes(&p.a, 1);
    });
}

/// The queue grows while completions arrive, and loses none.
#[test]
fn a_completion_queue_grows_and_completions_stay_in_order() {
    everywhere(|p| {
        let cq = p.a.engine.create_cq(8).unwrap();
        let mut options = QpOptions::new(&cq, &cq);
        options.config.max_send_wr = 300;
        let qp = p.a.pd.create_qp(options).unwrap();
        let other = p.b.pd.create_qp(QpOptions::new(&p.b.cq, &p.b.cq)).unwrap();
        let listener = p.b.engine.listen(1).unwrap();
        crate::pair::connect(&qp, &listener, &other, &[]);
        let piece = p.a.memory.slice(..64).unwrap();
        let mut posted = 0;
        for capacity in [8, 17, 37, 137, 287] {
            cq.grow(capacity).unwrap();
            assert!(cq.capacity() >= capacity);
            while posted < capacity as u64 {
                qp.post_send(wr::write(posted, [piece], p.remote.at(0))).unwrap();
                posted += 1;
            }
        }
        let mut done = Vec::new();
        p.until("completions", || {
            cq.poll(&mut done, usize::MAX).unwrap();
            done.len() == 287
        });
        let ids: Vec<u64> = done.iter().map(|done| done.wr_id).collect();
        assert_eq!(ids, Vec::from_iter(0..287));
        assert!(cq.grow(0).is_err() && cq.grow(usize::MAX).is_err());
    });
}

#[test]
fn memory_that_goes_while_it_is_used() {
    everywhere(|p| {
        let region = p.a.pd.alloc_mr(1 << 20, Access::NONE).unwrap();
        for id in 0..8 {
            let piece = region.slice(..).unwrap();
            p.a.qp.post_send(wr::write(id, [piece], p.remote.at(0))).unwrap();
        }
        drop(region);
        let done = p.completions(&p.a, 8);
        let failed = done.iter().position(|c| c.status != Status::Success);
        if let Some(first) = failed {
            assert_eq!(done[first].status, Status::LocalProtection, "{done:?}");
            assert!(done[first + 1..].iter().all(|c| c.status == Status::Flushed));
        }
    });
}

#[test]
fn accesses_outside_a_region_are_errors() {
    let side = Side::new(&local(), |_| {});
    let bounds = |offset, len| MemoryError::Bounds { offset, len, region_len: MEMORY };
    let mut byte = [0];
    assert_eq!(side.memory.read_at(MEMORY, &mut byte), Err(bounds(MEMORY, 1)));
    assert_eq!(side.memory.write_at(usize::MAX, &[1]), Err(bounds(usize::MAX, 1)));
    assert_eq!(side.memory.slice(1..MEMORY + 1), Err(bounds(1, MEMORY)));
    assert!(matches!(side.memory.load_u64(4), Err(MemoryError::Alignment { .. })));
    assert_eq!(side.memory.slice(10..10).unwrap().len, 0);
    assert!(matches!(side.pd.alloc_mr(0, Access::ALL), Err(RegisterError::Empty)));
}

#[test]
fn registered_memory_of_the_application() {
    let p = Pair::new(&local());
    let mut memory = vec![0u8; 10_000].into_boxed_slice();
    let start = memory.as_mut_ptr();
    // SAFETY: the box outlives the region and is not touched while the region exists.
    let region = unsafe { p.b.pd.register(start, 10_000, Access::REMOTE_WRITE) }.unwrap();
    p.a.memory.write_at(0, &[9; 10_000]).unwrap();
    let piece = p.a.memory.slice(..10_000).unwrap();
    p.a.qp.post_send(wr::write(1, [piece], region.remote().at(0))).unwrap();
    p.successes(&p.a, 1);
    drop(region);
    assert!(memory.iter().all(|byte| *byte == 9));
}

#[test]
fn huge_pages_or_what_to_do_about_them() {
    let side = Side::new(&local(), |_| {});
    match side.pd.alloc_mr_huge(3 << 20, Access::ALL) {
        Ok(region) => assert_eq!(region.len(), 3 << 20),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("sysctl vm.nr_hugepages=2"), "{text}");
        }
    }
}

#[test]
fn options_out_of_range_are_named() {
    let side = Side::new(&local(), |_| {});
    let options = QpOptions { max_sge: 0, ..QpOptions::new(&side.cq, &side.cq) };
    let error = side.pd.create_qp(options).unwrap_err();
    assert_eq!(error.to_string(), "`max_sge` of a queue pair is 0; take 1 to 256");
    let stranger = Side::new(&local(), |_| {});
    let error = side.pd.create_qp(QpOptions::new(&stranger.cq, &side.cq)).unwrap_err();
    assert!(matches!(error, CreateQpError::OtherEngine));
    assert!(side.engine.create_cq(0).is_err());

    let make = |config: EngineConfig| Engine::new(config).err().unwrap();
    let threads = braid::Progress::Threads(0);
    let error = make(EngineConfig { progress: threads, ..local() });
    assert!(matches!(error, EngineError::Threads { count: 0 }));
    assert!(matches!(make(EngineConfig { paths: 0, ..local() }), EngineError::PathCount(_)));
    for packets in [0, 4097] {
        let error = make(EngineConfig { quantum: Some(packets), ..local() });
        assert!(matches!(error, EngineError::Quantum { .. }));
        let text = format!("quantum of {packets} packets; use 1 to 4096");
        assert!(error.to_string().contains(&text), "{error}");
    }
    let destination_groups = DestinationGroups::parse("groups", "a 10.0.0.0/8").unwrap();
    let error = make(EngineConfig { destination_groups, discover: true, ..local() });
    assert!(matches!(error, EngineError::DiscoverForGroups));
    let taken = EngineConfig { bind: side.engine.local_addr(), ..local() };
    let error = make(taken).to_string();
    assert!(error.contains(&side.engine.local_addr().to_string()), "{error}");
}

#[test]
fn nothing_hangs_when_the_time_is_over() {
    let side = Side::new(&local(), |_| {});
    let start = Instant::now();
    assert!(side.cq.wait(Duration::from_millis(20)).unwrap().is_empty());
    assert!(side.engine.listen(1).unwrap().accept(Duration::from_millis(20)).is_none());
    assert!(start.elapsed() < Duration::from_secs(2));
}
