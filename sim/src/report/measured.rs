//! The numbers measured in one run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::by_size::{SizeTimes, by_size};
use super::resources::peak_rss_mb;
use super::timeouts;
use crate::fabric::Loss;
use crate::scenario::place::layer_name;
use crate::simulation::{MessageSpan, Simulation};
use crate::time::Ps;
use crate::topology::{Node, PortId, Tier};
use crate::workload::Workload;

/// The results of one run. Field names carry the unit; those without one are counts.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// The seed of all random choices.
    pub seed: u64,
    /// Time from the start of the run to the last completion at a sender, or to the end of the last
    /// computation.
    pub cct_us: f64,
    /// A lower bound of that time: [`crate::workload::bounds::of_workload`].
    pub lower_bound_us: f64,
    /// The completion time over the lower bound.
    pub slowdown: f64,
    /// The payload of all messages over the completion time.
    pub goodput_gbps: f64,
    /// Time of a message from its start to its completion at the sender.
    pub message_us: MessageTimes,
    /// This time divided by that of the same message alone in the fabric, see
    /// [`crate::workload::bounds::Alone`].
    pub message_slowdown: MessageTimes,
    /// Both by size, see [`SizeTimes`]. Keys are the most bytes of each class of sizes.
    pub message_us_by_size: BTreeMap<u64, SizeTimes>,
    /// Maximum number of packets in the queue of a switch's port, including the one being sent.
    pub max_queue_packets: u32,
    /// The same maximum by layer, including the interfaces (`host_to_edge`).
    pub max_queue_packets_by_layer: BTreeMap<String, u32>,
    /// Maximum number of bytes in the queue of a switch's port.
    pub max_queue_bytes: u64,
    /// Number of data packets sent, including retransmissions.
    pub data_packets: u64,
    /// Number of retransmissions.
    pub retransmissions: u64,
    /// Number of retransmissions of segments that had arrived already.
    pub spurious: u64,
    /// Share of spurious retransmissions among all data packets, 0 to 1.
    pub spurious_share: f64,
    /// Number of acknowledgements sent.
    pub acks: u64,
    /// Number of time-outs.
    pub timeouts: u64,
    /// Share of the completion time that the message which ended last, and those that it waited
    /// for, spent waiting for time-outs, 0 to 1.
    pub timeout_share: f64,
    /// Number of payloads trimmed by full queues.
    pub trims: u64,
    /// Number of packets lost, by reason.
    pub drops: Drops,
    /// Number of congestion marks set by switches.
    pub ecn_marks: u64,
    /// Number of congestion marks by layer.
    pub ecn_marks_by_layer: BTreeMap<String, u64>,
    /// Number of times that a link was paused.
    pub pauses: u64,
    /// 99th percentile over data packets of the largest PSN received in order minus the packet's
    /// own PSN.
    pub ooo_p99: u64,
    /// Maximum of this difference.
    pub ooo_max: u64,
    /// Number of events of the simulation.
    pub events: u64,
    /// Processor time of the run, including set-up.
    pub cpu_s: f64,
    /// Data packets per second of processor time.
    pub packets_per_cpu_s: f64,
    /// Peak memory of the whole process so far. `None`: the kernel does not report it.
    pub peak_rss_mb: Option<f64>,
    /// The times of each group, in order of number.
    pub groups: Vec<GroupTimes>,
}

/// Number of packets lost, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Drops {
    /// All lost packets.
    pub total: u64,
    /// Packets lost at a full queue.
    pub no_room: u64,
    /// Packets lost on a link that was down.
    pub link_down: u64,
    /// Packets without a route.
    pub no_route: u64,
    /// Packets lost on a lossy link.
    pub lossy_link: u64,
}

/// Times of messages, each from its own start, or their slowdowns.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct MessageTimes {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// Times of the messages of a group.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct GroupTimes {
    /// The number of the group.
    pub group: u32,
    /// Number of messages.
    pub messages: u32,
    /// Start of the first message or step.
    pub started_us: f64,
    /// Last completion at a sender, or the end of the last step.
    pub completed_us: f64,
    /// Time of a message from its start to its completion at the sender.
    pub message_us: MessageTimes,
}

