//! A forked child has a copy of its parent's keyed connection. Tests that the child never uses the
//! numbers of the parent's packets, which are the nonces of the cipher.

mod pair;
mod relay;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use braid::{EngineConfig, Key, Progress, QpState, Security, wr};
use braid_wire::{Packet, QpId, Token};
use pair::{PATIENCE, Pair, Side, local};
use relay::{Face, Relay, Visitor};

/// Passes everything on and counts repeated numbers.
#[derive(Default)]
struct Observer {
    numbers: HashSet<(QpId, Token, u64)>,
    same_number: u64,
}

impl Visitor for Observer {
    fn pass(&mut self, packet: &[u8], _near: &Face, far: &Face) {
        if let Ok(Packet::Sealed(header)) = Packet::decode(packet) {
            let number = (header.qp, header.token, header.number);
            self.same_number += u64::from(!self.numbers.insert(number));
        }
        far.send(packet);
    }
}

#[test]
fn a_child_sends_nothing_over_its_parents_connections() {
    for progress in [Progress::Threads(1), Progress::Application] {
        let security = Some(Security::new(Key::new([7; 32])));
        let a =
            Side::new(&EngineConfig { security: security.clone(), progress, ..local() }, |_| {});
        let b = Side::new(&EngineConfig { security, ..local() }, |_| {});
        let listener = b.engine.listen(4).unwrap();
        let relay = Relay::start(listener.local_addr(), Observer::default());
        let pair = Pair::connected([a, b], &listener, relay.addr(), &[]);
        write(&pair);
        // Waits for late acknowledgements, so that both ends have the same state.
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: the child makes only calls that end by themselves, and exits without unwinding.
        // No other thread holds a lock for longer than a packet takes. A child that hangs is found
        // below.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _ = pair.a.qp.modify(QpState::Error);
            let _ = pair.a.qp.modify(QpState::Reset);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        for _ in 0..4 {
            write(&pair);
        }
        wait_for(child);
        std::thread::sleep(Duration::from_millis(50));
        let Observer { numbers, same_number } = relay.stop();
        assert!(numbers.len() >= 5, "{} packets seen", numbers.len());
        assert_eq!(same_number, 0, "{progress:?}: the child has used numbers of its parent");
    }
}

#[test]
fn a_child_drops_the_engines_of_its_parent_without_a_panic_and_without_effect() {
    for progress in [Progress::Threads(1), Progress::Application] {
        let config = EngineConfig { progress, ..local() };
        let [a, b] = [Side::new(&config, |_| {}), Side::new(&local(), |_| {})];
        let listener = b.engine.listen(4).unwrap();
        let pair = Pair::connected([a, b], &listener, listener.local_addr(), &[]);
        write(&pair);
        // SAFETY: the child drops what it has a copy of, and ends; a child that hangs is seen
        // below.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let dropped = catch_unwind(AssertUnwindSafe(|| drop((listener, pair))));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(dropped.is_err())) };
        }
        wait_for(child);
        for _ in 0..4 {
            write(&pair);
        }
    }
}

fn write(pair: &Pair) {
    let piece = pair.a.memory.slice(..64).unwrap();
    pair.a.qp.post_send(wr::write(1, [piece], pair.remote.at(0))).unwrap();
    pair.successes(&pair.a, 1);
}

fn wait_for(child: i32) {
    let begin = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one number.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return assert_eq!(status, 0, "the child");
        }
        assert!(begin.elapsed() < PATIENCE, "the child hangs");
        std::thread::sleep(Duration::from_millis(1));
    }
}
