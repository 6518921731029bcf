//! Every public function and field with a time accepts the longest time and zero, or rejects it
//! with its name and its range.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{MEMORY, PATIENCE, Pair, Side, connect, local};
use braid::{
    Access, AllToAllV, ConnectError, CreateQpError, DiscoveryConfig, DiscoveryError, Engine,
    EngineConfig, EngineError, Faults, Group, GroupConfig, GroupError, MAX_TIMER, PathId, Progress,
    QpAttributes, QpConfig, QpOptions, TimerError, discover, wr,
};

const EXTREMES: [Duration; 2] = [Duration::MAX, Duration::ZERO];

fn both() -> [EngineConfig; 2] {
    let progress = [Progress::Threads(1), Progress::Application];
    progress.map(|progress| EngineConfig { progress, linger: Duration::ZERO, ..local() })
}

/// Checks that a WRITE succeeds.
fn works(p: &Pair) {
    p.a.qp.post_send(wr::write(1, [p.a.memory.slice(..100_000).unwrap()], p.remote.at(0))).unwrap();
    p.successes(&p.a, 1);
}

#[test]
fn waits_of_any_length_end_when_there_is_something_and_at_once_when_there_is_no_time() {
    for config in both() {
        let p = Pair::new(&config);
        assert!(p.a.cq.wait(Duration::ZERO).unwrap().is_empty());
        // The path MTU may have been found. Nothing else has happened.
        while p.a.engine.wait_event(Duration::ZERO).is_some() {}
        let piece = p.a.memory.slice(..64).unwrap();
        p.a.qp.post_send(wr::write(7, [piece], p.remote.at(0))).unwrap();
        thread::scope(|scope| {
            let done = scope.spawn(|| p.a.cq.wait(Duration::MAX).unwrap());
            while !done.is_finished() {
                p.b.engine.progress();
            }
            assert_eq!(done.join().unwrap().len(), 1);
            p.b.qp.disconnect();
            let event = scope.spawn(|| p.a.engine.wait_event(Duration::MAX));
            while !event.is_finished() {
                p.b.engine.progress();
            }
            assert!(event.join().unwrap().is_some());
        });
    }
}

#[test]
fn connecting_and_accepting_take_any_time_limit() {
    for config in both() {
        let (a, b) = (Side::new(&config, |_| {}), Side::new(&config, |_| {}));
        let listener = b.engine.listen(4).unwrap();
        assert!(listener.accept(Duration::ZERO).is_none());
        let none = a.qp.connect(listener.local_addr(), &[], Duration::ZERO).unwrap_err();
        assert!(matches!(none, ConnectError::TimedOut { .. }), "{none}");
        drop(a.qp.begin_connect(listener.local_addr(), &[], Duration::ZERO).unwrap());
        drop(a.qp.begin_connect(listener.local_addr(), &[], Duration::MAX).unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                // Cancelled attempts may still be there.
                while a.qp.remote_addr().is_none() {
                    let Some(request) = listener.accept(Duration::MAX) else { continue };
                    match request.private_data() {
                        b"last" => return request.accept(&b.qp, &[]).unwrap(),
                        _ => request.reject(),
                    }
                }
            });
            a.qp.connect(listener.local_addr(), b"last", Duration::MAX).unwrap();
        });
    }
}

