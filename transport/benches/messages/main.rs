//! Instructions of the protocol for a message, both ends together: what [`braid_transport`] and the
//! path policy take, without the bytes of headers and payloads.
#![allow(missing_docs, reason = "the macros make public items of all cases")]

mod hosts;
#[path = "../../tests/kit/mod.rs"]
mod kit;

use std::time::Duration;

use gungraun::prelude::*;

use self::hosts::Pair;

const MIB: u32 = 1 << 20;

/// There and back, so often.
const ROUNDS: usize = 16;

#[library_benchmark]
#[bench::send_8_bytes(Pair::warm(0.0, Duration::ZERO))]
fn ping_pong(mut pair: Pair) -> Pair {
    for _ in 0..ROUNDS {
        pair.send(0, 8);
        pair.send(1, 8);
    }
    pair.settle();
    pair
}

#[library_benchmark]
#[bench::one_mib(Pair::warm(0.0, Duration::ZERO))]
fn write(mut pair: Pair) -> Pair {
    pair.write(0, 1, MIB);
    pair.settle();
    pair
}

// One packet in a hundred is lost, acknowledgements too; fifo-path finds out which.
#[library_benchmark]
#[bench::sixteen_mib(Pair::warm(0.01, Duration::from_nanos(500)))]
fn write_with_losses(mut pair: Pair) -> Pair {
    pair.write(0, 16, MIB);
    pair.settle();
    assert!(pair.lost() > 20, "4096 segments, of which {} were lost", pair.lost());
    pair
}

library_benchmark_group!(name = messages, benchmarks = [ping_pong, write, write_with_losses]);
main!(library_benchmark_groups = messages);