impl Measured {
    /// Measures a run that is done.
    pub fn new(run: &Simulation, seed: u64, lower_bound: Ps, cpu: Duration) -> Measured {
        let (counters, ledger) = (run.hosts.counters(), &run.fabric.ledger);
        let cct = run.completion_time();
        let bytes: u64 = run.workload().messages.iter().map(|message| message.bytes).sum();
        let in_order = counters.segments_received.saturating_sub(counters.out_of_order);
        let degrees = run.hosts.ooo_degrees();
        let lost = |loss: Loss| ledger.dropped[loss as usize];
        let queues = Queues::of(run);
        let (message_us_by_size, message_slowdown) = by_size(run);
        let all = run.spans().iter().map(MessageSpan::took_us);
        Measured {
            seed,
            cct_us: cct.as_micros_f64(),
            lower_bound_us: lower_bound.as_micros_f64(),
            slowdown: ratio(cct.0 as f64, lower_bound.0 as f64),
            goodput_gbps: ratio(bytes as f64 * 8e-9, cct.as_secs_f64()),
            message_us: MessageTimes::of(all.collect()),
            message_slowdown,
            message_us_by_size,
            max_queue_packets: queues.packets,
            max_queue_packets_by_layer: queues.packets_by_layer,
            max_queue_bytes: queues.bytes,
            data_packets: counters.segments_sent,
            retransmissions: counters.retransmitted,
            spurious: counters.spurious,
            spurious_share: ratio(counters.spurious as f64, counters.segments_sent as f64),
            acks: counters.acks_sent,
            timeouts: counters.timeouts,
            timeout_share: ratio(timeouts::on_critical_path(run).0 as f64, cct.0 as f64),
            trims: ledger.trimmed,
            drops: Drops {
                total: ledger.losses(),
                no_room: lost(Loss::NoRoom),
                link_down: lost(Loss::LinkDown),
                no_route: lost(Loss::NoRoute),
                lossy_link: lost(Loss::LossyLink),
            },
            ecn_marks: queues.marks,
            ecn_marks_by_layer: queues.marks_by_layer,
            pauses: ledger.pauses,
            ooo_p99: degrees.quantile(0.99, in_order),
            ooo_max: degrees.quantile(1.0, in_order),
            events: run.handled(),
            cpu_s: cpu.as_secs_f64(),
            packets_per_cpu_s: ratio(counters.segments_sent as f64, cpu.as_secs_f64()),
            peak_rss_mb: peak_rss_mb(),
            groups: groups(run),
        }
    }
}

/// Returns a quotient, or 0 if the divisor is 0.
pub(super) fn ratio(of: f64, to: f64) -> f64 {
    if to == 0.0 { 0.0 } else { of / to }
}

/// Maxima over the ports of a fabric.
#[derive(Default)]
struct Queues {
    packets: u32,
    bytes: u64,
    packets_by_layer: BTreeMap<String, u32>,
    marks: u64,
    marks_by_layer: BTreeMap<String, u64>,
}

impl Queues {
    fn of(run: &Simulation) -> Queues {
        let topology = &run.fabric.topology;
        let mut queues = Queues::default();
        for (port, index) in run.fabric.ports.iter().zip(0..) {
            let layer = topology.layer(PortId(index));
            let most = queues.packets_by_layer.entry(layer_name(layer)).or_default();
            *most = port.max_packets.max(*most);
            if matches!(port.from, Node::Switch(_)) {
                assert!(layer.from != Tier::Host, "port {index} of a switch is in a host's layer");
                queues.packets = queues.packets.max(port.max_packets);
                queues.bytes = queues.bytes.max(port.max_bytes);
                queues.marks += port.marked;
                *queues.marks_by_layer.entry(layer_name(layer)).or_default() += port.marked;
            }
        }
        queues
    }
}

impl MessageTimes {
    /// Sums up times in microseconds, or slowdowns.
    pub(super) fn of(mut values: Vec<f64>) -> MessageTimes {
        values.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        MessageTimes {
            mean: ratio(values.iter().sum(), values.len() as f64),
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// Returns the times of the groups. A group is completed when its messages and its steps are.
fn groups(run: &Simulation) -> Vec<GroupTimes> {
    let Workload { messages, steps } = run.workload();
    let mut by_number: BTreeMap<u32, (Vec<&MessageSpan>, Ps, Ps)> = BTreeMap::new();
    let never = || (Vec::new(), Ps::NEVER, Ps::ZERO);
    for (message, span) in messages.iter().zip(run.spans()) {
        let (spans, started, completed) = by_number.entry(message.group).or_insert_with(never);
        spans.push(span);
        *started = span.posted.min(*started);
        *completed = span.acknowledged.max(*completed);
    }
    for (step, number) in steps.iter().zip(0..) {
        let (_, started, completed) = by_number.entry(step.group).or_insert_with(never);
        let (start, done) = run.step_span(number);
        *started = start.min(*started);
        *completed = done.max(*completed);
    }
    let times = |(group, (spans, started, completed)): (u32, (Vec<&MessageSpan>, Ps, Ps))| {
        let took = spans.iter().map(|span| span.took_us());
        GroupTimes {
            group,
            messages: spans.len() as u32,
            started_us: started.as_micros_f64(),
            completed_us: completed.as_micros_f64(),
            message_us: MessageTimes::of(took.collect()),
        }
    };
    by_number.into_iter().map(times).collect()
}
