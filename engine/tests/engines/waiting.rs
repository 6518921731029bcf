//! Several threads that wait at the same time, each of which gets its own results.
//!
//! A thread that misses a wake-up sleeps for ever, so threads are left behind when a test ends.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{PATIENCE, Pair, configs, local};
use braid::{CompletionQueue, EngineConfig, Progress, wr};

/// Longer than any test, so that a time-out never hides a missed wake-up.
const FOR_EVER: Duration = Duration::from_secs(3600);
const ROUNDS: u64 = 300;

/// A configuration in which no timer of the engine wakes a thread, and no thread spins.
fn quiet(config: EngineConfig) -> EngineConfig {
    EngineConfig { ping_interval: FOR_EVER, spin: Duration::ZERO, ..config }
}

/// Starts a thread that waits at a queue repeatedly and reports the number of completions.
fn waiting_at(cq: &CompletionQueue) -> Receiver<usize> {
    let (cq, (say, heard)) = (cq.clone(), mpsc::channel());
    thread::spawn(move || while say.send(cq.wait(FOR_EVER).unwrap().len()).is_ok() {});
    heard
}

fn send_one(pair: &Pair, id: u64) {
    pair.b.post_recv(id, 0..8);
    pair.a.qp.post_send(wr::send(id, [pair.a.memory.slice(0..8).unwrap()])).unwrap();
}

#[test]
fn threads_that_drive_an_engine_together_do_not_take_each_others_wake_ups() {
    for (name, config) in configs() {
        if config.progress != Progress::Application {
            continue;
        }
        println!("-- {name}");
        let pair = Pair::new(&quiet(config));
        // These threads wake up whenever anything happens, and never get a completion.
        let idle = [(); 3].map(|()| waiting_at(&pair.b.engine.create_cq(1).unwrap()));
        let heard = waiting_at(&pair.b.cq);
        for round in 0..ROUNDS {
            send_one(&pair, round);
            let start = Instant::now();
            // This thread drives the engine too. Often it takes the completion that the other waits
            // for.
            while heard.try_recv().is_err() {
                pair.progress();
                assert!(start.elapsed() < PATIENCE, "round {round}: who waits is not woken");
            }
            pair.successes(&pair.a, 1);
        }
        assert!(idle.iter().all(|idle| idle.try_recv().is_err()));
    }
}

#[test]
fn arming_a_queue_does_not_take_the_wake_ups_of_those_who_wait_at_it() {
    let pair = Pair::new(&EngineConfig { ping_interval: FOR_EVER, ..local() });
    let heard = waiting_at(&pair.b.cq);
    for round in 0..ROUNDS {
        send_one(&pair, round);
        let start = Instant::now();
        while heard.try_recv().is_err() {
            pair.b.cq.notify(false);
            assert!(start.elapsed() < PATIENCE, "round {round}: who waits is not woken");
        }
        pair.successes(&pair.a, 1);
    }
}
