//! Memory that its owner changes while it is sent. The receiver gets a mixture of old and new,
//! never an error. A changed segment of a WRITE or SEND may be sent twice, a response to a READ is
//! not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::pair::{Pair, Side, configs};
use braid::{Crc, Datapath, Faults, MemoryRegion, wr};

/// Large messages.
const LEN: usize = 64 << 10;

/// Runs a test in each way, with and without losses, while another thread writes to the first `len`
/// bytes of one side's memory.
fn while_memory_changes(
    side: fn(&Pair) -> &Side,
    (len, is_copied): (usize, bool),
    test: impl Fn(&Pair),
) {
    let none = Faults::default();
    let some = Faults { drop: 0.02, reorder: 0.02, seed: 3, ..none };
    for (name, mut config) in configs() {
        for (faults, crc) in [(none, Crc::On), (some, Crc::On), (none, Crc::Off)] {
            if matches!(config.datapath, Datapath::Tcp | Datapath::Auto) && !faults.is_none() {
                continue;
            }
            println!("-- {name}, check {crc:?}, {faults:?}");
            (config.faults, config.crc) = (faults, Some(crc));
            let p = Pair::new(&config);
            let changes = AtomicBool::new(true);
            thread::scope(|scope| {
                scope.spawn(|| change(&side(&p).memory, len, &changes));
                // Stops the thread even if the test panics.
                let _stop = Stop(&changes);
                test(&p);
            });
            for (from, to) in [(&p.a, &p.b), (&p.b, &p.a)] {
                let failures = to.engine.counters().payload_check;
                let may_fail = if is_copied { 0 } else { from.qp.counters().retransmitted };
                println!("{failures} segments were changed after their check");
                assert!(failures <= may_fail, "{failures} segments do not match their check");
            }
        }
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Increments every word repeatedly.
fn change(memory: &MemoryRegion, len: usize, changes: &AtomicBool) {
    for value in 1.. {
        if !changes.load(Ordering::Acquire) {
            return;
        }
        for offset in (0..len).step_by(8) {
            memory.store_u64(offset, value).unwrap();
        }
        // With fewer processors than threads, the engines have to run, too.
        thread::yield_now();
    }
}

/// Checks that every word at the receiver is an earlier value of the same word.
fn assert_a_mixture(words: &MemoryRegion, at: usize, newest: &MemoryRegion) {
    let newest = newest.load_u64(0).unwrap();
    for offset in (at..at + LEN).step_by(8) {
        let word = words.load_u64(offset).unwrap();
        assert!(word <= newest, "{word:#x} at {offset:#x}, of {newest:#x}");
    }
}

#[test]
fn a_counter_is_read_again_and_again() {
    while_memory_changes(
        |p| &p.b,
        (8, true),
        |p| {
            let piece = p.a.memory.slice(LEN..LEN + 8).unwrap();
            let mut before = 0;
            for id in 0..600 {
                p.a.qp.post_send(wr::read(id, [piece], p.remote.at(0))).unwrap();
                p.successes(&p.a, 1);
                let value = p.a.memory.load_u64(LEN).unwrap();
                assert!(value >= before, "{value} after {before}");
                before = value;
            }
        },
    );
}

#[test]
fn large_reads() {
    while_memory_changes(
        |p| &p.b,
        (LEN, true),
        |p| {
            let piece = p.a.memory.slice(LEN..2 * LEN).unwrap();
            for id in 0..100 {
                p.a.qp.post_send(wr::read(id, [piece], p.remote.at(0))).unwrap();
                p.successes(&p.a, 1);
                assert_a_mixture(&p.a.memory, LEN, &p.b.memory);
            }
        },
    );
}

#[test]
fn large_writes_and_sends() {
    while_memory_changes(
        |p| &p.a,
        (LEN, false),
        |p| {
            let piece = p.a.memory.slice(..LEN).unwrap();
            for id in 0..100 {
                p.b.post_recv(id, LEN..2 * LEN);
                p.a.qp.post_send(wr::write(id, [piece], p.remote.at(2 * LEN as u64))).unwrap();
                p.a.qp.post_send(wr::send(id, [piece])).unwrap();
                p.successes(&p.a, 2);
                p.successes(&p.b, 1);
                assert_a_mixture(&p.b.memory, LEN, &p.a.memory);
                assert_a_mixture(&p.b.memory, 2 * LEN, &p.a.memory);
            }
        },
    );
}
