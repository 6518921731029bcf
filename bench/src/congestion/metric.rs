//! What is measured; the names are those of the JSON, with their units.

use std::collections::BTreeMap;

use serde::Serialize;

/// In the order in which tables show them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// Payload that has arrived, by payload that the bottleneck carries. The sum over processes, whose times do not quite
    /// coincide, may pass 1 by a few percent.
    GoodputOverCapacity,
    /// What of the bottleneck's rate Braid and TCP have, headers included, after the first third of the run.
    BraidShare,
    TcpShare,
    /// Fairness among queue pairs, of all processes.
    JainIndex,
    /// What Braid has of what cross traffic leaves, while there is some and while there is none, headers included.
    LeftUsedOn,
    LeftUsedOff,
    /// What passes the least and the most used link, by its rate, headers included.
    LinkUseMin,
    LinkUseMax,
    /// Segments sent again, by segments sent.
    ResentPercent,
    /// Segments sent again that had arrived, by segments sent.
    SpuriousPercent,
    /// Packets that found the bottleneck's queue full, by packets that came to it.
    LossPercent,
    /// Packets that were marked, by the same.
    MarkedPercent,
    /// Time in the bottleneck's queue: what a round trip takes beyond the one with empty queues.
    QueueP50Ms,
    QueueP99Ms,
    /// Retransmission time-outs.
    Timeouts,
    /// How long after its time the emulator has delivered a packet: above the queueing delays that are measured, they mean
    /// little.
    EmulatorLateP99Ms,
}

/// What one run came to.
pub(super) type Measured = BTreeMap<Metric, f64>;

impl Metric {
    pub(super) fn heading(self) -> &'static str {
        match self {
            Metric::GoodputOverCapacity => "goodput/capacity",
            Metric::BraidShare => "braid's share",
            Metric::TcpShare => "TCP's",
            Metric::JainIndex => "Jain index",
            Metric::LeftUsedOn => "left, used: cross on",
            Metric::LeftUsedOff => "cross off",
            Metric::LinkUseMin => "link use min",
            Metric::LinkUseMax => "max",
            Metric::ResentPercent => "resent [%]",
            Metric::SpuriousPercent => "needlessly [%]",
            Metric::LossPercent => "loss [%]",
            Metric::MarkedPercent => "marked [%]",
            Metric::QueueP50Ms => "queue p50 [ms]",
            Metric::QueueP99Ms => "p99 [ms]",
            Metric::Timeouts => "time-outs",
            Metric::EmulatorLateP99Ms => "emulator late p99 [ms]",
        }
    }

    pub(super) fn decimals(self) -> usize {
        match self {
            Metric::Timeouts => 0,
            Metric::ResentPercent
            | Metric::SpuriousPercent
            | Metric::LossPercent
            | Metric::MarkedPercent
            | Metric::QueueP50Ms
            | Metric::QueueP99Ms
            | Metric::EmulatorLateP99Ms => 2,
            _ => 3,
        }
    }
}
