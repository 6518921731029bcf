//! The metrics; their names in the JSON have units.

use std::collections::BTreeMap;

use serde::Serialize;

/// The metrics in the order of the tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// Arrived payload over the payload capacity of the bottleneck. The sum over processes, whose
    /// times differ slightly, may exceed 1 by a few percent.
    GoodputOverCapacity,
    /// Shares of the bottleneck's rate that Braid and TCP get, including headers, after the first
    /// third of the run.
    BraidShare,
    TcpShare,
    /// Fairness among queue pairs of all processes.
    JainIndex,
    /// Share of the rate left by cross traffic that Braid uses while it is on and off, including
    /// headers.
    LeftUsedOn,
    LeftUsedOff,
    /// Utilisation of the least and the most used link, including headers.
    LinkUseMin,
    LinkUseMax,
    /// Retransmitted segments over segments sent.
    ResentPercent,
    /// Retransmitted segments that had arrived, over segments sent.
    SpuriousPercent,
    /// Packets that found the bottleneck's queue full, over packets that reached it.
    LossPercent,
    /// Marked packets over packets that reached the bottleneck.
    MarkedPercent,
    /// Time in the bottleneck's queue: the round trip beyond that with empty queues.
    QueueP50Ms,
    QueueP99Ms,
    /// Retransmission time-outs.
    Timeouts,
    /// Delay of the emulator's deliveries. Queueing delays below it mean little.
    EmulatorLateP99Ms,
}

/// The figures of one run.
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