#[test]
fn a_group_takes_any_time_limit() {
    let engines = [(); 2].map(|()| Engine::new(local()).unwrap());
    let config = |rank| {
        let root = engines[0].local_addr();
        GroupConfig { timeout: Duration::MAX, ..GroupConfig::with_root(rank, 2, root) }
    };
    let alone = GroupConfig { timeout: Duration::ZERO, ..config(0) };
    let began = Instant::now();
    Group::join(&engines[0], &alone).unwrap_err();
    assert!(began.elapsed() < PATIENCE);
    thread::scope(|scope| {
        for (rank, engine) in engines.iter().enumerate() {
            let config = config(rank);
            scope.spawn(move || {
                let group = Group::join(engine, &config).unwrap();
                let region = || {
                    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
                    Arc::new(group.pd().alloc_mr(64, access).unwrap())
                };
                let round = group.start(AllToAllV::even(region(), region(), 2, 32)).unwrap();
                match round.wait(Duration::ZERO) {
                    Ok(()) | Err(GroupError::Unfinished { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
                round.wait(Duration::MAX).unwrap();
            });
        }
    });
}

type EngineField = (&'static str, fn(&mut EngineConfig, Duration));
const ENGINE: [EngineField; 4] = [
    ("spin", |config, time| config.spin = time),
    ("ping_interval", |config, time| config.ping_interval = time),
    ("peer_timeout", |config, time| config.peer_timeout = time),
    ("linger", |config, time| config.linger = time),
];

/// Checks that the error names the field, its value and its range.
fn check_refusal(error: &TimerError, field: &str, time: Duration) {
    let text = error.to_string();
    assert_eq!((error.name, error.value, error.max), (field, time, MAX_TIMER));
    assert!(text.contains(field) && text.contains("86400s") && !text.contains('\n'), "{text}");
}

#[test]
fn times_of_an_engine_are_refused_or_work() {
    for (field, set) in ENGINE {
        for time in [EXTREMES[0], EXTREMES[1], MAX_TIMER] {
            let mut config = local();
            set(&mut config, time);
            match Engine::new(config.clone()) {
                Ok(_) => works(&Pair::new(&config)),
                Err(EngineError::Timer(error)) => check_refusal(&error, field, time),
                Err(other) => panic!("{field} {time:?}: {other}"),
            }
        }
    }
    let faults =
        |time| EngineConfig { faults: Faults { delay: time, ..Faults::default() }, ..local() };
    assert!(
        Engine::new(faults(Duration::MAX)).is_err() && Engine::new(faults(Duration::ZERO)).is_ok()
    );
    let never = EngineConfig { ping_interval: Duration::ZERO, ..local() };
    let error = Engine::new(never).unwrap_err().to_string();
    assert_eq!(error, "`ping_interval` is 0ns; take 1ms to 86400s");
}

type QpField = (&'static str, fn(&mut QpConfig, Duration));
const QP: [QpField; 6] = [
    ("retry_timeout", |config, time| config.retry_timeout = time),
    ("rnr_delay", |config, time| config.rnr_delay = time),
    ("min_rto", |config, time| config.min_rto = time),
    ("max_rto", |config, time| config.max_rto = time),
    ("reply_hold", |config, time| config.reply_hold = time),
    ("reply_wait", |config, time| config.reply_wait = time),
];

#[test]
fn times_of_a_queue_pair_are_refused_or_work() {
    for (field, set) in QP {
        for time in [EXTREMES[0], EXTREMES[1], MAX_TIMER] {
            let side = Side::new(&local(), |_| {});
            let mut options = QpOptions::new(&side.cq, &side.cq);
            set(&mut options.config, time);
            match side.pd.create_qp(options) {
                // Without any time to retry, a single late packet ends the connection, as
                // requested.
                Ok(_) if time.is_zero() && field == "retry_timeout" => {}
                Ok(_) => works(&Pair::with(&local(), |options| set(&mut options.config, time))),
                Err(CreateQpError::Timer(error)) => check_refusal(&error, field, time),
                Err(other) => panic!("{field} {time:?}: {other}"),
            }
        }
    }
}

#[test]
fn times_that_change_later_take_any_value() {
    let p = Pair::new(&local());
    for time in [Duration::ZERO, Duration::MAX] {
        let access = Access::ALL;
        let (retry_timeout, rnr_delay) = (Duration::MAX, time);
        let attributes = QpAttributes { access, retry_timeout, rnr_retry: None, rnr_delay };
        p.a.qp.set_attributes(attributes);
        p.b.qp.set_attributes(attributes);
        works(&p);
    }
    // A message without a receive makes the peer announce the delay, and a receive posted soon ends
    // the wait for it.
    let wait = Duration::from_millis(50);
    p.a.qp.post_send_inline(wr::send(1, []), b"x").unwrap();
    thread::sleep(wait);
    p.b.post_recv(2, 0..MEMORY.min(64));
    p.successes(&p.b, 1);
    p.a.qp.set_attributes(QpAttributes { retry_timeout: Duration::ZERO, ..attributes_of() });
    p.b.qp.disconnect();
}

fn attributes_of() -> QpAttributes {
    let (access, rnr_retry) = (Access::ALL, None);
    QpAttributes { access, retry_timeout: PATIENCE, rnr_retry, rnr_delay: Duration::ZERO }
}

type DiscoveryField = (&'static str, fn(&mut DiscoveryConfig, Duration));

#[test]
fn discovery_refuses_times_or_works() {
    let engine = Engine::new(local()).unwrap();
    let ask = |change: fn(&mut DiscoveryConfig, Duration), time| {
        let mut config = DiscoveryConfig { max_ttl: 1, tries: 1, ..DiscoveryConfig::default() };
        change(&mut config, time);
        let here = "127.0.0.1".parse().unwrap();
        discover(engine.local_addr(), here, [PathId::new(900)], config)
    };
    let fields: [DiscoveryField; 3] = [
        ("timeout", |config, time| config.timeout = time),
        ("spacing", |config, time| config.spacing = time),
        ("patience", |config, time| config.patience = time),
    ];
    for (field, change) in fields {
        match ask(change, Duration::MAX) {
            Err(DiscoveryError::Timer(error)) => check_refusal(&error, field, Duration::MAX),
            other => panic!("{field}: {other:?}"),
        }
        ask(change, Duration::ZERO).unwrap();
    }
}

/// The time-out of an attempt holds however long it is. The address has no receiver.
#[test]
fn an_attempt_without_limit_can_be_given_up() {
    let side = Side::new(&local(), |_| {});
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap();
    thread::scope(|scope| {
        let attempt = scope.spawn(|| side.qp.connect(to, &[], Duration::MAX));
        thread::sleep(Duration::from_millis(100));
        assert!(!attempt.is_finished());
        side.qp.disconnect();
        let error = attempt.join().unwrap().unwrap_err();
        assert!(matches!(error, ConnectError::Cancelled { .. }), "{error}");
    });
    // The queue pair is as new.
    let other = Side::new(&local(), |_| {});
    let listener = other.engine.listen(1).unwrap();
    side.qp.modify(braid::QpState::Reset).unwrap();
    connect(&side.qp, &listener, &other.qp, &[]);
}
