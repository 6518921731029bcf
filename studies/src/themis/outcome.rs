//! The measurements of a run.

use braid_sim::simulation::{Plan, Simulation};
use braid_sim::time::{Ps, Rate};

/// The summary of a run.
#[derive(Clone, Debug)]
pub(super) struct ThemisOutcome {
    /// Delivery time of the last message: the slowest group's completion time.
    pub(super) completion_us: f64,
    /// Share of retransmissions among all packets sent.
    pub(super) resent: f64,
    /// Mean sending rate of flows, including retransmissions, as a share of the link's.
    pub(super) sending_rate: f64,
    /// Mean throughput without retransmissions, as a share of the link's.
    pub(super) throughput: f64,
    /// Number of packets lost.
    pub(super) drops: u64,
    /// Number of pause frames.
    pub(super) pauses: u64,
    /// Number of retransmission time-outs.
    pub(super) timeouts: u64,
    /// Number of packets retransmitted.
    pub(super) again: u64,
    /// Number of packets with a congestion mark.
    pub(super) marks: u64,
    /// Number of packets sent.
    pub(super) packets: u64,
    /// The first flow, by interval.
    pub(super) trace: Vec<Sample>,
}

/// A sample of a flow over an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// The end of the interval.
    pub(super) at_us: f64,
    /// Share of retransmissions among the packets sent.
    pub(super) resent: f64,
    /// Rate, including retransmissions.
    pub(super) gbps: f64,
}

/// Runs a plan. Rates are means over the time in which messages were in flight. `packet`: bytes of
/// a full packet; `interval`: that of the first flow's trace, if requested.
pub(super) fn measure(plan: Plan, rate: Rate, packet: u32, interval: Option<Ps>) -> ThemisOutcome {
    let (name, seed) = (format!("{:?}", plan.network.policy), plan.seed);
    let mut run = Simulation::new(plan);
    let mut trace = Trace::new(rate, packet, interval);
    let failed = |error| panic!("{name}, seed {seed}: {error}");
    while !run.is_done() {
        run.step().unwrap_or_else(failed);
        trace.look(&run);
    }
    run.run().unwrap_or_else(failed); // checks the invariants of the empty network
    let counters = run.hosts.counters();
    let spans = run.spans().iter().map(|span| span.delivered.since(span.posted).0);
    let busy = spans.sum::<u64>() as f64 / rate.time_for(packet).0 as f64;
    let last = run.spans().iter().map(|span| span.delivered).max().unwrap_or(Ps::ZERO);
    let (sent, again) = (counters.segments_sent as f64, counters.retransmitted as f64);
    ThemisOutcome {
        completion_us: last.as_micros_f64(),
        resent: again / sent,
        sending_rate: sent / busy,
        throughput: (sent - again) / busy,
        drops: run.fabric.ledger.losses(),
        pauses: run.fabric.ledger.pauses,
        timeouts: counters.timeouts,
        again: counters.retransmitted,
        marks: counters.ecn_marks,
        packets: counters.segments_sent,
        trace: trace.samples,
    }
}

/// The trace of the first flow.
struct Trace {
    interval: Option<Ps>,
    next: Ps,
    wire: Ps,
    rate: Rate,
    /// Packets sent and retransmitted until the last sample.
    before: (u64, u64),
    samples: Vec<Sample>,
}

impl Trace {
    fn new(rate: Rate, packet: u32, interval: Option<Ps>) -> Trace {
        let next = interval.unwrap_or(Ps::NEVER);
        let wire = rate.time_for(packet);
        Trace { interval, next, wire, rate, before: (0, 0), samples: Vec::new() }
    }

    fn look(&mut self, run: &Simulation) {
        let Some(interval) = self.interval.filter(|_| run.events.now() >= self.next) else {
            return;
        };
        if run.spans()[0].delivered < self.next {
            self.interval = None; // this one is not whole
            return;
        }
        let counters = run.hosts.sender_counters(0);
        let (sent, again) = (counters.segments_sent, counters.retransmitted);
        let (new, new_again) = (sent - self.before.0, again - self.before.1);
        let share = (new * self.wire.0) as f64 / interval.0 as f64;
        self.samples.push(Sample {
            at_us: self.next.as_micros_f64(),
            resent: new_again as f64 / new.max(1) as f64,
            gbps: share * self.rate.bps() as f64 / 1e9,
        });
        self.before = (sent, again);
        self.next += interval;
    }
}
