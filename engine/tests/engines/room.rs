//! Waits for room in a send queue, for one completion, and for a host by its name.

use std::thread;
use std::time::Duration;

use crate::pair::{PATIENCE, Pair, Side, configs, local};
use braid::{ConnectError, PostError, Progress, QpState, SendWr, Status, wr};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Places of the send queues.
const PLACES: u32 = 2;

fn small(config: &braid::EngineConfig) -> Pair {
    Pair::with(config, |options| options.config.max_send_wr = PLACES)
}

fn write(pair: &Pair, id: u64) -> SendWr {
    wr::write(id, [pair.a.memory.slice(..8).unwrap()], pair.remote.at(0))
}

/// Fills the send queue, from which nothing leaves until the queue pair is resumed.
fn fill(pair: &Pair) {
    pair.a.qp.modify(QpState::SendQueueDrained).unwrap();
    for id in 0..PLACES.into() {
        pair.a.qp.post_send_within(write(pair, id), Duration::ZERO).unwrap();
    }
}

#[test]
fn a_post_waits_for_room_and_no_longer_than_it_may() {
    for (name, config) in configs() {
        println!("-- {name}");
        let pair = small(&config);
        fill(&pair);
        for limit in [Duration::ZERO, Duration::from_millis(30)] {
            let full = pair.a.qp.post_send_within(write(&pair, 9), limit);
            assert!(matches!(full, Err(PostError::QueueFull { capacity: PLACES, .. })), "{full:?}");
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                pair.a.qp.modify(QpState::ReadyToSend).unwrap();
            });
            if config.progress == Progress::Application {
                // The thread of this side drives only its own engine.
                scope.spawn(|| pair.b.cq.wait(Duration::from_millis(500)).unwrap());
            }
            // Two threads wait for the same place at first.
            for id in [2, 3] {
                let pair = &pair;
                scope.spawn(move || pair.a.qp.post_send_within(write(pair, id), PATIENCE).unwrap());
            }
        });
        let mut ended = Vec::new();
        while ended.len() < 4 {
            let done = pair.a.cq.wait_one(PATIENCE).unwrap().expect("a completion comes");
            assert_eq!(done.status, Status::Success);
            ended.push(done.wr_id);
            let _ = pair.b.cq.poll_one().unwrap();
        }
        assert_eq!(ended[..2], [0, 1]);
    }
}

#[test]
fn unsignalled_work_frees_its_places_for_those_who_wait() {
    use wr::SendWrExt;
    let pair = small(&local());
    for id in 0..200 {
        pair.a.qp.post_send_within(write(&pair, id).unsignalled(), PATIENCE).unwrap();
    }
    pair.a.qp.post_send_within(write(&pair, 200), PATIENCE).unwrap();
    assert_eq!(pair.a.cq.wait_one(PATIENCE).unwrap().map(|done| done.wr_id), Some(200));
}

#[test]
fn a_descriptor_tells_of_room() {
    let pair = small(&local());
    let readable = |limit: u16| {
        let room = pair.a.qp.send_room().unwrap();
        let mut polled = [PollFd::new(room, PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::from(limit)).unwrap() == 1
    };
    fill(&pair);
    pair.a.qp.notify_send_room();
    assert!(pair.a.qp.post_send(write(&pair, 9)).is_err() && !readable(50));
    pair.a.qp.modify(QpState::ReadyToSend).unwrap();
    assert!(readable(10_000));
    pair.a.qp.post_send_within(write(&pair, 9), PATIENCE).unwrap();
    // Once, until it is armed again.
    for _ in 0..3 {
        assert!(pair.a.cq.wait_one(PATIENCE).unwrap().is_some());
    }
    pair.a.qp.notify_send_room();
    assert!(!readable(0));
}

#[test]
fn a_wait_ends_in_time_and_appends() {
    for (name, config) in configs() {
        println!("-- {name}");
        let pair = Pair::new(&config);
        assert_eq!(pair.a.cq.wait_one(Duration::from_millis(5)).unwrap(), None);
        let mut all = Vec::new();
        assert_eq!(pair.a.cq.wait_into(&mut all, Duration::ZERO).unwrap(), 0);
        for id in 0..3 {
            pair.b.post_recv(id, 0..0);
        }
        pair.b.qp.modify(QpState::Error).unwrap();
        while all.len() < 3 {
            assert!(pair.b.cq.wait_into(&mut all, PATIENCE).unwrap() > 0);
        }
        assert_eq!(all.iter().map(|done| done.wr_id).collect::<Vec<_>>(), [0, 1, 2]);
    }
}

#[test]
fn a_host_is_connected_to_by_its_name() {
    let [a, b] = [(); 2].map(|()| Side::new(&local(), |_| {}));
    let listener = b.engine.listen(1).unwrap();
    let host = format!("localhost:{}", listener.local_addr().port());
    thread::scope(|scope| {
        scope.spawn(|| listener.accept(PATIENCE).unwrap().accept(&b.qp, b"hello").unwrap());
        assert_eq!(a.qp.connect_host(&host, &[], PATIENCE).unwrap(), b"hello");
    });
    let c = Side::new(&local(), |_| {});
    for host in ["no.such.host.invalid", "[::1", "localhost:99999"] {
        let error = c.qp.connect_host(host, &[], PATIENCE).unwrap_err();
        assert!(matches!(error, ConnectError::Resolve(_)), "{error}");
        assert!(error.to_string().contains(&format!("`{host}`")), "{error}");
    }
}
