//! What client and server agree on. It travels as private data of the connections, and as messages
//! on a control queue pair, all in JSON: a few hundred bytes, before and between measurements only.

use std::time::Duration;

use braid::LossRecovery;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cli::{AtomicKind, Test};
use crate::degraded::Degraded;
use crate::failure::Failure;
use crate::report::Figures;
use crate::traffic::{OutOfOrder, Traffic};

/// The whole run, told with the first connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) test: Test,
    pub(crate) qps: u32,
    pub(crate) verify: bool,
    pub(crate) bidirectional: bool,
    /// Both sides of a latency test sleep while there is no completion.
    pub(crate) events: bool,
    pub(crate) atomic: AtomicKind,
    /// Of the data queue pairs of both sides.
    #[serde(with = "by_name")]
    pub(crate) loss_recovery: LossRecovery,
    /// Work requests that the queues of a queue pair hold.
    pub(crate) sends: u32,
    pub(crate) receives: u32,
    /// Slots of memory per queue pair, which its messages use in turn, and the bytes of each: the largest message.
    pub(crate) slots: u32,
    pub(crate) slot_len: u64,
}

impl Plan {
    /// Bytes that one queue pair's slots take.
    pub(crate) fn qp_bytes(&self) -> u64 {
        u64::from(self.slots) * self.slot_len
    }

    /// Where a slot begins in the memory of one side.
    pub(crate) fn slot_offset(&self, qp: usize, slot: u64) -> u64 {
        qp as u64 * self.qp_bytes() + slot % u64::from(self.slots) * self.slot_len
    }

    /// How long the other side may take to make its memory, at 64 MiB/s: it accepts when all pages are in place.
    pub(crate) fn time_for_memory(&self) -> Duration {
        Duration::from_secs(self.total_bytes() >> 26)
    }

    /// Memory of one direction, for all queue pairs.
    pub(crate) fn total_bytes(&self) -> u64 {
        u64::from(self.qps) * self.qp_bytes()
    }
}

/// Private data of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Join {
    /// The control queue pair, which comes first, with the client's memory.
    Control(Plan, Regions),
    /// A data queue pair, by its number.
    Data(u32),
}

/// The address, length and key of the exposed memory and of the credit words.
pub(crate) type Regions = ([u64; 3], [u64; 3]);

/// One measurement: all messages have this size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Phase {
    pub(crate) size: u64,
    pub(crate) extent: Extent,
    /// Messages outstanding per queue pair.
    pub(crate) depth: u32,
}

/// How long a measurement goes on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Extent {
    /// For so many messages per queue pair.
    Messages(u64),
    /// For so long; each side that transmits looks at its own clock.
    Time(Duration),
}

/// What the client says on the control queue pair.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Get ready for this; answer when so.
    Begin(Phase),
    /// That was all: so many messages were sent to you, over all queue pairs. Report when you have them.
    End { sent: u64 },
    /// That is what the phase has come to, to be shown.
    Show(Figures),
    /// No more phases.
    Quit,
}

/// What the server says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Ready,
    /// How the phase went on the server's side.
    Report(SideReport),
}

/// What one side has to say of a phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SideReport {
    /// Messages whose every byte was checked.
    pub(crate) verified: u64,
    /// Messages this side sent, when both directions run.
    pub(crate) sent: u64,
    /// Those of them that count: all, or those that had ended when its time was over.
    pub(crate) counted: u64,
    /// In which time those had ended, where the phase has one.
    pub(crate) counted_in: Duration,
    /// CPU time of the process during the phase.
    pub(crate) cpu_s: f64,
    /// What its queue pairs counted during the phase.
    pub(crate) traffic: Traffic,
    /// In what order packets came to it.
    pub(crate) order: OutOfOrder,
    /// Paths to the other side that were in use at its end.
    pub(crate) paths_live: usize,
    /// The degradations of its connections.
    pub(crate) degraded: Vec<Degraded>,
}

/// A policy travels as the name that users type.
mod by_name {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        value: &impl Display,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data has a JSON form")
}

pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::Peer(format!(
            "sent what is not braid-perf's ({error}); do both run the same version?"
        ))
    })
}
