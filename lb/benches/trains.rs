//! Instructions of a path's choice: under each policy, one round of trains over 64 paths. A train is picked for,
//! leaves, and is heard to have arrived.
#![allow(missing_docs, reason = "the macros make public items of all cases")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use braid_lb::{LbPolicy, Outcome, PathSet, QpPaths, Selector, Train};
use braid_wire::{PathId, Time};
use gungraun::prelude::*;

const PATHS: usize = 64;
/// Segments of a train.
const SEGMENTS: u32 = 4;
/// Trains that are on their way at a time.
const IN_FLIGHT: usize = 16;
/// Between two trains; the round trip is `IN_FLIGHT` times as long.
const SPACING: Duration = Duration::from_micros(1);

/// A queue pair that sends without a break.
struct Sender {
    paths: PathSet,
    qp: QpPaths,
    now: Time,
    psn: u32,
    in_flight: VecDeque<PathId>,
}

impl Sender {
    /// One that has gone round all paths a few times, so that they have been measured and nothing is allocated any
    /// more.
    fn warm(policy: LbPolicy) -> Self {
        let mut paths = PathSet::new(policy, PATHS, 1).expect("64 paths are few");
        let qp = paths.admit();
        let in_flight = VecDeque::with_capacity(IN_FLIGHT + 1);
        let mut sender = Sender { paths, qp, now: Time::ZERO, psn: 0, in_flight };
        (0..4 * PATHS).for_each(|_| sender.train());
        sender
    }

    fn train(&mut self) {
        self.now += SPACING;
        let train = Train { now: self.now, psn: self.psn, segments: SEGMENTS };
        let path = self.paths.pick(&mut self.qp, black_box(train));
        (0..SEGMENTS).for_each(|_| self.paths.on_sent(path, false));
        self.psn = (self.psn + SEGMENTS) & 0xFF_FFFF;
        self.in_flight.push_back(path);
        if self.in_flight.len() > IN_FLIGHT {
            self.arrival();
        }
    }

    /// The oldest train arrives. Paths differ: each is 100 ns slower than the one before.
    fn arrival(&mut self) {
        let Some(path) = self.in_flight.pop_front() else { return };
        let rtt = IN_FLIGHT as u32 * SPACING + Duration::from_nanos(100) * path.get().into();
        let outcome = Outcome::Arrived { packets: SEGMENTS, rtt, congested: false };
        self.paths.on_feedback(&mut self.qp, self.now, path, black_box(outcome));
    }
}

#[library_benchmark]
#[bench::ecmp(Sender::warm(LbPolicy::Ecmp))]
#[bench::subflow(Sender::warm(LbPolicy::Subflow))]
#[bench::round_robin(Sender::warm(LbPolicy::RoundRobin))]
#[bench::oblivious(Sender::warm(LbPolicy::Oblivious))]
#[bench::pro(Sender::warm(LbPolicy::Pro))]
#[bench::psn(Sender::warm(LbPolicy::Psn))]
#[bench::dr(Sender::warm(LbPolicy::Dr))]
#[bench::reps(Sender::warm(LbPolicy::Reps))]
#[bench::plb(Sender::warm(LbPolicy::Plb))]
#[bench::min_rtt(Sender::warm(LbPolicy::MinRtt))]
#[bench::two_choice(Sender::warm(LbPolicy::TwoChoice))]
fn round(mut sender: Sender) -> Sender {
    (0..PATHS).for_each(|_| sender.train());
    sender
}

library_benchmark_group!(name = trains, benchmarks = round);
main!(library_benchmark_groups = trains);
