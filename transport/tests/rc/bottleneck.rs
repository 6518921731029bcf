//! Two connections share a link that marks: its queue, their shares, and losses.

use std::collections::VecDeque;
use std::time::Duration;

use braid_cc::ReactionPointConfig;
use braid_transport::{QpConfig, RemoteAddr, SendOp, Status};
use braid_wire::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::kit::Wire;
use crate::pair::Pair;

const BITS_PER_SECOND: u64 = 1_000_000_000;
/// Packets that the queue of the link holds.
const QUEUE: usize = 120;
/// RED as in the paper (section 5): the packets in the queue from which the link marks, and those
/// at which it marks this share. It marks every packet if there are more.
const MARKS_FROM: usize = 5;
const MARKS_TO: usize = 50;
const SHARE: f64 = 0.1;
/// Each way, without the queue.
const DELAY: Duration = Duration::from_micros(10);
const MESSAGE: u32 = 64 << 10;
const OUTER_HEADERS: u64 = 42;

/// Makes an operation on memory of the peer.
type MakeOp = fn(RemoteAddr) -> SendOp;

/// The link from the senders of data to their receivers.
struct Link {
    rng: Pcg64Mcg,
    /// When each packet of the queue has left.
    leaving: VecDeque<Time>,
    lost: u64,
    longest: usize,
}

impl Link {
    /// Takes a packet. Returns the time at which it has left, and whether it is marked.
    fn take(&mut self, now: Time, bytes: usize) -> Option<(Time, bool)> {
        while self.leaving.front().is_some_and(|at| *at <= now) {
            self.leaving.pop_front();
        }
        let queued = self.leaving.len();
        if queued >= QUEUE {
            self.lost += 1;
            return None;
        }
        let share = match queued {
            MARKS_TO.. => 1.0,
            MARKS_FROM.. => SHARE * (queued - MARKS_FROM) as f64 / (MARKS_TO - MARKS_FROM) as f64,
            _ => 0.0,
        };
        let nanos = (bytes as u64 + OUTER_HEADERS) * 8 * 1_000_000_000 / BITS_PER_SECOND;
        let begin = self.leaving.back().copied().unwrap_or(now);
        let left = begin + Duration::from_nanos(nanos);
        self.leaving.push_back(left);
        self.longest = self.longest.max(queued + 1);
        Some((left, self.rng.random_bool(share)))
    }
}

struct Flow {
    pair: Pair,
    /// When it begins.
    at: Time,
    posted: u64,
    /// Bytes of messages that ended in the second half of the run.
    bytes: u64,
}

struct Outcome {
    shares: [f64; 2],
    lost: u64,
    longest: usize,
}

/// Runs two connections for `lasts`. The second begins later. `sender`: the host that sends data.
fn run(op: MakeOp, sender: usize, dcqcn: bool, lasts: Duration) -> Outcome {
    let begin = Time::from_nanos(1_000_000);
    let flow = |index: u64| {
        let mut pair = Pair::with(&QpConfig::default(), |remote| {
            remote.ack_timeout = Duration::from_millis(67);
            remote.dcqcn = dcqcn.then(|| ReactionPointConfig::new(BITS_PER_SECOND));
        });
        let at = begin + Duration::from_millis(5 * index);
        pair.now = begin;
        Flow { pair, at, posted: 0, bytes: 0 }
    };
    let mut flows = [flow(0), flow(1)];
    let rng = Pcg64Mcg::seed_from_u64(1);
    let mut link = Link { rng, leaving: VecDeque::new(), lost: 0, longest: 0 };
    let mut wire: Wire<(usize, usize, Vec<u8>, bool)> = Wire::default();
    let (mut now, end) = (begin, begin + lasts);
    while now < end {
        while let Some((flow, to, bytes, congestion)) = wire.arrive(now) {
            flows[flow].pair.hosts[to].receive(now, &bytes, congestion);
        }
        let mut next = wire.next_arrival();
        for (index, flow) in flows.iter_mut().enumerate() {
            flow.pair.now = now;
            for done in flow.pair.completions(0) {
                assert_eq!(done.status, Status::Success);
                flow.posted -= 1;
                if now >= begin + lasts / 2 {
                    flow.bytes += u64::from(MESSAGE);
                }
            }
            while now >= flow.at && flow.posted < 4 {
                let far = flow.pair.far(0);
                flow.pair.post(0, op(far), MESSAGE);
                flow.posted += 1;
            }
            for host in [0, 1] {
                if flow.pair.hosts[host].qp.next_timeout().is_some_and(|at| at <= now) {
                    flow.pair.hosts[host].qp.on_timeout(now);
                }
                for (header, bytes) in flow.pair.sends(host) {
                    let is_data = host == sender && header.opcode.is_paced();
                    let left = match is_data {
                        true => link.take(now, bytes.len()),
                        false => Some((now, false)),
                    };
                    if let Some((left, congestion)) = left {
                        wire.send(left + DELAY, (index, 1 - host, bytes, congestion));
                    }
                }
                let due = flow.pair.hosts[host].qp.next_timeout();
                next = next.min(due.unwrap_or(Time::FAR_FUTURE));
            }
            if now < flow.at {
                next = next.min(flow.at);
            }
        }
        now = next.min(wire.next_arrival()).max(now + Duration::from_nanos(1));
    }
    let capacity = BITS_PER_SECOND as f64 / 8.0 * (lasts / 2).as_secs_f64();
    let shares = flows.map(|flow| flow.bytes as f64 / capacity);
    Outcome { shares, lost: link.lost, longest: link.longest }
}

#[test]
fn two_flows_with_dcqcn_share_a_marked_link_without_loss() {
    let write = |remote| SendOp::Write { remote, imm: None };
    let read = |remote| SendOp::Read { remote };
    let cases: [(&str, MakeOp, usize); 2] = [("WRITE", write, 0), ("READ", read, 1)];
    for (name, op, sender) in cases {
        let Outcome { shares: [a, b], lost, longest } =
            run(op, sender, true, Duration::from_millis(400));
        println!("{name}: shares {a:.3} and {b:.3}, {lost} lost, {longest} packets in the queue");
        assert_eq!(lost, 0, "{name}");
        assert!((a - b).abs() <= 0.2 * a.max(b), "{name}: {a} and {b}");
        assert!(a + b > 0.7, "{name}: {a} and {b}");
        let without = run(op, sender, false, Duration::from_millis(40));
        println!("{name} without: shares {:?}, {} lost", without.shares, without.lost);
        assert!(without.lost > 0, "{name}: nothing lost without DCQCN");
    }
}
