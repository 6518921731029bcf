//! The cases: messages of a size in one direction, in both, or as a ping-pong.

use serde::Serialize;

use crate::peer::metrics::{GOODPUT, MESSAGE_RATE, ONE_WAY_P50};

/// The cases of one table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Family {
    OneWay,
    Paths,
    BothWays,
    QueuePairs,
    MessageRate,
    LatencySpinning,
    LatencyBlocking,
    Keyed,
    KeyedLatency,
}

/// One comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(super) struct CompareCase {
    pub(super) family: Family,
    pub(super) mtu: u32,
    /// Bytes of a message.
    pub(super) size: u64,
    pub(super) queue_pairs: u32,
}

pub(super) const ALL: [Family; 9] = [
    Family::OneWay,
    Family::Paths,
    Family::BothWays,
    Family::QueuePairs,
    Family::MessageRate,
    Family::LatencySpinning,
    Family::LatencyBlocking,
    Family::Keyed,
    Family::KeyedLatency,
];

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const BULK: [u64; 3] = [4 * KIB, 64 * KIB, MIB];
const BULK_FULL: [u64; 9] = [8, 64, 512, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 64 * MIB];
const LARGE: [u64; 2] = [64 * KIB, MIB];
const SMALL: [u64; 1] = [8];
const SMALL_FULL: [u64; 3] = [8, 64, 512];
const TO_AND_FRO_FULL: [u64; 3] = [8, 4 * KIB, 64 * KIB];
const QUEUE_PAIRS: [u32; 3] = [1, 16, 1000];
/// Bytes of a message in the family that varies the number of queue pairs.
const QUEUE_PAIR_SIZE: u64 = 4 * KIB;

impl Family {
    /// Returns the name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Family::OneWay => "one-way",
            Family::Paths => "paths",
            Family::BothWays => "both-ways",
            Family::QueuePairs => "queue-pairs",
            Family::MessageRate => "message-rate",
            Family::LatencySpinning => "latency-spinning",
            Family::LatencyBlocking => "latency-blocking",
            Family::Keyed => "keyed",
            Family::KeyedLatency => "keyed-latency",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Family::OneWay => "goodput in one direction",
            Family::Paths => "goodput in one direction on one link, on many paths and on one",
            Family::BothWays => "goodput in both directions at once, added",
            Family::QueuePairs => "goodput of many queue pairs, 4 KiB",
            Family::MessageRate => "small messages",
            Family::LatencySpinning => "half a round trip, both ends spinning",
            Family::LatencyBlocking => "half a round trip, both ends sleeping while nothing comes",
            Family::Keyed => "goodput in one direction of protected connections",
            Family::KeyedLatency => "half a round trip of protected connections",
        }
    }

    /// Returns the metric that contestants are compared by.
    pub(super) fn metric(self) -> &'static str {
        match self {
            Family::OneWay
            | Family::Paths
            | Family::BothWays
            | Family::QueuePairs
            | Family::Keyed => GOODPUT,
            Family::MessageRate => MESSAGE_RATE,
            Family::LatencySpinning | Family::LatencyBlocking | Family::KeyedLatency => ONE_WAY_P50,
        }
    }

    pub(super) fn is_latency(self) -> bool {
        self.metric() == ONE_WAY_P50
    }

    /// Returns whether both ends of Braid spin while they wait for one message.
    pub(super) fn spins(self) -> bool {
        matches!(self, Family::LatencySpinning | Family::KeyedLatency)
    }

    /// Returns the cases at one MTU: a minimal selection, or all.
    pub(super) fn cases(self, mtu: u32, full: bool) -> Vec<CompareCase> {
        let case = |size, queue_pairs| CompareCase { family: self, mtu, size, queue_pairs };
        let of = |sizes: &[u64]| sizes.iter().map(|size| case(*size, 1)).collect();
        match (self, full) {
            (Family::OneWay | Family::Paths, false) => of(&BULK),
            (Family::OneWay | Family::Paths, true) => of(&BULK_FULL),
            (Family::BothWays | Family::Keyed, false) => of(&LARGE),
            (Family::BothWays | Family::Keyed, true) => of(&BULK_FULL[3..]),
            (Family::QueuePairs, _) => {
                QUEUE_PAIRS.iter().map(|number| case(QUEUE_PAIR_SIZE, *number)).collect()
            }
            (Family::MessageRate, true) => of(&SMALL_FULL),
            (_, true) => of(&TO_AND_FRO_FULL),
            (_, false) => of(&SMALL),
        }
    }
}

impl CompareCase {
    /// Returns the sending and the receiving host of each direction, by their numbers.
    pub(super) fn directions(&self) -> &'static [(usize, usize)] {
        if self.family == Family::BothWays { &[(1, 0), (0, 1)] } else { &[(1, 0)] }
    }
}
