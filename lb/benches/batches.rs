//! Instruction counts of path picks: one round of batches over 64 paths under each policy. Each
//! batch is picked for, sent and acknowledged.
#![allow(missing_docs, reason = "the macros make public items of all cases")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use braid_lb::{Batch, LbPolicy, Outcome, PathSet, StreamId};
use braid_wire::{PathId, Time};
use gungraun::prelude::*;

const PATHS: usize = 64;
/// Segments of a batch.
const SEGMENTS: u32 = 4;
/// Batches in flight.
const IN_FLIGHT: usize = 16;
/// Interval between batches. The round trip is `IN_FLIGHT` times as long.
const SPACING: Duration = Duration::from_micros(1);

/// A queue pair that sends without a pause.
struct Sender {
    paths: PathSet,
    stream: StreamId,
    now: Time,
    psn: u32,
    in_flight: VecDeque<PathId>,
}

impl Sender {
    /// Creates a sender that has used all paths several times, so that they are measured and
    /// nothing more is allocated.
    fn warm(policy: LbPolicy) -> Self {
        let mut paths = PathSet::new(policy, PATHS, 1).expect("64 paths are few");
        let stream = paths.admit();
        let in_flight = VecDeque::with_capacity(IN_FLIGHT + 1);
        let mut sender = Sender { paths, stream, now: Time::ZERO, psn: 0, in_flight };
        (0..4 * PATHS).for_each(|_| sender.batch());
        sender
    }

    fn batch(&mut self) {
        self.now += SPACING;
        let batch = Batch { now: self.now, psn: self.psn, segments: SEGMENTS };
        let path = self.paths.pick(self.stream, black_box(batch));
        (0..SEGMENTS).for_each(|_| self.paths.on_sent(path, 1, false));
        self.psn = (self.psn + SEGMENTS) & 0xFF_FFFF;
        self.in_flight.push_back(path);
        if self.in_flight.len() > IN_FLIGHT {
            self.arrival();
        }
    }

    /// Acknowledges the oldest batch. Each path is 100 ns slower than the previous one.
    fn arrival(&mut self) {
        let Some(path) = self.in_flight.pop_front() else { return };
        let rtt = IN_FLIGHT as u32 * SPACING + Duration::from_nanos(100) * path.get().into();
        let outcome = Outcome::Arrived { packets: SEGMENTS, rtt, congested: false };
        self.paths.on_feedback(self.stream, self.now, path, black_box(outcome));
    }
}

#[library_benchmark]
#[bench::ecmp(Sender::warm(LbPolicy::ECMP))]
#[bench::subflow(Sender::warm(LbPolicy::SUBFLOW))]
#[bench::round_robin(Sender::warm(LbPolicy::ROUND_ROBIN))]
#[bench::oblivious(Sender::warm(LbPolicy::OBLIVIOUS))]
#[bench::pro(Sender::warm(LbPolicy::PRO))]
#[bench::adaptive(Sender::warm(LbPolicy::ADAPTIVE))]
#[bench::psn(Sender::warm(LbPolicy::PSN))]
#[bench::dr(Sender::warm(LbPolicy::DR))]
#[bench::reps(Sender::warm(LbPolicy::REPS))]
#[bench::plb(Sender::warm(LbPolicy::PLB))]
#[bench::min_rtt(Sender::warm(LbPolicy::MIN_RTT))]
#[bench::two_choice(Sender::warm(LbPolicy::TWO_CHOICE))]
fn round(mut sender: Sender) -> Sender {
    (0..PATHS).for_each(|_| sender.batch());
    sender
}

library_benchmark_group!(name = batches, benchmarks = round);
main!(library_benchmark_groups = batches);
